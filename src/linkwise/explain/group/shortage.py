"""Explains why not all members of a group fit, and which pods would have to finish or requests be smaller.

A single pod is named if it is enough; otherwise the smallest set that was found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.groups.planning.what_if import Assumption
from linkwise.broker.records.members import Unschedulable
from linkwise.broker.scheduling.queries import largest_node, split_up
from linkwise.broker.state import pod_name
from linkwise.engine.ledger import is_whole
from linkwise.engine.reasons.phrases import count_text, groups_text
from linkwise.explain.remedies import smaller
from linkwise.explain.reports import GroupRemedy, Leaver, Need
from linkwise.explain.survey import against_all, survey
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.groups.planning.what_if import WhatIf
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry, Key
    from linkwise.engine.planning.plan import Member, Plan
    from linkwise.explain.reports import GroupExplanation
    from linkwise.explain.survey import Survey
    from linkwise.model.node import Node

__all__ = ["RoomForAll", "explain_short"]

SHOWN: Final = 5
"""nodes with the most free devices that are listed"""


def explain_short(
    state: State, view: GroupView, what_if: WhatIf, report: GroupExplanation, most: int | None = None
) -> GroupExplanation:
    """Add what is missing, why each node refuses, and remedies: all of them, or at most `most`."""
    tolerant = what_if.plan(Assumption(minimum=1))
    requesting = [member for member in what_if.members if member.size]
    if not requesting:
        return report
    placed = set(tolerant.placements) if tolerant else set[str]()
    left = next((member for member in requesting if member.pod not in placed), requesting[0])
    modes = {"any", *(member.wanted.ask.mode for member in requesting if member.wanted)}
    serving = ((name, node) for name, node in state.pausing(what_if.serving()) if node.mode in modes)
    rooms = [(name, max(0, _free_devices(node))) for name, node in serving]
    bound = sum(state.request(pod).ask is not None for pod in view.bound)
    report = replace(
        report,
        needs=tuple(_needs(state, what_if, requesting, placed, bound)),
        best=tuple(nsmallest(SHOWN, rooms, key=lambda room: (-room[1], room[0]))),
        free=sum(room for _, room in rooms),
    )
    pod = next((pod for pod in view.waiting if pod.uid == left.pod), None)
    if pod is None or left.wanted is None:
        return report
    nodes = _without_plan(state, survey(state, pod, left.wanted), what_if, left.wanted)
    report = replace(report, fitting=len(nodes.fitting), against=against_all(state, left.wanted, nodes))
    if left.wanted.policy.admit(left.wanted.ask):
        return replace(report, never=True)
    if most == 0:
        stage = state.groups.stage(report.key)
        return replace(report, never=isinstance(stage, Unschedulable) and stage.reason.kind == "never")
    fewer = tolerant if report.stage == "unschedulable" else None  # else these members are planned already
    remedies, never = _remedies(RoomForAll(state, what_if, nodes), what_if, _less(state, what_if, fewer, bound), most)
    return replace(report, remedies=remedies, never=never, notes=(*report.notes, *_reserved(state, what_if)))


def _without_plan(state: State, surveyed: Survey, what_if: WhatIf, query: Query) -> Survey:
    """Return the survey as if the group had no plan: a plan must not count as a reason against itself."""
    fitting, refused, known = dict(surveyed.fitting), dict(surveyed.refused), set[str]()
    planned = what_if.planned()
    for name, node in state.pausing(what_if.serving() if planned else []):
        if name not in planned or name not in refused or name in surveyed.barred:
            continue
        offer = query.pick(node)
        if isinstance(offer, Offer):
            del refused[name]
            fitting[name] = ()
        else:
            refused[name] = replace(offer, final=refused[name].final)
        known.add(name)
    return replace(surveyed, fitting=tuple(fitting.items()), refused=refused, exact=frozenset(known))


def _reserved(state: State, what_if: WhatIf) -> list[str]:
    """Return what plans of other groups reserve."""
    own = {state.groups.key_of(member.pod) for member in what_if.members}
    devices: Counter[str] = Counter()
    for entry in list(state.cluster.ledger.entries()):
        if entry.state == "PLANNED" and entry.grant.plan not in own:
            devices[entry.grant.plan] += len(entry.grant.offer.devices)
    return [
        f"{count_text(count, 'device')} {'is' if count == 1 else 'are'} reserved for {groups_text([state.group_name(key)])}"
        for key, count in devices.most_common(MOST_WAYS)
    ]


def _needs(state: State, what_if: WhatIf, requesting: list[Member], placed: set[str], bound: int) -> Iterator[Need]:
    """Yield the member sizes that do not all fit, the largest first."""
    models, most = set[str](), 0
    for _, node in state.pausing(what_if.serving()):
        models.update(device.model for device in node.devices)
        most = max(most, len(node.healthy()))
    counts = Counter(member.size for member in requesting)
    fitting = Counter(member.size for member in requesting if member.pod in placed)
    for size in sorted(counts, reverse=True):
        if fitting[size] < counts[size]:
            alone, one_model = 0 < most < 2 * size, len(models) > 1 and not what_if.mixed
            yield Need(size, counts[size], fitting[size], alone, one_model, what_if.required, bound)


def _remedies(
    room: RoomForAll, what_if: WhatIf, less: Iterable[GroupRemedy], most: int | None
) -> tuple[tuple[GroupRemedy, ...], bool]:
    """Return remedies, and whether the group would not fit even without all other pods."""
    others = tuple(islice(less, most))
    if not room.ever():
        return others, not what_if.cut
    return (*room.remedies(), *others)[:most], False


def _less(state: State, what_if: WhatIf, tolerant: Plan | None, bound: int) -> Iterator[GroupRemedy]:
    """Yield remedies that change the requests of the group, of which so many members are bound."""
    yield from _fewer_members(tolerant, bound)
    yield from _split(state, what_if)
    yield from _fewer_devices(what_if, bound)
    yield from _relaxed(what_if)


def _fewer_members(tolerant: Plan | None, bound: int) -> Iterator[GroupRemedy]:
    if tolerant and (count := sum(placement.offer is not None for placement in tolerant.placements.values())):
        yield GroupRemedy("fewer members", nodes=tolerant.nodes, amount=bound + count)


def _split(state: State, what_if: WhatIf) -> Iterator[GroupRemedy]:
    """Yield how to divide members that request more devices than any node has, the largest of them."""
    wanted = [member.wanted for member in what_if.members if member.wanted and member.size]
    query = max(wanted, key=lambda wanted: wanted.ask.devices, default=None)
    if query is not None and 0 < (largest := largest_node(state, query)) < query.ask.devices:
        pods, each = split_up(query, largest)
        if pods:
            yield GroupRemedy("split", amount=each, count=pods)


def _fewer_devices(what_if: WhatIf, bound: int) -> Iterator[GroupRemedy]:
    """Yield the largest smaller number of devices per member that fits, if all members request the same number."""
    sizes = {member.size for member in what_if.members if member.size}
    for size in range(max(sizes) - 1, 0, -1) if len(sizes) == 1 else ():
        members = tuple(_with_size(member, size) for member in what_if.members)
        first = next(member.wanted for member in members if member.wanted)
        if not first.policy.admit(first.ask) and (plan := what_if.whole(Assumption(members=members))):
            pending = sum(member.size > 0 for member in members) if bound else 0
            yield GroupRemedy("fewer devices", nodes=plan.nodes, amount=size, count=pending)
            return


def _with_size(member: Member, size: int) -> Member:
    if member.wanted is None or not member.size:
        return member
    return replace(member, wanted=member.wanted._replace(ask=smaller(member.wanted.ask, devices=size)))


def _relaxed(what_if: WhatIf) -> Iterator[GroupRemedy]:
    """Yield remedies that relax requirements on the nodes as a set: one model, one network domain."""
    if plan := what_if.whole(Assumption(mixed=True)):
        yield GroupRemedy("any model", nodes=plan.nodes)
    if what_if.required and (plan := what_if.whole(Assumption(anywhere=True))):
        yield GroupRemedy("any domain", nodes=plan.nodes, level=what_if.required)


MOST_PODS: Final = 48
"""pods that are tried, those that free most first"""
MOST_WAYS: Final = 3
SAMPLE: Final = 256
"""nodes that are tried without their pods before all nodes are"""


class RoomForAll:
    """Finds pods whose completion would let a group fit."""

    def __init__(self, state: State, what_if: WhatIf, nodes: Survey) -> None:
        self._state = state
        self._what_if = what_if
        self._away = {member.pod for member in what_if.members} | _siblings(state, what_if)
        fitting = {name for name, _ in nodes.fitting}
        self._open = fitting.union(nodes.open())
        self._stopped = [name for name in nodes.stopped if name in self._open]
        smallest = min((member.size for member in what_if.members if member.size), default=1)
        # Few nodes have enough free devices for a member: only these and nodes that lose pods are considered.
        serving = state.pausing(what_if.serving())
        self._roomy = frozenset(name for name, node in serving if _free_devices(node) >= smallest)

    def ever(self) -> bool:
        """Return whether it would fit if all other pods were gone; a part of a large cluster is often enough to tell."""
        if not self._open:
            return False  # a member fits on no node, whichever pods end
        names = [name for name, _ in self._what_if.serving()]
        return self._fits_without_pods_of(names[:SAMPLE]) or (
            len(names) > SAMPLE and self._fits_without_pods_of(list(self._state.cluster.nodes))
        )

    def _fits_without_pods_of(self, nodes: Iterable[str]) -> bool:
        cluster = self._state.cluster
        gone: set[Key] = set()
        for name in self._state.pausing(nodes):
            gone.update(entry.key for entry in cluster.ledger.on(name))
            gone.update(pod.uid for pod in cluster.pods_on(name) if holds_devices(pod))
        return self._fits(frozenset(gone - self._away))

    def remedies(self) -> list[GroupRemedy]:
        """Return single pods, the likeliest to finish first; else one minimal set that is enough."""
        pods = self._candidates()
        single = (uid for uid in sorted(pods, key=self._likely) if self._fits(frozenset({uid})))
        sets: list[tuple[str, ...]] = [(uid,) for uid in islice(filter(self._proves_alone, single), MOST_WAYS)]
        together = () if sets else self._together(pods)
        if together and self._proves(together):
            sets = [together]
        return list(map(self._remedy, sets))

    def _together(self, pods: list[str]) -> tuple[str, ...]:
        """Return the shortest sufficient prefix of the pods, less those that are not needed, small ones first."""
        gone = dict.fromkeys(pods[: self._enough(pods)])
        for uid in list(gone)[-2::-1]:
            if self._fits(frozenset(gone) - {uid}):
                del gone[uid]
        return tuple(sorted(gone, key=self._likely))

    def _enough(self, pods: list[str]) -> int:
        """Return the length of the shortest sufficient prefix, by bisection; 0 if all pods are not enough."""
        low, high = 0, len(pods) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(frozenset(pods[:middle])) else (middle, high)
        return high if high <= len(pods) else 0

    def _fits(self, gone: frozenset[Key]) -> bool:
        return self._what_if.fits(Assumption(gone=gone, only=self._roomy))

    def _proves_alone(self, uid: str) -> bool:
        return self._proves((uid,))

    def _proves(self, gone: Iterable[str]) -> bool:
        return self._what_if.whole(Assumption(gone=frozenset(gone), only=self._roomy)) is not None

    def _candidates(self) -> list[str]:
        """Return pods to try: those that free most first, then the likeliest to finish."""
        cluster = self._state.cluster
        entries = self._state.pausing(list(cluster.ledger.entries()))
        running = (entry for entry in entries if entry.node in self._open and not entry.tentative)
        freed = {entry.pod: _devices(entry) for entry in running if entry.pod not in self._away}
        for name in self._stopped:
            pods = [pod.uid for pod in cluster.pods_on(name) if holds_devices(pod)]
            freed |= {uid: freed.get(uid, 0) for uid in pods if uid not in self._away}
        return nsmallest(MOST_PODS, freed, key=lambda uid: (-freed[uid], self._likely(uid)))

    def _likely(self, uid: str) -> tuple[object, ...]:
        """Pods being deleted, then the lowest priority, the oldest."""
        self._state.pause()
        pod = self._state.pod(uid)
        return (not pod.deleting, pod.priority, pod.created, pod_name(pod)) if pod else (True, 0, 0.0, uid)

    def _remedy(self, pods: tuple[str, ...]) -> GroupRemedy:
        return GroupRemedy("pods end", tuple(map(self._leaver, pods)), tuple(map(self._home, pods)))

    def _leaver(self, uid: str) -> Leaver:
        entry, pod = self._state.cluster.ledger.get(uid), self._state.pod(uid)
        terminating = bool(pod and pod.deleting)
        if entry is None:
            cpu = demand_of(pod)[0].cpu if pod else 0
            return Leaver(self._state.uid_of(uid), self._state.name_of(uid), cpu=cpu, terminating=terminating)
        share = sum(part.share for part in entry.grant.offer.parts if not is_whole(part))
        unit = self._state.cluster.inventories[entry.node].unit if share else ""
        return Leaver(
            self._state.uid_of(uid),
            self._state.name_of(uid),
            0 if share else _devices(entry),
            share,
            unit,
            terminating=terminating,
        )

    def _home(self, uid: str) -> str:
        entry, pod = self._state.cluster.ledger.get(uid), self._state.pod(uid)
        return entry.node if entry else pod.node if pod else ""


def _free_devices(node: Node) -> int:
    return len(node.free()) - node.unattributed


def _devices(entry: Entry) -> int:
    return entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)


def _siblings(state: State, what_if: WhatIf) -> set[str]:
    """Return the UIDs of bound members, which are never candidates."""
    keys = {state.groups.key_of(member.pod) for member in what_if.members}
    views = (state.groups.view(key) for key in keys)
    return {pod.uid for view in views if view for pod in view.bound}
