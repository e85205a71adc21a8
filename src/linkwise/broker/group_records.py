r"""Group records: one per group of pods, with its members and the stage of its plan.

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
Only `broker.groups` changes records. To forget a group is to delete its record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.group_members import GroupView, Members
from linkwise.dialects.groups.pod_group_objects import gang_name
from linkwise.errors import GroupError
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from linkwise.broker.group_members import Enrolled
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.ask import Group
    from linkwise.model.ledger_entry import Entry
    from linkwise.model.verdict import Grant, Reason
    from linkwise.model.views import PodView

__all__ = [
    "NO_LIMITS",
    "TABLE",
    "Answer",
    "BackingOff",
    "Event",
    "GroupRecord",
    "Groups",
    "Idle",
    "KeptPlaces",
    "Limits",
    "Planning",
    "Requested",
    "Reserved",
    "Run",
    "Stage",
    "Unschedulable",
    "Waiting",
    "deadline_of",
]

Requested = tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]
"""what a plan is made for: by group, how many members must be placed, the pending ones, and the bound ones with their nodes"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What attempts to carry out a plan showed about nodes; observed objects do not."""

    avoided: frozenset[str] = frozenset()
    """nodes to which binds failed"""
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """nodes that passed the scheduler's own filters, by member whose planned node did not"""
    replans: int = 0
    """plans made again because of it"""


NO_LIMITS: Final = Limits()


@dataclass(slots=True)
class Run:
    """A plan that is being computed, for a group or for all gangs of a bundle."""

    keys: tuple[str, ...]
    requested: Requested
    steps: Generator[None, None, Plan | None]
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

    run: Run
    limits: Limits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Reserved:
    """A plan reserves devices for its members that are not bound."""

    plan: Plan
    generation: int
    expires: float
    hold: float = 0.0  # seconds
    """how long it lasts from its last extension"""
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
    at: int = 0
    """changes of nodes that the attempt considered, as the index counts them"""


@dataclass(frozen=True, slots=True)
class BackingOff:
    """The last plan expired or was preempted."""

    reason: Reason
    until: float


Stage = Idle | Waiting | Planning | Reserved | Unschedulable | BackingOff

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
        case Reserved(expires=expires):
            return expires
    return None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member was told, in short: the node that it may go to, or the stage for which it was refused."""

    stage: type[Stage] | None = None
    """None if it would be planned, or placed as a pod without a group"""
    node: str = ""
    retry: bool = False
    """whether another attempt may succeed"""


@dataclass(frozen=True, slots=True)
class KeptPlaces:
    """Devices kept for replacements of deleted members."""

    until: float
    entries: tuple[str, ...]
    """names in the ledger"""


@dataclass(slots=True)
class GroupRecord:
    """Everything about one group."""

    members: Members = field(default_factory=Members)
    stage: Stage = Idle()
    since: float | None = None
    """when the first pending member was tried; the window for missing members starts then"""
    satisfied: bool = False
    """whether it is a gang of which enough members have been bound once"""
    expirations: int = 0
    """plans that expired in a row, which determines the next backoff"""
    generation: int = 0
    """the newest plan that is known, reserved here or recorded on a member"""
    places: KeptPlaces | None = None
    eviction: float | None = None
    """deadline of a stale gang, at which its bound members are evicted"""
    stale: bool = False
    """whether the gang was reported as stale"""
    answers: dict[str, Answer] = field(default_factory=dict)
    """the last answer to each pending member"""
    notices: dict[tuple[str, str], str] = field(default_factory=dict)
    """warnings given to members, by pod and event reason"""

    def next_deadline(self) -> float | None:
        """Return when the group is reviewed if nothing happens before; a stale gang with a plan is spared while it lasts."""
        eviction = None if isinstance(self.stage, Reserved) else self.eviction
        times = (deadline_of(self.stage), eviction, self.places.until if self.places else None)
        return min((time for time in times if time is not None), default=None)

    @property
    def limits(self) -> Limits:
        """What is known about nodes in this stage."""
        match self.stage:
            case Planning(limits=limits) | Reserved(limits=limits) | Unschedulable(limits=limits):
                return limits
        return NO_LIMITS


class Groups:
    """Records by group, and what is derived from them: the group of a pod, names, stages that need attention."""

    def __init__(self, complete: Callable[[PodView, Group], Group], entry_of: Callable[[str], Entry | None]) -> None:
        self.complete: Final = complete
        """completes a group from its PodGroup object"""
        self._entry_of: Final = entry_of
        self._records: dict[str, GroupRecord] = {}
        self._key_of: dict[str, str] = {}
        self._titles: dict[str, dict[str, None]] = {}
        """groups by namespace and name"""
        self._called: dict[str, dict[str, int]] = {}
        """by gang name, the groups and how many of their members use it"""
        self._views: dict[str, GroupView] = {}
        """cached views of observed pods"""
        self._busy: dict[str, None] = {}
        """groups that are not idle, in the order of their last transition, or that have another deadline"""
        self.evicted: dict[str, None] = {}
        """pods whose eviction was requested"""
        # Changes since the last reconciliation.
        self.changed: dict[str, None] = {}
        """groups whose members or objects changed"""
        self.moved: dict[str, None] = {}
        """groups of which members may get another answer"""
        self.emptied: list[tuple[str, Grant]] = []
        """devices of deleted members"""
        self.forgotten: list[tuple[str, tuple[str, ...]]] = []
        """groups without members, and the names under which the ledger may still reserve devices for them"""
        self.alone: dict[str, str] = {}
        """pods with invalid group annotations, and the problem"""
        self.gained: dict[str, int] = {}
        """nodes that gained capacity, and how many changes of nodes the index had counted then"""
        self.reopened = False
        """whether a node changed so that it may accept more pods"""
        self.checked = 0
        """how far plans were checked: changes of nodes, as the index counts them"""
        self.problems: dict[str, tuple[PodView, str]] = {}
        """problems of members' annotations, computed once per version"""

    # records

    def __getitem__(self, key: str) -> GroupRecord:
        return self._records[key]

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def get(self, key: str) -> GroupRecord | None:
        """Return the record of a group."""
        return self._records.get(key)

    def keys(self) -> list[str]:
        """Return all groups, in the order in which they were observed."""
        return list(self._records)

    def records(self) -> Mapping[str, GroupRecord]:
        """Return all records by group."""
        return self._records

    def stage(self, key: str) -> Stage:
        """Return the stage of a group; an unknown one is idle."""
        record = self._records.get(key)
        return record.stage if record else Idle()

    def limits(self, key: str) -> Limits:
        """Return what is known about nodes for a group."""
        record = self._records.get(key)
        return record.limits if record else NO_LIMITS

    def busy(self) -> Iterator[tuple[str, GroupRecord]]:
        """Yield the groups that are not idle or have a deadline, the last changed at the end."""
        return ((key, self._records[key]) for key in list(self._busy) if key in self._records)

    @property
    def plans(self) -> dict[str, Reserved]:
        """Plans that reserve devices, by group, the oldest first."""
        return {key: record.stage for key, record in self.busy() if isinstance(record.stage, Reserved)}

    def plan_of(self, key: str) -> Reserved | None:
        """Return the plan that reserves devices for a group."""
        stage = self.stage(key)
        return stage if isinstance(stage, Reserved) else None

    def runs(self) -> list[Run]:
        """Return the plans that are being made, by priority, then age."""
        runs = {
            id(record.stage.run): record.stage.run for _, record in self.busy() if isinstance(record.stage, Planning)
        }
        return sorted(runs.values(), key=lambda run: (-run.priority, run.created, run.keys))

    def move(self, key: str, event: Event, stage: Stage) -> None:
        """Change the stage of a group; `broker.groups.reservations` keeps the ledger in line."""
        record = self._records[key]
        now = type(record.stage)
        if TABLE.get((now, event)) is not type(stage):
            raise GroupError(f"group {key} is {now.__name__}: {event!r} to {type(stage).__name__} is not allowed")
        record.stage = stage
        self.moved[key] = None
        self.note_deadline(key)

    def note_deadline(self, key: str) -> None:
        """Note that the stage or a deadline of a group changed."""
        record = self._records[key]
        if isinstance(record.stage, Idle) and record.next_deadline() is None:
            self._busy.pop(key, None)
        else:
            self._busy.setdefault(key, None)

    # members

    def see(self, pod: PodView, group: Group | None) -> None:
        """Record a pod and the group that it declares."""
        if group is None or pod.phase in FINISHED or (pod.deleting and not pod.node):
            self.lose(pod.uid)
            return
        key = group.key
        if self._key_of.get(pod.uid, key) != key:
            self.lose(pod.uid)
        self._key_of[pod.uid] = key
        self._note_change(key)
        record = self._records.setdefault(key, GroupRecord())
        if not record.members:
            self._titles.setdefault(_title(key), {})[key] = None
            self.changed |= dict.fromkeys(self.of_that_name(key))
        self._uncall(record.members.put(pod, group))
        keys = self._called.setdefault(gang_name(pod, group), {})
        keys[key] = keys.get(key, 0) + 1
        if pod.node or pod.deleting:
            record.answers.pop(pod.uid, None)
        if pod.node and not record.satisfied:
            self.count_bound(key)

    def count_bound(self, key: str) -> None:
        """Note a gang of which enough members are bound: later members need not wait for each other."""
        record = self._records[key]
        group = self.complete(*record.members.first())
        minimum = group.minimum if group.match_policy == "once-satisfied" else None
        if minimum and record.members.bound >= minimum and not record.satisfied:
            record.satisfied = True
            for peer in (key, *(peer for name in self.bundle_of(key) for peer in self.named(name))):
                self._note_change(peer)

    def lose(self, uid: str) -> str:
        """Remove a pod; return the key of the group that it left."""
        key = self._key_of.pop(uid, "")
        self.problems.pop(uid, None)
        if key:
            self._note_change(key)
            record = self._records[key]
            self._uncall(record.members.take(uid))
            record.answers.pop(uid, None)
            if not record.members:
                self._forget(key)
        return key

    def _forget(self, key: str) -> None:
        titled = self._titles[_title(key)]
        del titled[key]
        if not titled:
            del self._titles[_title(key)]
        self.changed |= dict.fromkeys(titled)
        self._busy.pop(key, None)
        record = self._records.pop(key)
        planned = record.stage.plan.placements if isinstance(record.stage, Reserved) else ()
        self.forgotten.append((key, (*planned, *(record.places.entries if record.places else ()))))

    def _note_change(self, key: str) -> None:
        self._views.pop(key, None)
        self.changed[key] = None

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

    def objects_changed(self) -> None:
        """Drop cached views, because objects changed."""
        self._views.clear()

    def key_of(self, uid: str) -> str:
        """Return the group of a pod; empty if it has none."""
        return self._key_of.get(uid, "")

    def view(self, key: str) -> GroupView | None:
        """Return the group as it is now; its oldest pod defines it."""
        view = self._views.get(key)
        if view is None:
            record = self._records.get(key)
            if record is None:
                return None
            view = self._views[key] = self._observed(record)
        return self._with_assumed(view)

    def _observed(self, record: GroupRecord) -> GroupView:
        group = self.complete(*record.members.first())
        order = record.members.by_rank()
        leaving = tuple(pod for pod in order if pod.deleting)
        staying = [pod for pod in order if not pod.deleting]
        first, more = staying[: group.total], staying[group.total :] if group.total is not None else []
        bound, waiting = tuple(pod for pod in first if pod.node), tuple(pod for pod in first if not pod.node)
        return GroupView(group, waiting, bound, tuple(pod.uid for pod in more), leaving, record.satisfied)

    def _with_assumed(self, view: GroupView) -> GroupView:
        homes = {
            pod.uid: entry.node
            for pod in view.waiting
            if (entry := self._entry_of(pod.uid)) and entry.state not in {"PLANNED", "OFFERED"}
        }
        if not homes:
            return view
        assumed = [replace(pod, node=homes[pod.uid]) for pod in view.waiting if pod.uid in homes]
        waiting = tuple(pod for pod in view.waiting if pod.uid not in homes)
        return replace(view, waiting=waiting, bound=(*view.bound, *assumed))

    def of_that_name(self, key: str) -> list[str]:
        """Return other groups of the same namespace and name."""
        return sorted(other for other in self._titles.get(_title(key), ()) if other != key)

    def named(self, name: str) -> list[str]:
        """Return the groups with that gang name; none for an empty name."""
        return sorted(self._called.get(name, ())) if name else []

    def sources(self, key: str) -> list[str]:
        """Return the systems whose annotations declare the group."""
        record = self._records.get(key)
        return sorted({declared.source for _, declared in record.members.pods.values()}) if record else []

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """Return the gang names of a bundle, its own included; empty without a bundle."""
        record = self._records.get(key)
        group = self.complete(*record.members.first()) if record else None
        if record is None or group is None or not group.bundle:
            return ()
        names = {gang_name(pod, declared) for pod, declared in record.members.pods.values()}
        return tuple(sorted({*names, *group.bundle} - {""}))


def _title(key: str) -> str:
    return "/".join(key.split("/")[:2])
