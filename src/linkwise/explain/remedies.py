"""What would let a pod fit that no node can take now: other pods' ends, what nodes lack beside devices, a smaller ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.host_fit import misfit
from linkwise.engine.feasibility import lasting
from linkwise.explain.make_room import RoomMaking, largest_room, smaller
from linkwise.explain.reports.pod import Remedy
from linkwise.explain.survey import Survey, nearness
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.demand import Demand
    from linkwise.model.node import Node
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = ["fewer_devices", "remedies"]

MOST_NODES: Final = 64
"""nodes asked for less, those with the most to give"""
SHOWN: Final = 3


def remedies(state: State, pod: PodView, wanted: Query, found: Survey) -> tuple[Remedy, ...]:
    """All that was found, what needs least first."""
    less = _Less(state, pod, wanted, found)
    makers = RoomMaking(state, wanted, found).remedies()
    smaller_ask = less.devices() if wanted.ask.devices else [*less.memory(), *less.compute()]
    return (*makers, *_beside(found), *smaller_ask, *_other_mode(state, found))


def fewer_devices(state: State, pod: PodView, wanted: Query, demand: Demand) -> tuple[Remedy, ...]:
    """What could be had of an ask that no node whatever could serve."""
    nothing = Survey(demand, (), {}, {}, {})
    return tuple(_Less(state, pod, wanted, nothing).devices()) if wanted.ask.devices else ()


def _beside(found: Survey) -> list[Remedy]:
    """Nodes whose devices would do: one for each thing they lack, the one that lacks least."""
    # rule 002.stranded: idle devices behind full CPUs are explained when it happens.
    kinds: dict[str, list[tuple[float, str, Reason]]] = {}
    for name, reason in found.stopped.items():
        kinds.setdefault(reason.kind, []).append((-nearness(reason), name, reason))
    nearest = [(min(nodes, key=lambda node: node[:2]), len(nodes)) for nodes in kinds.values()]
    nearest.sort(key=lambda entry: (lasting(entry[0][2]), -entry[1], entry[0][1]))
    return [Remedy("beside devices", name, nodes=count, reason=reason) for (_, name, reason), count in nearest[:SHOWN]]


def _other_mode(state: State, found: Survey) -> list[Remedy]:
    """Idle devices of nodes that hand them out in another way."""
    index = state.cluster.index
    reasons = {name: reject.reason for name, reject in found.refused.items() if reject.reason.rule == "004.mode"}
    idle = {name: count for name in sorted(reasons) if (count := len(index.nodes[name].free()))}
    if not idle:
        return []
    first = max(idle, key=idle.__getitem__)
    return [Remedy("other mode", first, amount=sum(idle.values()), nodes=len(idle), reason=reasons[first])]


@dataclass(frozen=True, slots=True)
class _Less:
    """Looks for what would fit now."""

    state: State
    pod: PodView
    wanted: Query
    found: Survey

    def devices(self) -> list[Remedy]:
        """The most devices, fewer than asked for, that a node could give now."""
        counts = [(len(node.free()) - node.unattributed, name) for name, node in self._serving()]
        order = sorted(counts, key=lambda entry: (-entry[0], entry[1]))[:MOST_NODES]
        most = min(self.wanted.ask.devices - 1, order[0][0]) if order else 0
        for size in range(most, 0, -1):
            less = self.wanted._replace(ask=smaller(self.wanted.ask, devices=size))
            if less.policy.admit(less.ask):
                continue
            name = next((name for count, name in order if count >= size and self._fits(less, name)), None)
            if name is not None:
                return [Remedy("fewer devices", name, amount=size)]
        return []

    def memory(self) -> list[Remedy]:
        """The largest room on one device now."""
        rooms = [(max(node.room().values(), default=0), name) for name, node in self._serving()]
        best: Remedy | None = None
        for room, name in sorted(rooms, key=lambda entry: (-entry[0], entry[1]))[:MOST_NODES]:
            if best and room <= best.amount and not self.wanted.ask.in_bytes:
                break
            amount, device = largest_room(self.wanted, self.state.cluster.index.nodes[name])
            if amount > (best.amount if best else 0) and not self._stopped(name):
                unit = "bytes" if self.wanted.ask.in_bytes else self.state.cluster.inventories[name].unit
                best = Remedy("less memory", name, amount=amount, unit=unit, device=device)
        return [best] if best and best.amount < self.wanted.ask.share else []

    def compute(self) -> list[Remedy]:
        """The most compute left of one device, where that is what is short."""
        short = [(name, reject.reason) for name, reject in self.found.refused.items() if reject.reason.kind == "core"]
        left = [
            (-pair[1], name, pair[0])
            for name, reason in short
            for pair in (reason.found if isinstance(reason.found, tuple) else ())
            if isinstance(pair, tuple) and pair[1]
        ]
        return [Remedy("less compute", name, amount=-most, unit="%", device=at) for most, name, at in sorted(left)[:1]]

    def _serving(self) -> list[tuple[str, Node]]:
        """Nodes that have such devices, hand them out as asked for, and let the pod in."""
        index, mode = self.state.cluster.index, self.wanted.ask.mode
        return [
            (name, node)
            for name, node in index.nodes.items()
            if node.mode in {"any", mode} and name not in self.found.barred and not index.unserved(self.wanted, name)
        ]

    def _fits(self, less: Query, name: str) -> bool:
        offer = less.policy.pick(less.ask, self.state.cluster.index.nodes[name])
        return isinstance(offer, Offer) and not self._stopped(name)

    def _stopped(self, name: str) -> bool:
        return misfit(self.state.cluster, self.pod, self.found.demand, name) is not None
