"""Gate controller: gangs whose members have our scheduling gate are planned in the background, then steered and ungated.

A gated member is never tried by its scheduler, so being gated counts as having been tried: the gang is planned as soon as it
is complete. When the plan is reserved, each member gets its own placement as an annotation and its node as a nomination, and
the gate is removed. Until a member is bound, both are rewritten whenever the plan changes; without a plan the nomination is
removed, and the member waits like one that never had a gate. Pods that wait for no gang lose the gate without a plan.

Pods of Volcano that request devices are gated one and all, in a gang or alone. They wait for their PodGroup, get the record of
their devices with the plan, and are pinned to their node beside the nomination. Volcano does not ask about them, so they
are planned again by themselves if their plan ends, on the node to which they are pinned.

What is written on a pod and what the plan of its group is decide together what is to be written: there are no other states.
Pods without our gate, and without a record that we wrote when we removed it, are left alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import is_volcano
from linkwise.broker.effects import Event, Steer
from linkwise.broker.groups.annotations import cleared_record, member_annotation, planned_record
from linkwise.broker.groups.claims import claims_are_written
from linkwise.broker.groups.readiness import missing_pod_group
from linkwise.broker.records.groups import Answer, Steered
from linkwise.broker.records.members import Planning, Reserved, Waiting
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN, is_gated, recorded_plans
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.records.groups import GroupRecord
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["awaits_plan", "is_being_steered", "observe_steered", "steer_members", "was_steered"]

NO_GANG: Final = "its scheduling gate was removed: it is not a member of a gang that can be planned"


def awaits_plan(state: State, view: GroupView, pod: PodView) -> bool:
    """Return whether a pending member waits for a plan that its scheduler does not ask for: it keeps its gate until then.

    Volcano does not ask about members whose gate was removed either.
    """
    if not _is_ours(state, pod) or pod.uid in view.extra:
        return False
    if CLAIM_REQUEST in pod.annotations:
        return True  # it is not tried before there is a claim
    if is_volcano(state.settings, pod):
        return is_gated(pod) or pod.uid in state.groups[view.key].steered
    return is_gated(pod) and (view.group.minimum is not None or bool(missing_pod_group(state, view)))


def was_steered(record: GroupRecord, pod: PodView) -> bool:
    """Return whether the gate of a pending member was removed for a plan, so that its scheduler tries it or has tried it."""
    known = record.steered.get(pod.uid)
    return known is not None and known.planned


def is_being_steered(record: GroupRecord) -> bool:
    """Return whether the plan is not on all members yet: kube-scheduler may still count some of them on other nodes."""
    return any(known.planned and not known.written for known in record.steered.values())


def observe_steered(state: State, pod: PodView, before: str, *, new: bool) -> None:
    """Note what an observed pod carries; `before` is the group that it was in. One that is in no group is ungated."""
    if pod.node or not (pod.gates or before or GROUP_PLAN in pod.annotations):
        return
    key = state.groups.key_of(pod.uid)
    if pod.deleting or pod.phase in FINISHED:
        return
    if key:
        if _note_record(state.groups[key], key, pod):
            state.cluster.changes.groups[key] = None
    elif is_gated(pod) and is_volcano(state.settings, pod) and _is_ours(state, pod):
        return  # Volcano's controllers name its PodGroup in a moment
    elif is_gated(pod) and (new or before):
        state.outbox.add([Steer(pod.namespace, pod.name, pod.uid, gate=GATE), _removed(pod)])
    elif before and GROUP_PLAN in pod.annotations and recorded_plans(pod)[0]:
        # It has left its group, and with it the plan.
        cleared = cleared_record(pod, ()) if is_volcano(state.settings, pod) else {}
        state.outbox.add([Steer(pod.namespace, pod.name, pod.uid, "", {**cleared, GROUP_PLAN: ""})])


def _note_record(record: GroupRecord, key: str, pod: PodView) -> bool:
    """Note what a pending member carries; return whether its group is to be reviewed.

    It is when the plan is on all members, and for what was not written by this service. A review for each member that is
    written would take a time that grows with the square of their number.
    """
    known = record.steered.get(pod.uid)
    if is_gated(pod):
        return False  # the gate and the record are written together: a record beside a gate is not one of a plan
    recorded = recorded_plans(pod)[0] if GROUP_PLAN in pod.annotations else None
    if recorded is None:
        if known and not known.planned and not known.written:
            record.steered[pod.uid] = replace(known, written=True)
        return False
    plan = recorded.groups.get(key)
    member = plan.members.get(pod.uid) if plan else None
    if plan is None:  # it has changed its group, and is perhaps still nominated by the plan of the other one
        member = next((each.members[pod.uid] for each in recorded.groups.values() if pod.uid in each.members), None)
    seen = Steered(
        plan.generation if plan else 0,
        member.node if member else "",
        planned=member is not None,
        ungated=True,
        written=True,
    )
    if known and (known.generation, known.node) == (seen.generation, seen.node):
        record.steered[pod.uid] = replace(known, written=True)
        is_cleared = not known.planned and isinstance(record.stage, Reserved)  # the new record may follow
        return not known.written and (is_cleared or not is_being_steered(record))
    if (
        known is None or known.written or known.keys
    ):  # a pod of Volcano was pinned by an earlier plan than the one queued
        record.steered[pod.uid] = seen
    return True


def steer_members(state: State, key: str, now: float) -> set[str]:
    """Bring what is written on the members of a group in line with its plan; return the members that are written, or gated."""
    record, view = state.groups.get(key), state.groups.view(key)
    claimed = view is not None and any(CLAIM_REQUEST in pod.annotations for pod in view.waiting)
    if record is None or view is None or not (record.steered or record.members.gated or claimed):
        return set()
    steered = {pod.uid for pod in view.waiting if is_gated(pod)}
    extra = [pod for uid in view.extra if (pod := state.cluster.pods.get(uid)) and not pod.node]
    members = [(pod, awaits_plan(state, view, pod)) for pod in (*view.waiting, *extra)] if claimed else []
    may_start = not members or claims_are_written(state, key, members)
    for pod in (*view.waiting, *extra):
        wanted, known = _wanted(state, view, record, pod), record.steered.get(pod.uid)
        if wanted and wanted.ungated and not may_start:
            steered.add(pod.uid)
            continue  # until the claims of all members exist
        if wanted and known and is_volcano(state.settings, pod):
            wanted = _after_clearing(known, wanted, gated=is_gated(pod))
        if wanted is None or (known and known.equals(wanted)):
            continue
        steered.add(pod.uid)
        record.steered[pod.uid] = wanted
        state.outbox.add(list(_effects(state, key, pod, known, now)))
        if wanted.planned:
            record.answers[pod.uid] = Answer(Reserved, wanted.node)  # the scheduler follows the nomination
    return steered


def _wanted(state: State, view: GroupView, record: GroupRecord, pod: PodView) -> Steered | None:
    """Return what is to be on a pending member; None to leave it as it is."""
    known, gated = record.steered.get(pod.uid), is_gated(pod)
    claimed = CLAIM_REQUEST in pod.annotations
    if known is None and not gated and not claimed:
        return None
    planned = view.group.minimum is not None or is_volcano(state.settings, pod) or claimed
    placed = _placed(state, record, pod) if planned and pod.uid not in view.extra else None
    if placed:
        return placed
    generation = known.generation if known else 0
    if gated and not (
        awaits_plan(state, view, pod) and (_waits(view, record) or is_volcano(state.settings, pod) or claimed)
    ):
        return Steered(generation, ungated=True)  # placed alone, or as a member of a group that is not a gang
    if isinstance(record.stage, Planning):
        return None
    # Nominated and still gated, by no plan of this instance: a previous one ended between its two requests. kube-scheduler
    # counts the member on that node, and would keep members of other gangs from it.
    nominated = known.node if known else pod.nominated
    return Steered(generation) if nominated else None


def _after_clearing(known: Steered, wanted: Steered, *, gated: bool) -> Steered | None:
    """Return what is written next on a pod of Volcano: its record is cleared, and observed as such, before it gets another.

    A gated pod has no record that Volcano could bind with.
    """
    if gated or not wanted.planned or known.equals(wanted):
        return wanted
    if known.planned and known.node:
        return Steered(known.generation, ungated=True)
    return wanted if known.written else None


def _waits(view: GroupView, record: GroupRecord) -> bool:
    """Return whether the group is a gang, or its PodGroup is awaited, which may make it one."""
    return view.group.minimum is not None or isinstance(record.stage, Waiting)


def _placed(state: State, record: GroupRecord, pod: PodView) -> Steered | None:
    """Return the placement that the plan has for a member; None if it has none."""
    if not isinstance(record.stage, Reserved):
        return None
    plan, generation = record.stage.plan, record.stage.generation
    placement = plan.placements.get(pod.uid)
    if placement:
        return Steered(generation, placement.node, planned=True, ungated=True)
    anywhere = pod.uid not in plan.missing and state.request(pod).ask is None
    return Steered(generation, planned=True, ungated=True) if anywhere else None


def _effects(state: State, key: str, pod: PodView, known: Steered | None, now: float) -> Iterable[Steer | Event]:
    record = state.groups[key]
    wanted = record.steered[pod.uid]
    gate = GATE if wanted.ungated and is_gated(pod) else ""
    if not wanted.planned and not (known and known.planned):
        node = "" if is_gated(pod) and pod.nominated else None
        yield Steer(pod.namespace, pod.name, pod.uid, node, gate=gate)
        if not _is_ours(state, pod) and state.settings.group.gates:
            yield _removed(pod)
        return
    text = member_annotation(state, key, pod, wanted, now)
    if is_volcano(state.settings, pod):
        devices = planned_record(state, pod, now) if wanted.planned and wanted.node else {}
        record.steered[pod.uid] = replace(wanted, keys=tuple(devices))
        keys = {**cleared_record(pod, known.keys if known else ()), **devices, **text}
        since, pin = (record.complete or 0.0, wanted.node) if gate else (0.0, "")
        yield Steer(pod.namespace, pod.name, pod.uid, wanted.node, keys, gate, since, pin)
        return
    since, pin = (record.complete or 0.0, wanted.node) if gate else (0.0, "")
    pin = pin if CLAIM_REQUEST in pod.annotations else ""
    yield Steer(pod.namespace, pod.name, pod.uid, wanted.node, text, gate, since, pin)


def _is_ours(state: State, pod: PodView) -> bool:
    """Return whether gated pods of its scheduler are planned."""
    settings = state.settings.group
    named = not settings.schedulers or pod.scheduler in settings.schedulers or is_volcano(state.settings, pod)
    return settings.gates and named


def _removed(pod: PodView) -> Event:
    return Event("Warning", "GateRemoved", NO_GANG, pod.namespace, pod.name, pod.uid)
