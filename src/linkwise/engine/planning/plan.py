"""Plan of a group: the members, nodes and capacity it is made from, and the devices of each member."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from linkwise.engine.feasibility import unfit
from linkwise.engine.planning.planner import Level  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.verdict import Offer  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Shape
    from linkwise.model.ask import Capacity, Demand, Load
    from linkwise.model.node import Node
    from linkwise.model.views import NodeView

__all__ = [
    "BoundNode",
    "Filling",
    "Member",
    "NodeCapacity",
    "Placement",
    "Plan",
    "Site",
    "Task",
    "likeness",
    "model_of",
    "most",
    "plain",
    "together",
]


@dataclass(frozen=True, slots=True)
class Member:
    """A pending pod of a group."""

    pod: str
    """its UID"""
    name: str
    wanted: Query | None
    """None if it requests no devices"""
    demand: Demand
    rank: int | None = None
    created: float = 0.0

    @property
    def size(self) -> int:
        """The number of devices it needs; 1 for a part of a device."""
        return (self.wanted.ask.devices or 1) if self.wanted else 0

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key among the members: by rank, then age, then name."""
        return (self.rank is None, self.rank or 0, self.created, self.name, self.pod)


def model_of(node: Node) -> str:
    """The model of a node's devices; a mix of models counts as a model of its own."""
    models = {device.model for device in node.devices}
    return models.pop() if len(models) == 1 else ", ".join(sorted(models))


class Site(NamedTuple):
    """A candidate node; a tuple, because one is created per node."""

    node: Node
    shape: Shape
    ground: NodeCapacity
    path: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()
    """devices of members that are bound there"""
    served: frozenset[str] | None = None
    """the dialects of the members that the node serves; None if it serves all of them"""

    def serves(self, query: Query) -> bool:
        """Whether the node provides the requested resource in the requested sharing mode."""
        provided = self.served is None or query.word in self.served
        return provided and self.node.mode in {"any", query.ask.mode}

    @property
    def model(self) -> str:
        """The model of its devices."""
        return model_of(self.node)


class BoundNode(NamedTuple):
    """A node that bound members hold devices of; it is a candidate only if it also has room for others."""

    name: str
    path: tuple[str, ...] = ()
    members: int = 1
    site: Site | None = None
    """None while its devices are unknown"""


@dataclass(frozen=True, slots=True)
class Task:
    """The members to plan and the settings to plan by."""

    members: tuple[Member, ...]
    levels: tuple[str, ...] = ()
    """names of the network levels, the broadest first"""
    required: int = 0
    mixed: bool = False
    seed_order: bool = False
    floor: float = 0.0  # GB/s
    """the least bandwidth between the devices of a member, for members placed by links"""
    minimum: int = 0
    """the least number of members to place; the others may be left out if not all fit"""
    gang: bool = False
    """whether as many members as possible are placed if not all fit; otherwise they are placed by rank"""
    distinct: bool = False
    """whether no two members are on one device"""
    bound: tuple[BoundNode, ...] = ()
    """the nodes of bound members, which count in every plan: their models, domains, devices and number"""


@dataclass(frozen=True, slots=True)
class Placement:
    """Node and devices of one member."""

    node: str
    offer: Offer | None = None
    """None for a member without devices"""


@dataclass(frozen=True, slots=True)
class Plan:
    """The placements of all members that fit."""

    placements: Mapping[str, Placement]
    """by pod UID"""
    levels: tuple[Level, ...] = ()
    region: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())
    """UIDs of members that did not fit, if the others may start without them"""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The distinct nodes of the plan."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements.values()))


class NodeCapacity:
    """A node without its devices: view, allocatable, load and the pods on it."""

    __slots__ = ("capacity", "load", "neighbours", "view")

    def __init__(
        self, view: NodeView, capacity: Capacity, load: Load, neighbours: Callable[[], Iterable[Neighbour]]
    ) -> None:
        self.view = view
        self.capacity = capacity
        self.load = load
        self.neighbours = neighbours


def plain(demand: Demand) -> bool:
    """Whether a member has requests only, without selectors, affinity or host ports."""
    constrained = demand.affinity is not None or demand.only is not None
    return not (constrained or demand.selector or demand.ports or demand.apart or demand.together or demand.crowd)


def likeness(ground: NodeCapacity) -> Hashable:
    """Everything that decides on plain members: nodes with equal values fit equally many; None if a node has no equal."""
    view, load = ground.view, ground.load
    if load.apart:
        return None
    state = (view.ready, view.unschedulable, view.taints)
    return (state, ground.capacity, load.cpu, load.memory, load.ephemeral, load.pods)


def most(demand: Demand, ground: NodeCapacity, limit: int) -> int:
    """The number of members with this demand that fit, at most `limit`."""
    # rule 001.filters: every member passes all checks with the earlier ones added.
    if limit < 1 or unfit(demand, ground.view, ground.capacity, ground.load, ground.neighbours):
        return 0
    if demand.ports or demand.apart or demand.together or demand.crowd:
        filling = Filling(ground)
        return next((count for count in range(limit) if not filling.takes(demand)), limit)
    capacity, load = ground.capacity, ground.load
    amounts = (
        (capacity.cpu, load.cpu, demand.cpu),
        (capacity.memory, load.memory, demand.memory),
        (capacity.ephemeral, load.ephemeral, demand.ephemeral),
        (capacity.pods, load.pods, 1),
    )
    return min([limit, *((has - taken) // each for has, taken, each in amounts if has is not None and each)])


def together(demands: Iterable[tuple[Demand, int]], ground: NodeCapacity) -> bool:
    """Whether the given number of members of each demand fit at once."""
    filling = Filling(ground)
    return all(filling.takes(demand) for demand, count in demands for _ in range(count))


class Filling:
    """A node on which members are placed one after the other."""

    def __init__(self, ground: NodeCapacity) -> None:
        self._ground = ground
        self._load = ground.load
        self._joined: list[Neighbour] = []

    def join(self, demand: Demand) -> None:
        """Place a member without a check."""
        self._load = self._load.plus(demand)
        self._joined.append((demand.namespace, demand.labels))

    def takes(self, demand: Demand) -> bool:
        """Place a member if it fits; false if it does not."""
        ground = self._ground
        if unfit(demand, ground.view, ground.capacity, self._load, self._beside):
            return False
        self.join(demand)
        return True

    def _beside(self) -> list[Neighbour]:
        return [*self._ground.neighbours(), *self._joined]
