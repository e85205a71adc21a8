r"""Members of a group, in the order of their ranks, and the stages of the group, until all of them are bound.

Idle           no member was tried yet, or all are bound
Waiting        not ready: members, its PodGroup or another gang of its bundle are missing
Planning       a plan is being made
Reserved       a plan reserves devices until its members are bound
Unschedulable  the last attempt failed; tried again when the group changes or capacity is gained
BackingOff     the last plan expired or was preempted; retried after a while

            tried, ready                       fits
    Idle -----------------> Planning -----------------------> Reserved --> all bound: Idle
      \                     ^     ^ \ does not fit              | |  \
       \ tried, not ready   |     |  `---> Unschedulable        | |   `--> broken: Planning again
        `---> Waiting ------'     |             |               | |
                        ready     `-------------'               | |
                                   changed, capacity gained     | |
    Idle <------------- BackingOff <----------------------------+-'
            time is over               expired, preempted

What belongs to a stage is a field of it and ends with it. `TABLE` has every allowed transition; one that is not in it is a
bug of the caller: GroupError, and nothing is changed. Gangs of a bundle are planned in one run and move together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - snapshots are decoded by these annotations
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from linkwise.dialects.linkwise.group_plan import is_gated
from linkwise.engine.planning.plan import Plan  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.verdict import Reason  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.model.ask import Group
    from linkwise.model.views import PodView

__all__ = [
    "NO_LIMITS",
    "STAGES",
    "TABLE",
    "BackingOff",
    "Enrolled",
    "Event",
    "GroupView",
    "Idle",
    "Limits",
    "Members",
    "Planning",
    "Requested",
    "Reserved",
    "Run",
    "Stage",
    "Unschedulable",
    "Waiting",
    "deadline_of",
    "with_all_members",
]

Enrolled = tuple["PodView", "Group"]
"""a member, and the group that it declares"""
_NUMBERS: Final = re.compile(r"([0-9]+)")
Requested = tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]
"""what a plan is made for: by group, how many members must be placed, the pending ones, and the bound ones with their nodes"""
Event = Literal["wait", "plan", "reserve", "change", "fail", "finish", "break", "expire", "preempt", "retry", "forget"]
"""
wait      the group is not ready
plan      planning starts, or starts again
reserve   the plan is complete, or restored after a restart
change    members of the plan left or were bound, or its time changed
fail      too few members fit
finish    all members of the plan are bound or gone
break     the plan can't be carried out any more
expire    the plan was not carried out in time, or was made again too often
preempt   a pod or group of higher priority needs the devices
retry     the backoff is over
forget    no member that was tried is pending any more
"""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it is now; members that are being bound count as bound."""

    group: Group
    """as its oldest pod declares it, completed from its PodGroup"""
    waiting: tuple[PodView, ...]
    """pending members, by rank"""
    bound: tuple[PodView, ...] = ()
    extra: tuple[str, ...] = ()
    """UIDs of pods beyond the number of members, bound or not: each is placed alone"""
    leaving: tuple[PodView, ...] = ()
    """bound and being deleted: not members any more, though their devices are not free yet"""
    satisfied: bool = False
    """whether it is a gang of which enough members have been bound once"""

    @property
    def key(self) -> str:
        """The key of the group."""
        return self.group.key

    @property
    def seen(self) -> int:
        """Existing members."""
        return len(self.waiting) + len(self.bound)

    @property
    def least(self) -> int:
        """The number of members that must start together; 0 without a gang, or once enough of it have started."""
        return 0 if self.group.minimum is None or self.satisfied else self.group.minimum


def with_all_members(group: Group, members: int) -> Group:
    """Return the group with the number of existing members as its minimum, if all of them must start together."""
    return replace(group, minimum=members) if group.all_members and group.minimum is None else group


class Members:
    """Members by UID, with the counts that are needed whenever a member changes."""

    __slots__ = ("_first", "bound", "gated", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, Enrolled] = {}
        self.bound = 0
        """members that have a node"""
        self.gated = 0
        """members that have the gate of gangs"""
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
        self.gated += is_gated(pod)
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

    def order(self, uid: str) -> tuple[object, ...]:
        """Return the sort key of a member."""
        return _order(*self.pods[uid])

    def _leave(self, member: Enrolled) -> None:
        self.bound -= bool(member[0].node)
        self.gated -= is_gated(member[0])
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


@dataclass(frozen=True, slots=True)
class Limits:
    """What attempts to carry out a plan showed about nodes; observed objects do not."""

    avoided: frozenset[str] = frozenset()
    """nodes to which binds failed"""
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """nodes that passed the scheduler's own filters, by member whose planned node did not"""
    replans: int = 0
    """plans made again because of it"""
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """by member of a native PodGroup, the nodes of other domains that were named since the plan was made"""
    named: bool = False
    """whether a member's planned node was named since then: the scheduler can use the planned domain"""


NO_LIMITS: Final = Limits()


@dataclass(slots=True)
class Run:
    """A plan that is being computed, for a group or for all gangs of a bundle."""

    keys: tuple[str, ...]
    requested: Requested = ()
    steps: Generator[None, None, Plan | None] = field(default_factory=lambda: (None for _ in ()))
    at: int = 0
    """changes of nodes that it considers, as the index counts them"""
    priority: int = 0
    created: float = 0.0
    """of the oldest pending member"""
    plan: Plan | None = None
    done: bool = False
    missed: bool = False
    """whether capacity was gained that it may not consider"""

    def advance(self, budget: int) -> int:
        """Advance by at most that many steps; return how many were made."""
        for step in range(budget):
            if self.done:
                return step
            try:
                next(self.steps)
            except StopIteration as end:
                self.plan, self.done = end.value, True
        return budget


@dataclass(frozen=True, slots=True)
class Idle:
    """No member was tried yet, or all are bound."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The group is not ready."""

    reason: Reason
    until: float | None = None
    """when it is planned without what is missing; None if it never is"""


@dataclass(frozen=True, slots=True)
class Planning:
    """A plan is being made."""

    run: Run = field(default_factory=lambda: Run(()), compare=False)
    """not part of a snapshot: the plan is made again"""
    limits: Limits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Reserved:
    """A plan reserves devices for its members that are not bound."""

    plan: Plan
    generation: int
    expires: float
    hold: float = 0.0  # seconds
    """how long it lasts from its last extension"""
    check: float = 0.0
    """when members that do not start are looked at, if that is before it expires; 0 if only then"""
    priority: int = 0
    bundle: tuple[str, ...] = ()
    """groups whose plans are reserved and released together with it"""
    limits: Limits = NO_LIMITS
    refusals: Mapping[str, int] = field(default_factory=dict)
    """by member, how often its bind was refused"""
    homes: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """members by planned node"""

    def __post_init__(self) -> None:
        homes: dict[str, tuple[str, ...]] = {}
        for uid, placement in self.plan.placements.items():
            homes[placement.node] = (*homes.get(placement.node, ()), uid)
        object.__setattr__(self, "homes", homes)


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The last attempt to plan the group failed."""

    reason: Reason
    requested: Requested
    until: float
    """how long members are refused without another attempt, if nothing changes"""
    limits: Limits = NO_LIMITS
    at: int = field(default=0, compare=False)
    """changes of nodes that the attempt considered, as the index counts them; a restored index counts from 0"""


@dataclass(frozen=True, slots=True)
class BackingOff:
    """The last plan expired or was preempted."""

    reason: Reason
    until: float


Stage = Idle | Waiting | Planning | Reserved | Unschedulable | BackingOff


STAGES: Final = (Idle, Waiting, Planning, Reserved, Unschedulable, BackingOff)


TABLE: Final[Mapping[tuple[type[Stage], Event], type[Stage]]] = {
    (Idle, "wait"): Waiting,
    (Waiting, "wait"): Waiting,  # for something else
    (Planning, "wait"): Waiting,  # members left meanwhile
    (Unschedulable, "wait"): Waiting,
    (Idle, "plan"): Planning,
    (Waiting, "plan"): Planning,
    (Planning, "plan"): Planning,  # the group or the cluster changed meanwhile
    (Unschedulable, "plan"): Planning,
    (BackingOff, "plan"): Planning,  # with another gang of its bundle
    (Planning, "reserve"): Reserved,
    (Idle, "reserve"): Reserved,  # a plan recorded on bound members is restored after a restart
    (Reserved, "change"): Reserved,
    (Planning, "fail"): Unschedulable,
    (Reserved, "finish"): Idle,
    (Reserved, "break"): Idle,
    (Reserved, "expire"): BackingOff,
    (Planning, "expire"): BackingOff,
    (Unschedulable, "expire"): BackingOff,
    (Reserved, "preempt"): BackingOff,
    (BackingOff, "retry"): Idle,
    (Waiting, "forget"): Idle,
    (Planning, "forget"): Idle,
    (Unschedulable, "forget"): Idle,
}


def deadline_of(stage: Stage) -> float | None:
    """When a stage is reviewed in any case; None if only an event ends it."""
    match stage:
        case Waiting(until=until) | BackingOff(until=until):
            return until
        case Reserved(expires=expires, check=check):
            return min(expires, check or expires)
    return None
