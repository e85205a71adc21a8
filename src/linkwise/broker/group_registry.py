"""Registry of groups: observed members, reserved plans and failed attempts.

`Members` keeps one group in the order of its ranks, with the counts that are needed whenever a member changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.pod_group_objects import gang_name
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from linkwise.engine.planning.plan import Plan
    from linkwise.model.ask import Group
    from linkwise.model.verdict import Grant, Reason
    from linkwise.model.views import PodView

__all__ = ["IMMEDIATELY", "Asked", "Enrolled", "GroupRegistry", "GroupView", "HeldPlan", "Members", "Run", "Shortage"]

IMMEDIATELY: Final = 0.0
"""a deadline in the past"""
Asked = tuple[tuple[int, tuple[str, ...]], ...]
"""by group, how many members must be placed, and the pending ones"""


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """A plan that reserves devices until it is carried out or expires."""

    plan: Plan
    id: str
    generation: int
    expires: float
    priority: int = 0
    bundle: tuple[str, ...] = ()
    """groups whose plans are reserved and released together with it"""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A group that did not fit, or not with all members."""

    reason: Reason
    members: tuple[str, ...]
    """members that were tried"""
    until: float
    """when it is retried in any case"""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it is now."""

    group: Group
    """as its oldest pod declares it"""
    waiting: tuple[PodView, ...]
    """pending members, by rank"""
    bound: tuple[PodView, ...] = ()
    extra: tuple[str, ...] = ()
    """UIDs of pods beyond the number of members, bound or not: each is placed alone"""
    leaving: tuple[PodView, ...] = ()
    """bound and being deleted: not members any more, though their devices are not free yet"""

    @property
    def seen(self) -> int:
        """Existing members."""
        return len(self.waiting) + len(self.bound)


@dataclass(slots=True)
class Run:
    """A plan that is being computed."""

    key: str
    asked: Asked
    steps: Generator[None, None, Plan | None]
    plan: Plan | None = None
    done: bool = False

    def advance(self, budget: int) -> bool:
        """Advance by at most that many steps; return whether it is done."""
        for _ in range(budget):
            try:
                next(self.steps)
            except StopIteration as end:
                self.plan, self.done = end.value, True
                return True
        return self.done


@dataclass(slots=True)
class GroupRegistry:
    """Members by group, plans by group."""

    complete: Callable[[PodView, Group], Group] = lambda _, group: group
    """completes a group from its PodGroup object"""
    plans: dict[str, HeldPlan] = field(default_factory=dict)
    satisfied: set[str] = field(default_factory=set)
    """gangs of which enough members have been bound"""
    first_seen: dict[str, float] = field(default_factory=dict)
    """when the first pending member was tried"""
    short: dict[str, Shortage] = field(default_factory=dict)
    """groups that did not fit"""
    alarms: dict[str, float] = field(default_factory=dict)
    """when members are retried without another trigger"""
    rests: dict[str, tuple[int, float]] = field(default_factory=dict)
    """backoff of groups whose plans expired: how often, and until when"""
    refused: dict[str, int] = field(default_factory=dict)
    """by pod how often the scheduler did not take the planned node"""
    avoided: dict[str, set[str]] = field(default_factory=dict)
    """nodes that failed for a group for unknown reasons"""
    touched: dict[str, None] = field(default_factory=dict)
    """groups whose members changed, until processed"""
    empty: list[tuple[str, Grant]] = field(default_factory=list)
    """devices of deleted members, until processed"""
    places: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """devices kept for replacements of deleted members: until when, and under which names"""
    alone: dict[str, str] = field(default_factory=dict)
    """pods with invalid group annotations and the problem, until reported"""
    told: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    """notices given to members, by pod and event reason"""
    written: dict[str, None] = field(default_factory=dict)
    """groups whose members carry a plan written before a restart"""
    past: dict[str, int] = field(default_factory=dict)
    """by group, the newest generation reserved or dropped here: written plans up to it are not restored"""
    halved: dict[str, None] = field(default_factory=dict)
    """stale gangs that were reported"""
    evicting: dict[str, float] = field(default_factory=dict)
    """stale gangs and their eviction deadlines"""
    evicted: dict[str, None] = field(default_factory=dict)
    """pods whose eviction was requested"""
    _members: dict[str, Members] = field(default_factory=dict)
    _key_of: dict[str, str] = field(default_factory=dict)
    _generations: dict[str, int] = field(default_factory=dict)
    _titles: dict[str, dict[str, None]] = field(default_factory=dict)
    """groups by namespace and name"""
    reopened: bool = False
    """whether a node changed so that it may accept more pods; until processed"""
    missed: set[str] = field(default_factory=set)
    """groups whose running plan does not consider capacity freed meanwhile"""
    checked: int = 0
    """how far plans were checked: changes of nodes, as the index counts them"""
    homes: dict[str, tuple[HeldPlan, dict[str, list[str]]]] = field(default_factory=dict)
    """members of plans by node, computed once per plan"""
    problems: dict[str, tuple[PodView, str]] = field(default_factory=dict)
    """problems of members' annotations, computed once per version"""
    _gathered: dict[str, GroupView] = field(default_factory=dict)
    """cached views"""
    _called: dict[str, dict[str, int]] = field(default_factory=dict)
    """by gang name, the groups and how many of their members use it"""

    def see(self, pod: PodView, group: Group | None) -> None:
        """Record a pod and the group that it declares."""
        if group is None or pod.phase in FINISHED or (pod.deleting and not pod.node):
            self.lose(pod.uid)
            return
        if self._key_of.get(pod.uid, group.key) != group.key:
            self.lose(pod.uid)
            self.alarms[group.key] = IMMEDIATELY  # answers about the other group do not apply
        self._key_of[pod.uid] = group.key
        self._gathered.pop(group.key, None)
        self.touched[group.key] = None
        members = self._members.setdefault(group.key, Members())
        if len(members) == 0:
            self._titles.setdefault(_title(group.key), {})[group.key] = None
            self.touched |= dict.fromkeys(self.of_that_name(group.key))
        before = members.put(pod, group)
        self._uncall(before)
        if (pod.node, pod.deleting) != ((before[0].node, before[0].deleting) if before else ("", False)):
            self._stir(group)
        keys = self._called.setdefault(gang_name(pod, group), {})
        keys[group.key] = keys.get(group.key, 0) + 1
        if pod.node:
            self.refused.pop(pod.uid, None)
        if pod.node and group.key not in self.satisfied:
            self.count_bound(group.key)

    def count_bound(self, key: str) -> None:
        """Note a gang of which enough members are bound: later members need not wait for each other."""
        members = self._members.get(key)
        group = self.complete(*members.first()) if members else None
        minimum = group.minimum if group and group.match_policy == "once-satisfied" else None
        if minimum and members and members.bound >= minimum:
            self.satisfied.add(key)
            waited = (key, *(peer for name in self.bundle_of(key) for peer in self.named(name)))
            self.alarms |= {peer: IMMEDIATELY for peer in waited if peer not in self.plans}
            for peer in waited:
                self.short.pop(peer, None)

    def lose(self, uid: str) -> str:
        """Remove a pod; return the key of the group that it left."""
        key = self._key_of.pop(uid, "")
        self.refused.pop(uid, None)
        self.problems.pop(uid, None)
        if key:
            self._gathered.pop(key, None)
            self.touched[key] = None
            members = self._members[key]
            lost = members.take(uid)
            self._uncall(lost)
            if members:
                self._stir(lost[1])
            else:
                self._forget(key)
        return key

    def _stir(self, group: Group) -> None:
        """Retry a group at once that did not fit and has fewer members to place now."""
        peers = (group.key, *(peer for name in group.bundle for peer in self.named(name)))
        if any(peer in self.first_seen and peer not in self.plans for peer in peers):
            self.alarms[group.key] = IMMEDIATELY

    def _forget(self, key: str) -> None:
        del self._members[key]
        titled = self._titles[_title(key)]
        del titled[key]
        if not titled:
            del self._titles[_title(key)]
        self.touched |= dict.fromkeys(titled)
        self.satisfied.discard(key)
        for book in (self.first_seen, self.short, self.alarms, self.rests, self.avoided, self.evicting):
            book.pop(key, None)
        for other in (self.written, self.past, self.halved, self._generations):
            other.pop(key, None)

    def under_way(self) -> bool:
        """Return whether there are deadlines."""
        return bool(self.plans or self.alarms or self.evicting)

    def key_of(self, uid: str) -> str:
        """Return the group of a pod; empty if it has none."""
        return self._key_of.get(uid, "")

    def keys(self) -> list[str]:
        """Return all groups, in the order in which they were observed."""
        return list(self._members)

    def objects_changed(self) -> None:
        """Drop cached views, because objects changed."""
        self._gathered.clear()

    def gather(self, key: str) -> GroupView | None:
        """Return the group as it is now; its oldest pod defines it."""
        members = self._members.get(key)
        if not members:
            return None
        if key not in self._gathered:
            self._gathered[key] = self._gather(members)
        return self._gathered[key]

    def _gather(self, members: Members) -> GroupView:
        group = self.complete(*members.first())
        order = members.by_rank()
        leaving = tuple(pod for pod in order if pod.deleting)
        staying = [pod for pod in order if not pod.deleting]
        first, more = staying[: group.total], staying[group.total :] if group.total is not None else []
        bound, waiting = tuple(pod for pod in first if pod.node), tuple(pod for pod in first if not pod.node)
        return GroupView(group, waiting, bound, tuple(pod.uid for pod in more), leaving)

    def of_that_name(self, key: str) -> list[str]:
        """Return other groups of the same namespace and name."""
        return sorted(other for other in self._titles.get(_title(key), ()) if other != key)

    def named(self, name: str) -> list[str]:
        """Return the groups with that gang name; none for an empty name."""
        return sorted(self._called.get(name, ())) if name else []

    def _uncall(self, member: Enrolled | None) -> None:
        if member is None:
            return
        name, key = gang_name(*member), member[1].key
        keys = self._called[name]
        keys[key] -= 1
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._called[name]

    def sources(self, key: str) -> list[str]:
        """Return the systems whose annotations declare the group."""
        members = self._members.get(key)
        return sorted({declared.source for _, declared in members.pods.values()}) if members else []

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """Return the gang names of a bundle, its own included; empty without a bundle."""
        members = self._members.get(key)
        group = self.complete(*members.first()) if members else None
        if not members or group is None or not group.bundle:
            return ()
        return tuple(
            sorted({*(gang_name(pod, declared) for pod, declared in members.pods.values()), *group.bundle} - {""})
        )

    def next_generation(self, key: str) -> int:
        """Return and record the next generation of a group's plans."""
        self.past[key] = self.note_generation(key, self.generation(key) + 1)
        return self.past[key]

    def give_up_written(self, key: str) -> None:
        """Ignore the written plans of a group."""
        if key in self.written:
            del self.written[key]
            self.past[key] = self.generation(key)

    def generation(self, key: str) -> int:
        """Return the newest known generation of a group's plans."""
        return self._generations.get(key, 0)

    def generations(self) -> dict[str, int]:
        """Return the generations of all groups, for a snapshot."""
        return dict(self._generations)

    def note_generation(self, key: str, number: int) -> int:
        """Raise the generation of a group to at least `number`; return it."""
        self._generations[key] = max(number, self.generation(key))
        return self._generations[key]


def _title(key: str) -> str:
    return "/".join(key.split("/")[:2])


Enrolled = tuple["PodView", "Group"]
"""a member, and the group that it declares"""
_NUMBERS: Final = re.compile(r"([0-9]+)")


class Members:
    """Members by UID."""

    __slots__ = ("_first", "bound", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, Enrolled] = {}
        self.bound = 0
        """members that have a node"""
        self._first: Enrolled | None = None

    def __len__(self) -> int:
        return len(self.pods)

    def put(self, pod: PodView, group: Group) -> Enrolled | None:
        """Record a member; return its earlier version, None if it is new."""
        before, member = self.pods.get(pod.uid), (pod, group)
        if before:
            self._leave(before)
        self.pods[pod.uid] = member
        self.bound += bool(pod.node)
        if self._first and _age(pod) < _age(self._first[0]):
            self._first = member
        return before

    def take(self, uid: str) -> Enrolled:
        """Remove a member."""
        member = self.pods.pop(uid)
        self._leave(member)
        return member

    def first(self) -> Enrolled:
        """Return the oldest member, which defines the group."""
        if self._first is None:
            self._first = min(self.pods.values(), key=lambda member: _age(member[0]))
        return self._first

    def by_rank(self) -> list[PodView]:
        """Return members by rank, age and natural name order: w-10 follows w-2."""
        return [pod for pod, _ in sorted(self.pods.values(), key=lambda member: _order(*member))]

    def _leave(self, member: Enrolled) -> None:
        self.bound -= bool(member[0].node)
        if self._first is member:
            self._first = None


def _age(pod: PodView) -> tuple[float, str]:
    return (pod.created, pod.uid)


def _order(pod: PodView, group: Group) -> tuple[object, ...]:
    return (group.rank is None, group.rank or 0, pod.created, _natural(pod.name), pod.uid)


@lru_cache(maxsize=1 << 16)
def _natural(name: str) -> tuple[tuple[str, int], ...]:
    parts = _NUMBERS.split(name)
    return tuple((text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True))
