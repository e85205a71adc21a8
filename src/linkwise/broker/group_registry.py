"""Groups of pods as observed, and their plans: made, held, and failed.

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
"""by group how many members must be placed, and those that wait"""


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """A plan that counts as taken, until it is carried out or its time is over."""

    plan: Plan
    id: str
    generation: int
    expires: float
    priority: int = 0
    bundle: tuple[str, ...] = ()
    """groups that hold plans together with it: all of them or none"""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A group that did not fit, or not with all members."""

    reason: Reason
    members: tuple[str, ...]
    """those that were tried"""
    until: float
    """when it is tried again, whatever happens"""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it is now."""

    group: Group
    """what its first pod says"""
    waiting: tuple[PodView, ...]
    """members that are not bound, in the order of their ranks"""
    bound: tuple[PodView, ...] = ()
    extra: tuple[str, ...] = ()
    """UIDs of pods beyond the number of members, bound or not: each is placed alone"""
    leaving: tuple[PodView, ...] = ()
    """bound and being deleted: members no more, though their devices are not free yet"""

    @property
    def seen(self) -> int:
        """Members that are there."""
        return len(self.waiting) + len(self.bound)


@dataclass(slots=True)
class Run:
    """A plan that is being made."""

    key: str
    asked: Asked
    steps: Generator[None, None, Plan | None]
    plan: Plan | None = None
    done: bool = False

    def advance(self, budget: int) -> bool:
        """Work for so many steps; whether it is done."""
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
    """adds what objects say of a group"""
    plans: dict[str, HeldPlan] = field(default_factory=dict)
    satisfied: set[str] = field(default_factory=set)
    """gangs of which enough members were bound once"""
    first_seen: dict[str, float] = field(default_factory=dict)
    """when the first member that waits was tried"""
    short: dict[str, Shortage] = field(default_factory=dict)
    """groups that did not fit"""
    alarms: dict[str, float] = field(default_factory=dict)
    """when members are worth another try, though nothing happens before"""
    rests: dict[str, tuple[int, float]] = field(default_factory=dict)
    """groups whose plans were not carried out in time: how often, and until when they are not planned again"""
    refused: dict[str, int] = field(default_factory=dict)
    """by pod how often the scheduler did not take the planned node"""
    avoided: dict[str, set[str]] = field(default_factory=dict)
    """nodes that did not work for a group, though nothing that we know of is wrong with them"""
    touched: dict[str, None] = field(default_factory=dict)
    """groups whose members changed since this was last emptied"""
    empty: list[tuple[str, Grant]] = field(default_factory=list)
    """what members had that are gone, since this was last emptied"""
    places: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """places that are kept for members to come: until when, and under which names"""
    alone: dict[str, str] = field(default_factory=dict)
    """pods whose words make no group, and what is wrong with them; emptied when that is told"""
    told: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    """what was said about odd groups, by pod and word"""
    written: dict[str, None] = field(default_factory=dict)
    """groups whose members carry a plan that was made before this book was begun"""
    past: dict[str, int] = field(default_factory=dict)
    """by group the newest plan that was held or given up here: what is written of it does not hold again"""
    halved: dict[str, None] = field(default_factory=dict)
    """gangs of which it was said that they are stuck halfway"""
    evicting: dict[str, float] = field(default_factory=dict)
    """gangs that are stuck halfway, and when their bound members are evicted"""
    evicted: dict[str, None] = field(default_factory=dict)
    """pods whose eviction was asked for"""
    _members: dict[str, Members] = field(default_factory=dict)
    _key_of: dict[str, str] = field(default_factory=dict)
    _generations: dict[str, int] = field(default_factory=dict)
    _titles: dict[str, dict[str, None]] = field(default_factory=dict)
    """groups by namespace and name"""
    reopened: bool = False
    """whether a node may take pods that it did not take before, whatever is free of it; until somebody acts on it"""
    missed: set[str] = field(default_factory=set)
    """groups that were being planned when room appeared that the plan does not know of"""
    checked: int = 0
    """how far plans were checked: changes of nodes, as the index counts them"""
    homes: dict[str, tuple[HeldPlan, dict[str, list[str]]]] = field(default_factory=dict)
    """members of plans by node, worked out once for each plan"""
    problems: dict[str, tuple[PodView, str]] = field(default_factory=dict)
    """what is wrong with the words of members, worked out once for each version of them"""
    _gathered: dict[str, GroupView] = field(default_factory=dict)
    """groups as they are now, worked out when somebody asks"""
    _called: dict[str, dict[str, int]] = field(default_factory=dict)
    """by what others call groups, how many members of which are called so"""

    def see(self, pod: PodView, group: Group | None) -> None:
        """A pod as it is now, and the group it says it belongs to."""
        if group is None or pod.phase in FINISHED or (pod.deleting and not pod.node):
            self.lose(pod.uid)
            return
        if self._key_of.get(pod.uid, group.key) != group.key:
            self.lose(pod.uid)
            self.alarms[group.key] = IMMEDIATELY  # what it was told of the other group says nothing of this one
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
        """Note a gang of which enough members are bound: members that come later need not wait for each other."""
        members = self._members.get(key)
        group = self.complete(*members.first()) if members else None
        minimum = group.minimum if group and group.match_policy == "once-satisfied" else None
        if minimum and members and members.bound >= minimum:
            self.satisfied.add(key)
            waited = (key, *(mate for name in self.bundle_of(key) for mate in self.named(name)))
            self.alarms |= {mate: IMMEDIATELY for mate in waited if mate not in self.plans}
            for mate in waited:
                self.short.pop(mate, None)

    def lose(self, uid: str) -> str:
        """The pod is gone, or no member any more; the key of the group that it left."""
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
        """A group that was tried in vain has fewer members to place: it is worth another try at once."""
        mates = (group.key, *(mate for name in group.bundle for mate in self.named(name)))
        if any(mate in self.first_seen and mate not in self.plans for mate in mates):
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
        """Whether time alone may change something."""
        return bool(self.plans or self.alarms or self.evicting)

    def key_of(self, uid: str) -> str:
        """The group that the pod belongs to; empty if it is alone."""
        return self._key_of.get(uid, "")

    def keys(self) -> list[str]:
        """All groups, in the order in which they were seen."""
        return list(self._members)

    def objects_changed(self) -> None:
        """What objects add to groups may be something else."""
        self._gathered.clear()

    def gather(self, key: str) -> GroupView | None:
        """The group's members as they are now; the first pod by age says what the group is."""
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
        """Other groups of the same namespace and name."""
        return sorted(other for other in self._titles.get(_title(key), ()) if other != key)

    def named(self, name: str) -> list[str]:
        """The groups that PodGroups and other gangs call so; empty text names none."""
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
        """The systems in whose words members name their group."""
        members = self._members.get(key)
        return sorted({said.source for _, said in members.pods.values()}) if members else []

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """The gangs that start together with a group, its own name among them; empty if it starts alone."""
        members = self._members.get(key)
        group = self.complete(*members.first()) if members else None
        if not members or group is None or not group.bundle:
            return ()
        return tuple(sorted({*(gang_name(pod, said) for pod, said in members.pods.values()), *group.bundle} - {""}))

    def next_generation(self, key: str) -> int:
        """How often the group was planned, this time included."""
        self.past[key] = self.note_generation(key, self.generation(key) + 1)
        return self.past[key]

    def give_up_written(self, key: str) -> None:
        """Whatever was written of the group's plans holds no more."""
        if key in self.written:
            del self.written[key]
            self.past[key] = self.generation(key)

    def generation(self, key: str) -> int:
        """How often the group was planned, as far as that is known."""
        return self._generations.get(key, 0)

    def generations(self) -> dict[str, int]:
        """The same of all groups, for a snapshot."""
        return dict(self._generations)

    def note_generation(self, key: str, number: int) -> int:
        """The group was planned that often at least; how often it was."""
        self._generations[key] = max(number, self.generation(key))
        return self._generations[key]


def _title(key: str) -> str:
    return "/".join(key.split("/")[:2])


Enrolled = tuple["PodView", "Group"]
"""a member, and the group as it says it"""
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
        """Note a member as it is now; as it was before, None if it is new."""
        before, member = self.pods.get(pod.uid), (pod, group)
        if before:
            self._leave(before)
        self.pods[pod.uid] = member
        self.bound += bool(pod.node)
        if self._first and _age(pod) < _age(self._first[0]):
            self._first = member
        return before

    def take(self, uid: str) -> Enrolled:
        """Strike a member out."""
        member = self.pods.pop(uid)
        self._leave(member)
        return member

    def first(self) -> Enrolled:
        """The oldest member, who says what the group is."""
        if self._first is None:
            self._first = min(self.pods.values(), key=lambda member: _age(member[0]))
        return self._first

    def by_rank(self) -> list[PodView]:
        """By rank, age and name, with numbers in names in their order: w-10 comes after w-2."""
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
