"""Report on a node: its devices, their users and what still fits."""

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
    """A pair with a bad sample: one direction was measured much slower than the other."""

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
    """what sets its sharing mode: nothing yet, the node itself, or its first pod"""
    decided_by: str = ""
    """that pod"""
    unidentified: int = 0
    """unhealthy devices that are counted but not identified"""
    sizes: tuple[int, ...] = ()
    """numbers of complete devices that one pod could get now"""
    largest: Choice | None = None
    """the devices of the largest of these"""
    shared_by_all: bool = False
    """whether pods of different namespaces may share a device"""
    stops: tuple[Reason, ...] = ()
    """why even a small pod would not fit, apart from devices"""
    suspects: tuple[Suspect, ...] = ()
    linked: bool = True
    """False if its devices need link data and have none"""
    drift: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
