"""Node capacity: the number of equal members that fit a node by all constraints other than devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.feasibility import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.demand import Capacity, Demand, Load
    from linkwise.model.views import NodeView

__all__ = ["Filling", "NodeCapacity", "likeness", "most", "plain", "together"]


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
