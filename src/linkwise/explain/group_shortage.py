"""Why not all members of a group find room, and what would have to change so that they do.

Which pods would have to end so that all members of a group fit: single ones if that is enough, else the fewest found.
"""
# Joined from explaining_short, group_room: one docstring for all.

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.groups.what_if import Assumption
from linkwise.engine.ledger import is_whole
from linkwise.explain.make_room import smaller
from linkwise.explain.reports.group import GroupRemedy, Need
from linkwise.explain.reports.pod import Leaver
from linkwise.explain.survey import against_all, survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.groups.what_if import WhatIf
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.engine.planning.plan import Member, Plan
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.survey import Survey
    from linkwise.model.node import Node

__all__ = ["RoomForAll", "explain_short"]

SHOWN: Final = 5
"""nodes with the most room that are named"""


def explain_short(
    state: State, found: GroupView, trying: WhatIf, told: GroupExplanation, most: int | None = None
) -> GroupExplanation:
    """What is lacking, what speaks against each node, and what would help: all of it, or so many things."""
    tolerant = trying.plan(Assumption(minimum=1))
    asking = [member for member in trying.members if member.size]
    if not asking:
        return told
    placed = set(tolerant.placements) if tolerant else set[str]()
    left = next((member for member in asking if member.pod not in placed), asking[0])
    told = replace(told, needs=tuple(_needs(trying, asking, placed)), best=_best(trying))
    pod = next((pod for pod in found.waiting if pod.uid == left.pod), None)
    if pod is None or left.wanted is None:
        return told
    nodes = survey(state, pod, left.wanted)
    told = replace(told, fitting=len(nodes.fitting), against=against_all(state, left.wanted, nodes))
    if left.wanted.policy.admit(left.wanted.ask):
        return replace(told, never=True)
    if most == 0:
        return told
    fewer = tolerant if told.stage == "unschedulable" else None  # else these members are planned already
    remedies, never = _helped(RoomForAll(state, trying, nodes), trying, fewer, most)
    return replace(told, remedies=remedies, never=never)


def _needs(trying: WhatIf, asking: list[Member], placed: set[str]) -> Iterator[Need]:
    """By size, the largest first; only sizes of which not all find room."""
    nodes = [node for _, node in trying.serving()]
    models = {device.model for node in nodes for device in node.devices}
    most = max((len(node.healthy()) for node in nodes), default=0)
    wanted = Counter(member.size for member in asking)
    fitting = Counter(member.size for member in asking if member.pod in placed)
    for size in sorted(wanted, reverse=True):
        if fitting[size] < wanted[size]:
            alone, one_model = 0 < most < 2 * size, len(models) > 1 and not trying.mixed
            yield Need(size, wanted[size], fitting[size], alone, one_model, trying.required)


def _best(trying: WhatIf) -> tuple[tuple[str, int], ...]:
    rooms = [(name, max(0, len(node.free()) - node.unattributed)) for name, node in trying.serving()]
    return tuple(sorted(rooms, key=lambda room: (-room[1], room[0]))[:SHOWN])


def _helped(
    room: RoomForAll, trying: WhatIf, tolerant: Plan | None, most: int | None
) -> tuple[tuple[GroupRemedy, ...], bool]:
    """What would help; and whether no end of any pod would."""
    less = tuple(islice(chain(_fewer_members(tolerant), _fewer_devices(trying), _looser(trying)), most))
    if not room.ever():
        return less, not trying.cut
    return (*room.remedies(), *less)[:most], False


def _fewer_members(tolerant: Plan | None) -> Iterator[GroupRemedy]:
    if tolerant and (count := sum(placement.offer is not None for placement in tolerant.placements.values())):
        yield GroupRemedy("fewer members", nodes=tolerant.nodes, amount=count)


def _fewer_devices(trying: WhatIf) -> Iterator[GroupRemedy]:
    """The most that members of one size could each have, fewer than they ask for."""
    sizes = {member.size for member in trying.members if member.size}
    for size in range(max(sizes) - 1, 0, -1) if len(sizes) == 1 else ():
        members = tuple(_with_size(member, size) for member in trying.members)
        first = next(member.wanted for member in members if member.wanted)
        if not first.policy.admit(first.ask) and (plan := trying.whole(Assumption(members=members))):
            yield GroupRemedy("fewer devices", nodes=plan.nodes, amount=size)
            return


def _with_size(member: Member, size: int) -> Member:
    if member.wanted is None or not member.size:
        return member
    return replace(member, wanted=member.wanted._replace(ask=smaller(member.wanted.ask, devices=size)))


def _looser(trying: WhatIf) -> Iterator[GroupRemedy]:
    """What is asked of the nodes together, beside room."""
    if plan := trying.whole(Assumption(mixed=True)):
        yield GroupRemedy("any model", nodes=plan.nodes)
    if trying.required and (plan := trying.whole(Assumption(anywhere=True))):
        yield GroupRemedy("any domain", nodes=plan.nodes, level=trying.required)


MOST_PODS: Final = 48
"""pods whose end is tried, those first that free most"""
MOST_WAYS: Final = 3


class RoomForAll:
    """Looks for pods that stand in the way of a group."""

    def __init__(self, state: State, trying: WhatIf, nodes: Survey) -> None:
        self._state = state
        self._trying = trying
        self._away = {member.pod for member in trying.members} | _siblings(state, trying)
        fitting = {name for name, _ in nodes.fitting}
        self._open = fitting.union(nodes.open())
        self._stopped = [name for name in nodes.stopped if name in self._open]
        smallest = min((member.size for member in trying.members if member.size), default=1)
        # Where it is short, few nodes can take a member: only these and those that pods leave are looked at.
        self._roomy = frozenset(name for name, node in trying.serving() if _room(node) >= smallest)

    def ever(self) -> bool:
        """Whether it would fit if all other pods were gone."""
        cluster = self._state.cluster
        entries = (entry.pod for entry in cluster.ledger.entries())
        pods = (pod.uid for pod in cluster.pods.values() if holds_devices(pod))
        return self._fits(frozenset((*entries, *pods)) - self._away)

    def remedies(self) -> list[GroupRemedy]:
        """Single pods, the likeliest to end first; else some that are enough together and of which none is too many."""
        pods = self._candidates()
        single = (uid for uid in sorted(pods, key=self._likely) if self._fits(frozenset({uid})))
        found: list[tuple[str, ...]] = [(uid,) for uid in islice(filter(self._alone, single), MOST_WAYS)]
        together = () if found else self._together(pods)
        if together and self._sure(together):
            found = [together]
        return list(map(self._remedy, found))

    def _together(self, pods: list[str]) -> tuple[str, ...]:
        """The first so many that are enough; of these those may stay whose end is not needed, the small ones first."""
        gone = dict.fromkeys(pods[: self._enough(pods)])
        for uid in list(gone)[-2::-1]:
            if self._fits(frozenset(gone) - {uid}):
                del gone[uid]
        return tuple(sorted(gone, key=self._likely))

    def _enough(self, pods: list[str]) -> int:
        """How many of the first have to end, by bisection: more never hurt; none if all of them are too few."""
        low, high = 0, len(pods) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(frozenset(pods[:middle])) else (middle, high)
        return high if high <= len(pods) else 0

    def _fits(self, gone: frozenset[str]) -> bool:
        return self._trying.fits(Assumption(gone=gone, only=self._roomy))

    def _alone(self, uid: str) -> bool:
        return self._sure((uid,))

    def _sure(self, gone: Iterable[str]) -> bool:
        return self._trying.whole(Assumption(gone=frozenset(gone), only=self._roomy)) is not None

    def _candidates(self) -> list[str]:
        """Those that free most first, and of equals the likeliest to end."""
        cluster = self._state.cluster
        freed = {entry.pod: _devices(entry) for entry in cluster.ledger.entries() if entry.node in self._open}
        for name in self._stopped:
            pods = [pod.uid for pod in cluster.pods_on(name) if holds_devices(pod)]
            freed = {**dict.fromkeys(pods, 0), **freed}
        order = sorted(freed, key=lambda uid: (-freed[uid], self._likely(uid)))
        return [uid for uid in order if uid not in self._away][:MOST_PODS]

    def _likely(self, uid: str) -> tuple[object, ...]:
        """Pods being deleted, then the lowest priority, the oldest."""
        pod = self._state.pod(uid)
        return (not pod.deleting, pod.priority, pod.created, self._state.name_of(uid)) if pod else (True, 0, 0.0, uid)

    def _remedy(self, pods: tuple[str, ...]) -> GroupRemedy:
        return GroupRemedy("pods end", tuple(map(self._leaver, pods)), tuple(map(self._home, pods)))

    def _leaver(self, uid: str) -> Leaver:
        entry, pod = self._state.cluster.ledger.get(uid), self._state.pod(uid)
        terminating = bool(pod and pod.deleting)
        if entry is None:
            cpu = demand_of(pod)[0].cpu if pod else 0
            return Leaver(uid, self._state.name_of(uid), cpu=cpu, terminating=terminating)
        share = sum(part.share for part in entry.grant.offer.parts if not is_whole(part))
        unit = self._state.cluster.inventories[entry.node].unit if share else ""
        return Leaver(
            uid, self._state.name_of(uid), 0 if share else _devices(entry), share, unit, terminating=terminating
        )

    def _home(self, uid: str) -> str:
        entry, pod = self._state.cluster.ledger.get(uid), self._state.pod(uid)
        return entry.node if entry else pod.node if pod else ""


def _room(node: Node) -> int:
    return len(node.free()) - node.unattributed


def _devices(entry: Entry) -> int:
    return entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)


def _siblings(state: State, trying: WhatIf) -> set[str]:
    """Members that are bound: without them it is another group."""
    keys = {state.groups.key_of(member.pod) for member in trying.members}
    gathered = (state.groups.gather(key) for key in keys)
    return {pod.uid for found in gathered if found for pod in found.bound}
