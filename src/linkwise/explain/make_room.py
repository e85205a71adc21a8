"""Which pods would have to end so that a waiting pod fits, on which node: the fewest, and of these the likeliest.

What would make room for an ask that no node can take: pods that end, a smaller ask. Worked out, never guessed.
"""
# Joined from room_making, remedies: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.cluster.recorded_grants import held_alone
from linkwise.engine.feasibility import unfit
from linkwise.engine.ledger import is_whole
from linkwise.engine.preemption import eviction_frees_enough
from linkwise.explain.reports.pod import Leaver, Remedy
from linkwise.explain.survey import nearness
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.explain.survey import Survey
    from linkwise.model.ask import Ask
    from linkwise.model.demand import Load
    from linkwise.model.node import Node
    from linkwise.model.verdict import Reason

__all__ = ["Crowd", "RoomMaking", "largest_room", "room_makers", "smaller"]

MOST_NODES: Final = 32
"""nodes looked at, the nearest"""
SHOWN: Final = 3
_WHOLE: Final = 1 << 60
"""what comes free with a whole device: enough"""
_Likely = tuple[bool, int, float, str]
"""not being deleted, priority, when it was made, name: the lowest first"""
_UNLIKELY: Final[_Likely] = (True, 1 << 40, 0.0, "")
_AMOUNTS: Final = {"cpu": "cpu", "memory": "memory", "ephemeral": "ephemeral"}


@dataclass(frozen=True, slots=True)
class RoomMaking:
    """Looks for pods that stand in the way of one pod."""

    state: State
    wanted: Query
    found: Survey

    def remedies(self) -> list[Remedy]:
        """One a node, the likeliest to come true first: pods being deleted, then the lowest priority, the oldest."""
        makers = room_makers([crowd for name in self._nodes() for crowd in self._crowds(name)], self._fits)
        makers.sort(key=lambda maker: (max(map(self._likely, maker[1])), maker))
        best: dict[str, tuple[str, ...]] = {}
        for node, pods in makers:
            best.setdefault(node, pods)
        return [
            Remedy("pods end", node, tuple(self._leaver(node, uid) for uid in pods))
            for node, pods in list(best.items())[:SHOWN]
        ]

    def _nodes(self) -> list[str]:
        open_ones = set(self.found.open())
        reasons = {name: reject.reason for name, reject in self.found.refused.items() if name in open_ones}
        beside = {name: reason for name, reason in self.found.stopped.items() if name in open_ones}
        likely = self._likeliest(open_ones)
        return [*_nearest(reasons, likely), *_nearest(beside, likely)]

    def _likeliest(self, nodes: set[str]) -> dict[str, _Likely]:
        """How likely the first pod of each node is to end."""
        found: dict[str, _Likely] = {}
        for entry in self.state.cluster.ledger.entries():
            if entry.node in nodes:
                likely = self._likely(entry.pod)
                found[entry.node] = min(found.get(entry.node, likely), likely)
        return found

    def _crowds(self, name: str) -> list[Crowd]:
        reason, entries = self.found.stopped.get(name), self.state.cluster.ledger.on(name)
        if reason:
            return [self._crowd_beside(name, reason)]
        if not self.wanted.ask.devices:
            return self._crowds_by_device(name, entries)
        node = self.state.cluster.index.nodes[name]
        free = max(0, len(node.free()) - node.unattributed)
        return [self._crowd(name, {entry.pod: _devices(entry) for entry in entries}, self.wanted.ask.devices - free)]

    def _crowds_by_device(self, name: str, entries: list[Entry]) -> list[Crowd]:
        """Only pods of one device make room together where the room must be on one."""
        node, stock = self.state.cluster.index.nodes[name], self.state.cluster.inventories[name]
        freed: dict[str, dict[str, int]] = {}
        for entry in entries:
            for device, use in held_alone(stock, entry).used.items():
                freed.setdefault(device, {})[entry.pod] = use.share or _WHOLE
        rooms = node.room()
        needs = {device.id: shares_on(self.wanted.ask, device.memory, device.bytes) for device in node.devices}
        return [
            self._crowd(name, pods, sum(needs[device] or ()) - rooms.get(device, 0)) for device, pods in freed.items()
        ]

    def _crowd_beside(self, name: str, reason: Reason) -> Crowd:
        """Pods that take what a node with enough devices lacks."""
        amount, found = _AMOUNTS.get(reason.kind), reason.found
        pods = [pod for pod in self.state.cluster.pods_on(name) if holds_devices(pod)]
        if amount is None or not isinstance(found, tuple) or not isinstance(reason.asked, int):
            return self._crowd(name, dict.fromkeys((pod.uid for pod in pods), 1), 1)
        freed: dict[str, int] = {pod.uid: getattr(demand_of(pod)[0], amount) for pod in pods}
        left = found[0]
        return self._crowd(name, freed, reason.asked - (left if isinstance(left, int) else 0))

    def _crowd(self, name: str, freed: Mapping[str, int], lack: int) -> Crowd:
        order = sorted(freed, key=lambda uid: (freed[uid] < lack, self._likely(uid)))
        return Crowd(name, tuple(order), lack, freed)

    def _fits(self, name: str, pods: tuple[str, ...]) -> bool:
        cluster, stock = self.state.cluster, self.state.cluster.inventories[name]
        enough = name in self.found.stopped or eviction_frees_enough(
            cluster.ledger, stock, self.wanted, set(pods), cluster.ended_on(stock)
        )
        return enough and self._fits_beside(name, pods)

    def _fits_beside(self, name: str, pods: tuple[str, ...]) -> bool:
        cluster, view = self.state.cluster, self.state.cluster.nodes[name]

        def neighbours() -> Iterator[Neighbour]:
            there = (pod for pod in cluster.pods_on(name) if holds_devices(pod) and pod.uid not in pods)
            return ((pod.namespace, pod.labels) for pod in there)

        load: Load = cluster.load(name)
        for uid in pods:
            pod = cluster.pods.get(uid)
            load = load.minus(demand_of(pod)[0]) if pod else load
        return unfit(self.found.demand, view, capacity_of(view), load, neighbours) is None

    def _likely(self, uid: str) -> _Likely:
        pod = self.state.pod(uid)
        if pod is None:
            return (True, 0, 0.0, uid)
        return (not pod.deleting, pod.priority, pod.created, self.state.name_of(uid))

    def _leaver(self, node: str, uid: str) -> Leaver:
        entry, pod = self.state.cluster.ledger.get(uid), self.state.pod(uid)
        beside = self.found.stopped.get(node)
        cpu = demand_of(pod)[0].cpu if pod and beside and beside.kind == "cpu" else 0
        devices, share = (_devices(entry), _share(entry)) if entry else (0, 0)
        unit = self.state.cluster.inventories[node].unit
        return Leaver(
            uid, self.state.name_of(uid), 0 if share else devices, share, unit, cpu, bool(pod and pod.deleting)
        )


def _nearest(reasons: Mapping[str, Reason], likely: Mapping[str, _Likely]) -> list[str]:
    """Nodes where a pod is leaving, then those where least is missing, then those with the likeliest pod."""

    def order(name: str) -> tuple[object, ...]:
        leaving, *others = likely.get(name, _UNLIKELY)
        return (leaving, -nearness(reasons[name]), *others, name)

    return sorted(reasons, key=order)[:MOST_NODES]


def _devices(entry: Entry) -> int:
    return entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)


def _share(entry: Entry) -> int:
    if entry.unrecorded_ask:
        return entry.unrecorded_ask.share
    return sum(part.share for part in entry.grant.offer.parts if not is_whole(part))


MOST_TOGETHER: Final = 3
"""pods that are looked at together: nobody waits for more than so many to end by chance"""
MOST_PODS: Final = 12
"""of a crowd, those likeliest to end"""
STEPS: Final = 600
"""sets of pods tried"""
ENOUGH: Final = 8
"""nodes on which so many pods are enough: further ones are not looked at"""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Pods of one node whose ends could make room there together."""

    node: str
    pods: tuple[str, ...]
    """the likeliest to end first"""
    lack: int = 0
    """how much must come free at least"""
    freed: Mapping[str, int] = field(default_factory=dict)
    """how much comes free with each pod, in the same unit"""

    def sets(self, size: int) -> Iterator[tuple[str, ...]]:
        """Sets of so many pods that may be enough."""
        for pods in combinations(self.pods[:MOST_PODS], size):
            if sum(self.freed.get(pod, 0) for pod in pods) >= self.lack:
                yield pods


def room_makers(
    crowds: Sequence[Crowd], fits: Callable[[str, tuple[str, ...]], bool], steps: int = STEPS
) -> list[tuple[str, tuple[str, ...]]]:
    """The nodes with the fewest pods that have to end there, all sets of that size that were found in so many steps."""
    for size in range(1, MOST_TOGETHER + 1):
        found: list[tuple[str, tuple[str, ...]]] = []
        for crowd in crowds:
            if len({node for node, _ in found} - {crowd.node}) >= ENOUGH:
                break
            for pods in crowd.sets(size):
                steps -= 1
                if steps < 0:
                    return found
                if fits(crowd.node, pods):
                    found.append((crowd.node, pods))
        if found:
            return found
    return []


def smaller(ask: Ask, *, devices: int = 0, share: int = 0) -> Ask:
    """The same ask for less; all of it by the first container."""
    first = replace(ask.containers[0], devices=devices, share=share, core=ask.core)
    return replace(ask, containers=(first,), required=())


def largest_room(wanted: Query, node: Node) -> tuple[int, int]:
    """The most of one device that the ask's owner could have of a node now, and that device's index; 0 if nothing."""
    rooms = node.room()
    for device in sorted(node.healthy(), key=lambda device: (-rooms[device.id], device.index)):
        room = rooms[device.id]
        share = room * device.bytes // device.memory if wanted.ask.in_bytes and device.memory else room
        offer = wanted.policy.pick(smaller(wanted.ask, share=share), node) if share > 0 else None
        if isinstance(offer, Offer):
            return share, next(found.index for found in node.devices if found.id == offer.devices[0])
    return 0, 0
