"""What a node has, who has it and what it could still take: values that a person, a page or a program can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.explain.inspect import NodeInspection
    from linkwise.explain.reports.choice import Choice
    from linkwise.model.verdict import Reason

__all__ = ["NodeExplanation", "Suspect"]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Two devices between which one direction was measured so much slower than the other that it is not believed."""

    devices: tuple[int, int]  # indices
    there: float  # GB/s
    back: float  # GB/s
    counted: float  # GB/s


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """One node."""

    name: str
    devices: NodeInspection
    decided: Literal["nothing", "node", "pod"]
    """what says how it hands out its devices: nothing yet, the node itself, or its first pod"""
    decided_by: str = ""
    """that pod"""
    sick: int = 0
    """devices that do not work, of which it is not known which they are"""
    sizes: tuple[int, ...] = ()
    """numbers of whole devices that it could give to one pod now"""
    largest: Choice | None = None
    """the devices of the largest of these"""
    shared_by_all: bool = False
    """whether pods of different namespaces may share a device"""
    stops: tuple[Reason, ...] = ()
    """what would keep a small pod off whatever devices are idle"""
    suspects: tuple[Suspect, ...] = ()
    drift: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
