"""Finds remedies for an unschedulable pod: other pods finishing, other resources of the node, a smaller request.

Of the pods that would have to finish, the fewest are named, and of these the likeliest to finish. Every set is checked
against the policy and the node's other resources; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.broker.candidates import misfit
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices, usage_of_entry
from linkwise.broker.holding.reserved_devices import reserved_nodes
from linkwise.broker.scheduling.queries import largest_node, split_up
from linkwise.broker.state import pod_name
from linkwise.engine.feasibility import lasting, unfit
from linkwise.engine.ledger import is_whole
from linkwise.engine.preemption import eviction_frees_enough
from linkwise.explain.reports import Leaver, Remedy
from linkwise.explain.survey import Survey, nearness
from linkwise.model.verdict import Offer, ReservedKey, pods_of
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask, Demand, Load
    from linkwise.model.node import Node
    from linkwise.model.verdict import Key, Reason
    from linkwise.model.views import PodView

__all__ = ["Crowd", "RoomMaking", "fewer_devices", "largest_room", "remedies", "room_makers", "smaller"]

MOST_NODES: Final = 64
"""nodes tried with a smaller request, those with the most free first"""
SHOWN: Final = 3
MOST_NODES_FOR_ROOM: Final = 32
"""nodes considered, the nearest first"""
_WHOLE: Final = 1 << 60
"""share that a complete device frees: always enough"""
_Likely = tuple[bool, int, float, str]
"""not terminating, priority, creation time, name; lowest first"""
_UNLIKELY: Final[_Likely] = (True, 1 << 40, 0.0, "")
_AMOUNTS: Final = {"cpu": "cpu", "memory": "memory", "ephemeral": "ephemeral"}
MOST_TOGETHER: Final = 3
"""largest set of pods considered; more are unlikely to finish together"""
MOST_PODS: Final = 12
"""pods of a crowd considered, the likeliest first"""
STEPS: Final = 600
"""limit of sets tried"""
ENOUGH: Final = 8
"""number of nodes with a sufficient set at which the search stops"""


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


@dataclass(frozen=True, slots=True)
class RoomMaking:
    """Finds pods whose completion would let one pod fit."""

    state: State
    query: Query
    survey: Survey
    uid: str = ""
    """of the pod"""

    def reserved(self) -> list[Remedy]:
        """Return nodes where the pod would fit if plans of groups reserved nothing, with these groups."""
        planned: dict[str, list[Entry]] = {}
        for entry in list(self.state.cluster.ledger.entries()):
            if entry.state == "PLANNED":
                planned.setdefault(entry.node, []).append(entry)
        nodes = [name for name in self._nodes() if name in planned] if planned else []
        return [
            _reserved(self.state, name, planned[name], self.state.cluster.inventories[name].unit)
            for name in nodes
            if self._fits(name, tuple(entry.key for entry in planned[name]))
        ][:SHOWN]

    def remedies(self) -> list[Remedy]:
        """Return one remedy per node, the likeliest first: terminating pods, then lowest priority, then oldest."""
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
        self.state.pause()
        reservations = self.state.reservations
        own = reservations.of_pod(self.uid)
        # What ends on a node that is drained for another pod goes to that pod.
        open_ones = set(self.survey.open()) - (reservations.taken() - set(own.nodes if own else ()))
        refused = self.state.pausing(self.survey.refused.items())
        reasons = {name: reject.reason for name, reject in refused if name in open_ones}
        beside = {name: reason for name, reason in self.survey.stopped.items() if name in open_ones}
        self.state.pause()
        likely = self._likeliest(open_ones)
        return [*self._nearest(reasons, likely), *self._nearest(beside, likely)]

    def _nearest(self, reasons: Mapping[str, Reason], likely: Mapping[str, _Likely]) -> list[str]:
        """Return nodes with a terminating pod first, then those that lack least, then those with the likeliest pod."""

        def order(name: str) -> tuple[object, ...]:
            self.state.pause()
            leaving, *others = likely.get(name, _UNLIKELY)
            return (leaving, -nearness(reasons[name]), *others, name)

        return nsmallest(MOST_NODES_FOR_ROOM, reasons, key=order)

    def _likeliest(self, nodes: set[str]) -> dict[str, _Likely]:
        """Return the rank of the likeliest pod to finish on each node."""
        likeliest: dict[str, _Likely] = {}
        for entry in self.state.pausing(list(self.state.cluster.ledger.entries())):
            if entry.node in nodes:
                likely = self._likely(entry.key)
                likeliest[entry.node] = min(likeliest.get(entry.node, likely), likely)
        return likeliest

    def _crowds(self, name: str) -> list[Crowd]:
        reason = self.survey.stopped.get(name)
        # Pods that are only offered or planned devices do not run: their end frees nothing.
        entries = [entry for entry in self.state.cluster.ledger.on(name) if not entry.tentative]
        if reason:
            return [self._crowd_beside(name, reason)]
        if not self.query.ask.devices:
            return self._crowds_by_device(name, entries)
        node = reserved_nodes(self.state, (self.uid,)).get(name) or self.state.cluster.index.nodes[name]
        free = max(0, len(node.free()) - node.unattributed)
        return [self._crowd(name, {entry.pod: _devices(entry) for entry in entries}, self.query.ask.devices - free)]

    def _crowds_by_device(self, name: str, entries: list[Entry]) -> list[Crowd]:
        """Return one crowd per device: a share must fit on a single device."""
        node = reserved_nodes(self.state, (self.uid,)).get(name) or self.state.cluster.index.nodes[name]
        inventory = self.state.cluster.inventories[name]
        freed: dict[str, dict[str, int]] = {}
        for entry in entries:
            for device, use in usage_of_entry(inventory, entry).used.items():
                freed.setdefault(device, {})[entry.pod] = use.share or _WHOLE
        rooms = node.room()
        needs = {device.id: shares_on(self.query.ask, device.memory, device.bytes) for device in node.devices}
        return [
            self._crowd(name, pods, sum(needs[device] or ()) - rooms.get(device, 0)) for device, pods in freed.items()
        ]

    def _crowd_beside(self, name: str, reason: Reason) -> Crowd:
        """Return pods that use the other resource that the node lacks."""
        amount, free = _AMOUNTS.get(reason.kind), reason.found
        pods = [pod for pod in self.state.cluster.pods_on(name) if holds_devices(pod)]
        if amount is None or not isinstance(free, tuple) or not isinstance(reason.asked, int):
            return self._crowd(name, dict.fromkeys((pod.uid for pod in pods), 1), 1)
        freed: dict[str, int] = {pod.uid: getattr(demand_of(pod)[0], amount) for pod in pods}
        left = free[0]
        return self._crowd(name, freed, reason.asked - (left if isinstance(left, int) else 0))

    def _crowd(self, name: str, freed: Mapping[str, int], lack: int) -> Crowd:
        order = sorted(freed, key=lambda uid: (freed[uid] < lack, self._likely(uid)))
        return Crowd(name, tuple(order), lack, freed)

    def _fits(self, name: str, pods: tuple[Key, ...]) -> bool:
        self.state.pause()
        cluster, inventory = self.state.cluster, self.state.cluster.inventories[name]
        enough = name in self.survey.stopped or eviction_frees_enough(
            cluster.ledger,
            inventory,
            self.query,
            {*pods, ReservedKey(self.uid, "reservation")},
            cluster.ended_on(inventory),
        )
        return enough and self._fits_beside(name, pods)

    def _fits_beside(self, name: str, pods: tuple[Key, ...]) -> bool:
        cluster, view = self.state.cluster, self.state.cluster.nodes[name]

        def neighbours() -> Iterator[Neighbour]:
            there = (pod for pod in cluster.pods_on(name) if holds_devices(pod) and pod.uid not in pods)
            return ((pod.namespace, pod.labels) for pod in there)

        load: Load = cluster.load(name)
        for uid in pods_of(pods):
            pod = cluster.pods.get(uid)
            load = load.minus(demand_of(pod)[0]) if pod else load
        return unfit(self.survey.demand, view, capacity_of(view), load, neighbours) is None

    def _likely(self, key: Key) -> _Likely:
        pod = self.state.pod(key) if isinstance(key, str) else None
        if pod is None:
            return (True, 0, 0.0, str(key))
        return (not pod.deleting, pod.priority, pod.created, pod_name(pod))

    def _leaver(self, node: str, uid: str) -> Leaver:
        entry, pod = self.state.cluster.ledger.get(uid), self.state.pod(uid)
        beside = self.survey.stopped.get(node)
        cpu = demand_of(pod)[0].cpu if pod and beside and beside.kind == "cpu" else 0
        devices, share = (_devices(entry), _share(entry)) if entry else (0, 0)
        unit = self.state.cluster.inventories[node].unit
        return Leaver(
            self.state.uid_of(uid),
            self.state.name_of(uid),
            0 if share else devices,
            share,
            unit,
            cpu,
            bool(pod and pod.deleting),
        )


@dataclass(frozen=True, slots=True)
class Crowd:
    """Pods of one node that together could free enough."""

    node: str
    pods: tuple[str, ...]
    """the likeliest to finish first"""
    lack: int = 0
    """amount that must be freed"""
    freed: Mapping[str, int] = field(default_factory=dict)
    """amount that each pod frees, in the same unit"""

    def sets(self, size: int) -> Iterator[tuple[str, ...]]:
        """Yield sets of that size that free enough."""
        for pods in combinations(self.pods[:MOST_PODS], size):
            if sum(self.freed.get(pod, 0) for pod in pods) >= self.lack:
                yield pods


def room_makers(
    crowds: Sequence[Crowd], fits: Callable[[str, tuple[str, ...]], bool], steps: int = STEPS
) -> list[tuple[str, tuple[str, ...]]]:
    """Return nodes with the smallest sufficient sets of pods, as far as `steps` allow."""
    for size in range(1, MOST_TOGETHER + 1):
        makers: list[tuple[str, tuple[str, ...]]] = []
        for crowd in crowds:
            if len({node for node, _ in makers} - {crowd.node}) >= ENOUGH:
                break
            for pods in crowd.sets(size):
                steps -= 1
                if steps < 0:
                    return makers
                if fits(crowd.node, pods):
                    makers.append((crowd.node, pods))
        if makers:
            return makers
    return []


def smaller(ask: Ask, *, devices: int = 0, share: int = 0) -> Ask:
    """Return the request reduced to fewer devices or a smaller share, all for the first container."""
    first = replace(ask.containers[0], devices=devices, share=share, core=ask.core)
    return replace(ask, containers=(first,), required=())


def largest_room(query: Query, node: Node) -> tuple[int, int]:
    """Return the largest share of one device that fits on a node now, and the index of the device; zeros if none does."""
    rooms = node.room()
    for device in sorted(node.healthy(), key=lambda device: (-rooms[device.id], device.index)):
        room = rooms[device.id]
        share = room * device.bytes // device.memory if query.ask.in_bytes and device.memory else room
        offer = query._replace(ask=smaller(query.ask, share=share)).pick(node) if share > 0 else None
        if isinstance(offer, Offer):
            return share, next(other.index for other in node.devices if other.id == offer.devices[0])
    return 0, 0


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


def _reserved(state: State, node: str, entries: Sequence[Entry], unit: str) -> Remedy:
    share = sum(map(_share, entries))
    groups = tuple(map(state.group_name, sorted({entry.grant.plan for entry in entries})))
    return Remedy(
        "reserved", node, amount=share or sum(map(_devices, entries)), unit=unit if share else "", groups=groups
    )


def _share(entry: Entry) -> int:
    if entry.unrecorded_ask:
        return entry.unrecorded_ask.share
    return sum(part.share for part in entry.grant.offer.parts if not is_whole(part))


def _devices(entry: Entry) -> int:
    return entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)
