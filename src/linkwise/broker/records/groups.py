"""Group records: one per group of pods, with its members, its stage and the few facts that outlive a stage.

Only `broker.groups` changes records. To forget a group is to delete its record.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.records.members import (
    NO_LIMITS,
    STAGES,
    TABLE,
    BackingOff,
    GroupView,
    Idle,
    Members,
    Planning,
    Reserved,
    Run,
    Stage,
    Unschedulable,
    Waiting,
    deadline_of,
    with_all_members,
)
from linkwise.dialects.groups.pod_group_objects import gang_name
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN
from linkwise.errors import GroupError, InputError
from linkwise.model.verdict import ReservedKey
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.cluster.changes import Changes
    from linkwise.broker.records.members import Enrolled, Event, Limits
    from linkwise.engine.ledger import Ledger
    from linkwise.model.ask import Group
    from linkwise.model.views import PodView

__all__ = ["Answer", "GroupRecord", "Groups", "KeptPlaces", "Steered"]

MOST_DEMOTED: Final = 1000
"""groups of which refused nodes are remembered"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer to a member, in short: the node that it may go to, or the stage for which it was refused."""

    stage: type[Stage] | None = None
    """None if it would be planned, or placed as a pod without a group"""
    node: str = ""
    retry: bool = False
    """whether another attempt may succeed"""


@dataclass(frozen=True, slots=True)
class KeptPlaces:
    """Devices kept for replacements of deleted members."""

    until: float
    pods: tuple[str, ...]
    """UIDs of the deleted members"""


@dataclass(frozen=True, slots=True)
class Steered:
    """What was last written on a pending member that has or had the gate of gangs, or is being written."""

    generation: int = 0
    """of the plan"""
    node: str = ""
    """the nominated node; empty if any will do, or there is no plan"""
    planned: bool = False
    """whether the member has a place in the plan"""
    ungated: bool = False
    """whether the gate is removed with it"""
    written: bool = False
    """whether the pod was observed with it"""
    keys: tuple[str, ...] = ()
    """annotations with its devices, on a pod of Volcano"""

    def equals(self, other: Steered) -> bool:
        """Return whether the same is written for both."""
        return (self.generation, self.node, self.planned) == (other.generation, other.node, other.planned) and (
            self.ungated or not other.ungated
        )


@dataclass(slots=True)
class GroupRecord:
    """Everything about one group."""

    members: Members = field(default_factory=Members, compare=False)
    """derived from pods"""
    stage: Stage = Idle()  # noqa: RUF009 - frozen
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
    complete: float | None = None
    """when the group was first ready to be planned, since its last plan was carried out"""
    steered: dict[str, Steered] = field(default_factory=dict)
    """what is written on pending members that are or were gated"""
    claims: dict[str, str] = field(default_factory=dict)
    """the plans of claims that are being written, by the UID of their pod; empty for one that is being deleted"""

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

    def __init__(
        self,
        changes: Changes,
        complete: Callable[[PodView, Group], Group],
        ledger: Ledger,
    ) -> None:
        self._changes: Final = changes
        self.complete: Final = complete
        """completes a group from its PodGroup object"""
        self._ledger: Final = ledger
        self.records: Final[dict[str, GroupRecord]] = {}
        """by group, in the order in which they were observed; only verbs of this class change it"""
        self.key_by_pod: Final[dict[str, str]] = {}
        self._titles: dict[str, dict[str, None]] = {}
        """groups by namespace and name"""
        self._called: dict[str, dict[str, int]] = {}
        """by gang name, the groups and how many of their members use it"""
        self._views: dict[str, GroupView] = {}
        """cached views of observed pods"""
        self._assumed: dict[str, tuple[GroupView, int, GroupView]] = {}
        """by group, a cached view, the ledger's changes at that time, and the view with the members that are being bound"""
        self._in_stage: dict[type[Stage], dict[str, None]] = {stage: {} for stage in STAGES}
        """groups by stage, the first to enter it first"""
        self._dated: dict[str, None] = {}
        """groups with a deadline that outlives a stage"""
        self._gated: dict[str, None] = {}
        """groups with members that have the gate of gangs"""
        self.evicted: dict[str, None] = {}
        """pods whose eviction was requested"""
        self.checked = 0
        """how far plans were checked: changes of nodes, as the index counts them"""
        self.demoted: dict[str, dict[str, float]] = {}
        """by group, nodes that Volcano refused and until when its plans avoid them; it outlives pods that are replaced"""
        self.problems: dict[str, tuple[PodView, str]] = {}
        """problems of members' annotations, computed once per version"""

    # records

    def __getitem__(self, key: str) -> GroupRecord:
        return self.records[key]

    def __contains__(self, key: str) -> bool:
        return key in self.records

    def get(self, key: str) -> GroupRecord | None:
        """Return the record of a group."""
        return self.records.get(key)

    def keys(self) -> list[str]:
        """Return all groups, in the order in which they were observed."""
        return list(self.records)

    def stage(self, key: str) -> Stage:
        """Return the stage of a group; an unknown one is idle."""
        record = self.records.get(key)
        return record.stage if record else Idle()

    def limits(self, key: str) -> Limits:
        """Return what is known about nodes for a group."""
        record = self.records.get(key)
        return record.limits if record else NO_LIMITS

    def in_stage(self, *stages: type[Stage]) -> list[tuple[str, GroupRecord]]:
        """Return the groups in these stages, those that entered a stage first before others."""
        return [(key, self.records[key]) for stage in stages for key in self._in_stage[stage]]

    def dated(self) -> list[tuple[str, GroupRecord]]:
        """Return the groups with a deadline that outlives a stage."""
        return [(key, self.records[key]) for key in self._dated]

    def gated(self, *stages: type[Stage]) -> list[str]:
        """Return the groups in these stages that have members with the gate of gangs."""
        return [key for key in self._gated if isinstance(self.records[key].stage, stages)]

    def is_busy(self) -> bool:
        """Return whether a group has a stage or a deadline."""
        return any(keys for stage, keys in self._in_stage.items() if stage is not Idle) or bool(self._dated)

    def next_deadline(self) -> float | None:
        """Return when groups are to be reconciled if nothing happens before; 0 if there is work left."""
        changes = self._changes
        planning, unfit = self._in_stage[Planning], self._in_stage[Unschedulable]
        if changes.groups or changes.answers or planning or (changes.capacity and unfit):
            return 0.0
        records = (
            self.records[key]
            for key in (*self._in_stage[Waiting], *self._in_stage[Reserved], *self._in_stage[BackingOff], *self._dated)
        )
        times = (record.next_deadline() for record in records)
        return min((time for time in times if time is not None), default=None)

    def gain(self, nodes: Iterable[str], changes: int) -> None:
        """Note nodes that gained capacity, if a group waits for it; `changes` counts the changes of nodes so far."""
        if self._in_stage[Planning] or self._in_stage[Unschedulable]:
            self._changes.capacity |= dict.fromkeys(nodes, changes)

    @property
    def plans(self) -> dict[str, Reserved]:
        """Plans that reserve devices, by group, the oldest first."""
        return {key: record.stage for key, record in self.in_stage(Reserved) if isinstance(record.stage, Reserved)}

    def plan_of(self, key: str) -> Reserved | None:
        """Return the plan that reserves devices for a group."""
        stage = self.stage(key)
        return stage if isinstance(stage, Reserved) else None

    def runs(self) -> list[Run]:
        """Return the plans that are being made, by priority, then age."""
        stages = (record.stage for _, record in self.in_stage(Planning))
        runs = {id(stage.run): stage.run for stage in stages if isinstance(stage, Planning)}
        return sorted(runs.values(), key=lambda run: (-run.priority, run.created, run.keys))

    def move(self, key: str, event: Event, stage: Stage) -> None:
        """Change the stage of a group; `broker.groups.reservations` keeps the ledger in line."""
        record = self.records[key]
        now = type(record.stage)
        if TABLE.get((now, event)) is not type(stage):
            raise GroupError(f"group {key} is {now.__name__}: {event!r} to {type(stage).__name__} is not allowed")
        record.stage = stage
        self._changes.answers[key] = None
        if type(stage) is not now:
            del self._in_stage[now][key]
            self._in_stage[type(stage)][key] = None

    def note_deadline(self, key: str) -> None:
        """Note that kept places or the eviction of a group changed."""
        record = self.records[key]
        if record.places or record.eviction is not None:
            self._dated[key] = None
        else:
            self._dated.pop(key, None)

    def demote(self, key: str, nodes: Iterable[str], until: float) -> None:
        """Let the plans of a group avoid nodes until then."""
        self.demoted[key] = {**self.demoted.pop(key, {}), **dict.fromkeys(nodes, until)}
        if len(self.demoted) > MOST_DEMOTED:
            del self.demoted[next(iter(self.demoted))]

    # snapshots

    def stored(self) -> dict[str, GroupRecord]:
        """Return copies of all records that differ from a new one, by stage and in the order in which they entered it."""
        busy = [key for stage in STAGES if stage is not Idle for key in self._in_stage[stage]]
        order = dict.fromkeys((*busy, *sorted(self.records)))
        copies = {key: replace(_copy(self.records[key]), members=Members()) for key in order}
        return {key: record for key, record in copies.items() if record != GroupRecord()}

    def restore(
        self,
        records: Mapping[str, GroupRecord],
        changed: Iterable[str],
        evicted: Iterable[str],
        demoted: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Replace the records of groups whose members were observed by those of a snapshot."""
        if unknown := sorted({*records, *changed} - self.records.keys()):
            raise InputError(f"group {unknown[0]} has no members")
        for key, known in self.records.items():
            record = self.records[key] = replace(_copy(records.get(key, GroupRecord())), members=known.members)
            if isinstance(record.stage, Planning):
                # A run without steps is over at once, and outdated: planning starts again.
                record.stage = replace(record.stage, run=Run((key,)))
            elif isinstance(record.stage, Unschedulable):
                record.stage = replace(record.stage, at=0)  # the index counts changes of nodes from 0 again
        self._views.clear()
        for keys in self._in_stage.values():
            keys.clear()
        for key in dict.fromkeys((*records, *self.records)):
            self._in_stage[type(self.records[key].stage)][key] = None
            self.note_deadline(key)
        self._changes.groups, self.evicted = dict.fromkeys(changed), dict.fromkeys(evicted)
        self.demoted = {key: dict(nodes) for key, nodes in demoted.items()}

    # members

    def see(self, pod: PodView, group: Group | None) -> None:
        """Record a pod and the group that it declares."""
        if group is None or pod.phase in FINISHED or (pod.deleting and not pod.node):
            self.lose(pod.uid)
            return
        key = group.key
        if self.key_by_pod.get(pod.uid, key) != key:
            self.lose(pod.uid)
        elif self._is_only_steered(pod, group):
            self._replace(pod, group)
            return
        elif self._is_bound_as_planned(pod, group):
            self._carry_out(pod, group)
            return
        self.key_by_pod[pod.uid] = key
        self._note_change(key)
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = GroupRecord()
            self._in_stage[Idle][key] = None
            self._titles.setdefault(_title(key), {})[key] = None
            self._changes.groups |= dict.fromkeys(self.of_that_name(key))
        self._uncall(record.members.put(pod, group))
        keys = self._called.setdefault(gang_name(pod, group), {})
        keys[key] = keys.get(key, 0) + 1
        self._note_gated(key)
        if pod.node or pod.deleting:
            record.answers.pop(pod.uid, None)
            record.steered.pop(pod.uid, None)
            record.claims.pop(pod.uid, None)
        if pod.node and not record.satisfied:
            self.count_bound(key)

    def _is_only_steered(self, pod: PodView, group: Group) -> bool:
        """Return whether nothing changed but what is written on a member that is steered: nomination, plan and gate.

        This happens to all members of a gang, one after the other: what follows is derived when the last one is written.
        """
        record = self.records.get(group.key)
        before, declared = record.members.pods.get(pod.uid, (None, None)) if record else (None, None)
        if record is None or before is None or declared != group:
            return False
        if (before.nominated, before.gates) == (pod.nominated, pod.gates):
            return False
        expected = replace(before, nominated=pod.nominated, version=pod.version)
        known, plan = record.steered.get(pod.uid), pod.annotations.get(GROUP_PLAN)
        if known and known.planned and plan and GATE in before.gates and isinstance(record.stage, Reserved):
            gates = tuple(gate for gate in before.gates if gate != GATE)
            expected = replace(expected, gates=gates, annotations={**before.annotations, GROUP_PLAN: plan})
            if known.keys or CLAIM_REQUEST in pod.annotations:  # it is pinned, too
                written = {key: pod.annotations[key] for key in known.keys if key in pod.annotations}
                annotations = {**expected.annotations, **written}
                expected = replace(expected, annotations=annotations, affinity=pod.affinity)
        return expected == pod

    def _replace(self, pod: PodView, group: Group) -> None:
        """Record a member whose change does not matter to its group, in its cached view too."""
        key = group.key
        self.records[key].members.put(pod, group)
        self._note_gated(key)
        if view := self._views.get(key):
            waiting = [pod if each.uid == pod.uid else each for each in view.waiting]
            self._views[key] = replace(view, waiting=tuple(waiting))

    def _is_bound_as_planned(self, pod: PodView, group: Group) -> bool:
        """Return whether a member is shown where its plan has it, while others of the plan are still to be bound.

        This happens to all members of a gang, one after the other: nothing follows for the others before the last one.
        """
        record = self.records.get(group.key)
        before, declared = record.members.pods.get(pod.uid, (None, None)) if record else (None, None)
        if record is None or before is None or before.node or declared != group:
            return False
        if pod.deleting or not isinstance(record.stage, Reserved) or group.bundle or record.stage.bundle:
            return False
        placements, entry = record.stage.plan.placements, self._ledger.get(pod.uid)
        placed = placements.get(pod.uid)
        if placed is None or entry is None or entry.state == "PLANNED" or not placed.node == entry.node == pod.node:
            return False
        pods = record.members.pods  # the last ones first: they are bound in their order
        return any(uid != pod.uid and uid in pods and not pods[uid][0].node for uid in reversed(list(placements)))

    def _carry_out(self, pod: PodView, group: Group) -> None:
        """Record a member that is bound, in its cached view too."""
        key = group.key
        record, view = self.records[key], self._views.pop(key, None)
        record.members.put(pod, group)
        record.answers.pop(pod.uid, None)
        record.steered.pop(pod.uid, None)
        record.claims.pop(pod.uid, None)
        self._note_gated(key)
        if view and pod.uid not in view.extra:
            bound = list(view.bound)
            insort(bound, pod, key=lambda each: record.members.order(each.uid))
            waiting = tuple([each for each in view.waiting if each.uid != pod.uid])
            self._views[key] = replace(view, waiting=waiting, bound=tuple(bound))
        if not record.satisfied:
            self.count_bound(key)

    def count_bound(self, key: str) -> None:
        """Note a gang of which enough members are bound: later members need not wait for each other."""
        record = self.records[key]
        group = self.complete(*record.members.first())
        minimum = group.minimum if group.match_policy == "once-satisfied" else None
        if minimum and record.members.bound >= minimum and not record.satisfied:
            record.satisfied = True
            for peer in (key, *(peer for name in self.bundle_of(key) for peer in self.named(name))):
                self._note_change(peer)

    def lose(self, uid: str) -> str:
        """Remove a pod; return the key of the group that it left."""
        key = self.key_by_pod.pop(uid, "")
        self.problems.pop(uid, None)
        if key:
            self._note_change(key)
            record = self.records[key]
            self._uncall(record.members.take(uid))
            record.answers.pop(uid, None)
            record.steered.pop(uid, None)
            record.claims.pop(uid, None)
            self._note_gated(key)
            if not record.members:
                self._forget(key)
        return key

    def _note_gated(self, key: str) -> None:
        if self.records[key].members.gated:
            self._gated[key] = None
        else:
            self._gated.pop(key, None)

    def _forget(self, key: str) -> None:
        titled = self._titles[_title(key)]
        del titled[key]
        if not titled:
            del self._titles[_title(key)]
        self._changes.groups |= dict.fromkeys(titled)
        record = self.records.pop(key)
        del self._in_stage[type(record.stage)][key]
        self._dated.pop(key, None)
        self._assumed.pop(key, None)
        planned = record.stage.plan.placements if isinstance(record.stage, Reserved) else ()
        replaced = (ReservedKey(uid, "replacement") for uid in (record.places.pods if record.places else ()))
        self._changes.forgotten_groups.append((key, (*planned, *replaced)))

    def _note_change(self, key: str) -> None:
        self._views.pop(key, None)
        self._changes.groups[key] = None

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
        return self.key_by_pod.get(uid, "")

    def view(self, key: str) -> GroupView | None:
        """Return the group as it is now; its oldest pod defines it."""
        view = self._views.get(key)
        if view is None:
            record = self.records.get(key)
            if record is None:
                return None
            view = self._views[key] = self._observed(record)
        known = self._assumed.get(key)
        if known is None or known[0] is not view or known[1] != self._ledger.changes:
            known = self._assumed[key] = (view, self._ledger.changes, self._with_assumed(view))
        return known[2]

    def _observed(self, record: GroupRecord) -> GroupView:
        group = self.complete(*record.members.first())
        order = record.members.by_rank()
        leaving = tuple(pod for pod in order if pod.deleting)
        staying = [pod for pod in order if not pod.deleting]
        group = with_all_members(group, len(staying))
        first, more = staying[: group.total], staying[group.total :] if group.total is not None else []
        bound, waiting = tuple(pod for pod in first if pod.node), tuple(pod for pod in first if not pod.node)
        return GroupView(group, waiting, bound, tuple(pod.uid for pod in more), leaving, record.satisfied)

    def _with_assumed(self, view: GroupView) -> GroupView:
        homes = self._ledger.homes([pod.uid for pod in view.waiting])
        if not homes:
            return view
        assumed = [replace(pod, node=homes[pod.uid]) for pod in view.waiting if pod.uid in homes]
        waiting = tuple([pod for pod in view.waiting if pod.uid not in homes])
        return replace(view, waiting=waiting, bound=(*view.bound, *assumed))

    def of_that_name(self, key: str) -> list[str]:
        """Return other groups of the same namespace and name."""
        return sorted(other for other in self._titles.get(_title(key), ()) if other != key)

    def named(self, name: str) -> list[str]:
        """Return the groups with that gang name; none for an empty name."""
        return sorted(self._called.get(name, ())) if name else []

    def sources(self, key: str) -> list[str]:
        """Return the systems whose annotations declare the group."""
        record = self.records.get(key)
        return sorted({declared.source for _, declared in record.members.pods.values()}) if record else []

    def names_others(self, key: str) -> bool:
        """Return whether a group is a gang that must start together with others."""
        view = self._views.get(key)
        return bool(view.group.bundle if view else self.bundle_of(key))

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """Return the gang names of a bundle, its own included; empty without a bundle."""
        record = self.records.get(key)
        group = self.complete(*record.members.first()) if record else None
        if record is None or group is None or not group.bundle:
            return ()
        names = {gang_name(pod, declared) for pod, declared in record.members.pods.values()}
        return tuple(sorted({*names, *group.bundle} - {""}))


def _copy(record: GroupRecord) -> GroupRecord:
    """Return a record that does not change with this one."""
    new = replace(record)
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, dict):
            setattr(new, each.name, dict(sorted(value.items())))
    return new


def _title(key: str) -> str:
    return "/".join(key.split("/")[:2])
