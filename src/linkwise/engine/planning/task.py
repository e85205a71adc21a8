"""Input of the planner: the members of a group, and the nodes that may take some of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.shapes import Shape
    from linkwise.engine.planning.node_capacity import NodeCapacity
    from linkwise.engine.planning.plan import Member
    from linkwise.model.node import Node

__all__ = ["Site", "Task", "model_of"]


def model_of(node: Node) -> str:
    """The model of a node's devices; several models on one node are one of their own."""
    models = {device.model for device in node.devices}
    return models.pop() if len(models) == 1 else ", ".join(sorted(models))


class Site(NamedTuple):
    """A node that may take members; a tuple, because there are as many as nodes."""

    node: Node
    shape: Shape
    ground: NodeCapacity
    path: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    """devices of members that are bound there"""
    served: frozenset[str] | None = None
    """the words of members in which it can be asked for something; None if that is so in all of them"""

    def serves(self, wanted: Query) -> bool:
        """Whether it has what is asked for at all, and hands it out in this way."""
        spoken = self.served is None or wanted.word in self.served
        return spoken and self.node.mode in {"any", wanted.ask.mode}

    @property
    def model(self) -> str:
        """Of its devices."""
        return model_of(self.node)


@dataclass(frozen=True, slots=True)
class Task:
    """What has to be planned, and by which settings."""

    members: tuple[Member, ...]
    levels: tuple[str, ...] = ()
    """names of the network's levels, the broadest first"""
    required: int = 0
    mixed: bool = False
    seed_order: bool = False
    floor: float = 0.0  # GB/s
    """how fast the devices of a member must reach each other at least, where members are placed by their links"""
    minimum: int = 0
    """members that must be placed at least; the others may be left out where not all fit"""
    fixed: frozenset[str] = field(default_factory=frozenset)
    """models of devices that bound members have: the others keep to them"""
