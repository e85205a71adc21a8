"""Finds remedies for an unschedulable pod: other pods finishing, other resources of the node, a smaller request."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.host_fit import misfit
from linkwise.broker.scheduling.queries import largest_node, split_up
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
"""nodes tried with a smaller request, those with the most free first"""
SHOWN: Final = 3


def remedies(state: State, pod: PodView, query: Query, survey: Survey) -> tuple[Remedy, ...]:
    """Return all remedies, the least intrusive first."""
    less = _Less(state, pod, query, survey)
    making = RoomMaking(state, query, survey, pod.uid)
    makers = [*making.reserved(), *making.remedies()]
    smaller_ask = less.devices() if query.ask.devices else [*less.memory(), *less.compute()]
    return (*makers, *_beside(survey), *smaller_ask, *_other_mode(state, survey))


def fewer_devices(state: State, pod: PodView, query: Query, demand: Demand) -> tuple[Remedy, ...]:
    """Return the largest smaller request that fits, for a request that no node could ever serve."""
    nothing = Survey(demand, (), {}, {}, {})
    return tuple(_Less(state, pod, query, nothing).devices()) if query.ask.devices else ()


def _beside(survey: Survey) -> list[Remedy]:
    """Return nodes with enough free devices: for each other resource they lack, the one that lacks least."""
    # rule 002.stranded: idle devices behind full CPUs are explained when it happens.
    kinds: dict[str, list[tuple[float, str, Reason]]] = {}
    for name, reason in survey.stopped.items():
        kinds.setdefault(reason.kind, []).append((-nearness(reason), name, reason))
    nearest = [(min(nodes, key=lambda node: node[:2]), len(nodes)) for nodes in kinds.values()]
    nearest.sort(key=lambda entry: (lasting(entry[0][2]), -entry[1], entry[0][1]))
    return [Remedy("beside devices", name, nodes=count, reason=reason) for (_, name, reason), count in nearest[:SHOWN]]


def _other_mode(state: State, survey: Survey) -> list[Remedy]:
    """Return idle devices of nodes in another sharing mode."""
    index = state.cluster.index
    reasons = {name: reject.reason for name, reject in survey.refused.items() if reject.reason.rule == "004.mode"}
    idle = {name: count for name in state.pausing(sorted(reasons)) if (count := len(index.nodes[name].free()))}
    if not idle:
        return []
    first = max(idle, key=idle.__getitem__)
    return [Remedy("other mode", first, amount=sum(idle.values()), nodes=len(idle), reason=reasons[first])]


@dataclass(frozen=True, slots=True)
class _Less:
    """Finds smaller requests that fit now."""

    state: State
    pod: PodView
    query: Query
    survey: Survey

    def devices(self) -> list[Remedy]:
        """Return smaller requests for devices: as a group on several nodes, or on one node."""
        return [*self._split(), *self._fewer()]

    def _split(self) -> list[Remedy]:
        """Return how to divide a request for more devices than any node has."""
        largest = largest_node(self.state, self.query)
        if not 0 < largest < self.query.ask.devices:
            return []
        pods, each = split_up(self.query, largest)
        return [Remedy("split", "", amount=each, count=pods)] if pods else []

    def _fewer(self) -> list[Remedy]:
        """Return the largest smaller number of devices that fits on a node."""
        counts = [(len(node.free()) - node.unattributed, name) for name, node in self.state.pausing(self._serving())]
        order = nsmallest(MOST_NODES, self.state.pausing(counts), key=lambda entry: (-entry[0], entry[1]))
        most = min(self.query.ask.devices - 1, order[0][0]) if order else 0
        for size in range(most, 0, -1):
            less = self.query._replace(ask=smaller(self.query.ask, devices=size))
            if less.policy.admit(less.ask):
                continue
            name = next((name for count, name in order if count >= size and self._fits(less, name)), None)
            if name is not None:
                return [Remedy("fewer devices", name, amount=size)]
        return []

    def memory(self) -> list[Remedy]:
        """Return the largest free share on one device."""
        serving = self.state.pausing(self._serving())
        rooms = [(max(node.room().values(), default=0), name) for name, node in serving]
        best: Remedy | None = None
        for room, name in nsmallest(MOST_NODES, rooms, key=lambda entry: (-entry[0], entry[1])):
            if best and room <= best.amount and not self.query.ask.in_bytes:
                break
            amount, device = largest_room(self.query, self.state.cluster.index.nodes[name])
            if amount > (best.amount if best else 0) and not self._stopped(name):
                unit = "bytes" if self.query.ask.in_bytes else self.state.cluster.inventories[name].unit
                best = Remedy("less memory", name, amount=amount, unit=unit, device=device)
        return [best] if best and best.amount < self.query.ask.share else []

    def compute(self) -> list[Remedy]:
        """Return the most free compute on one device, where compute is what is missing."""
        short = [(name, reject.reason) for name, reject in self.survey.refused.items() if reject.reason.kind == "core"]
        left = [
            (-pair[1], name, pair[0])
            for name, reason in short
            for pair in (reason.found if isinstance(reason.found, tuple) else ())
            if isinstance(pair, tuple) and pair[1]
        ]
        return [Remedy("less compute", name, amount=-most, unit="%", device=at) for most, name, at in sorted(left)[:1]]

    def _serving(self) -> list[tuple[str, Node]]:
        """Return nodes that have such devices, in the right sharing mode, and accept the pod."""
        index, mode = self.state.cluster.index, self.query.ask.mode
        return [
            (name, node)
            for name, node in self.state.pausing(list(index.nodes.items()))
            if node.mode in {"any", mode} and name not in self.survey.barred and not index.unserved(self.query, name)
        ]

    def _fits(self, less: Query, name: str) -> bool:
        offer = less.pick(self.state.cluster.index.nodes[name])
        return isinstance(offer, Offer) and not self._stopped(name)

    def _stopped(self, name: str) -> bool:
        return misfit(self.state.cluster, self.pod, self.survey.demand, name) is not None
