"""How many equal members a node could take by all but devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.feasibility import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.demand import Capacity, Demand, Load
    from linkwise.model.views import NodeView

__all__ = ["Ground", "likeness", "most", "plain", "together"]


class Ground:
    """A node without its devices: what it has, what is taken, and who is there."""

    __slots__ = ("capacity", "load", "neighbours", "view")

    def __init__(
        self, view: NodeView, capacity: Capacity, load: Load, neighbours: Callable[[], Iterable[Neighbour]]
    ) -> None:
        self.view = view
        self.capacity = capacity
        self.load = load
        self.neighbours = neighbours


def plain(demand: Demand) -> bool:
    """Whether a member asks for amounts alone, and not to be beside or apart from anything."""
    return not (demand.selector or demand.affinity is not None or demand.ports or demand.apart or demand.together)


def likeness(ground: Ground) -> Hashable:
    """What plain members are judged by: nodes that agree in it take as many; None for one that is like no other."""
    view, load = ground.view, ground.load
    if load.apart:
        return None
    state = (view.ready, view.unschedulable, view.taints)
    return (state, ground.capacity, load.cpu, load.memory, load.ephemeral, load.pods)


def most(demand: Demand, ground: Ground, limit: int) -> int:
    """How many members with this demand fit, at most `limit`."""
    # rule 001.filters: every member passes all checks with the earlier ones added.
    if limit < 1 or unfit(demand, ground.view, ground.capacity, ground.load, ground.neighbours):
        return 0
    if demand.ports or demand.apart or demand.together:
        return _one_by_one(demand, ground, limit)
    capacity, load = ground.capacity, ground.load
    amounts = (
        (capacity.cpu, load.cpu, demand.cpu),
        (capacity.memory, load.memory, demand.memory),
        (capacity.ephemeral, load.ephemeral, demand.ephemeral),
        (capacity.pods, load.pods, 1),
    )
    return min([limit, *((has - taken) // each for has, taken, each in amounts if has is not None and each)])


def together(demands: Iterable[tuple[Demand, int]], ground: Ground) -> bool:
    """Whether so many members of each demand fit side by side."""
    load = ground.load
    joined: list[Neighbour] = []
    for demand, count in demands:
        for _ in range(count):
            if unfit(demand, ground.view, ground.capacity, load, lambda: _beside(ground, joined)):
                return False
            load = load.plus(demand)
            joined.append((demand.namespace, demand.labels))
    return True


def _one_by_one(demand: Demand, ground: Ground, limit: int) -> int:
    count = 0
    while count < limit and together([(demand, count + 1)], ground):
        count += 1
    return count


def _beside(ground: Ground, joined: list[Neighbour]) -> list[Neighbour]:
    return [*ground.neighbours(), *joined]
