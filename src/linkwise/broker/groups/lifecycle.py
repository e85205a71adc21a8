"""Lifecycle of groups: the stages that follow from changes of members, nodes and objects, or from deadlines.

Groups whose members were refused are planned again in the background as soon as that may succeed. A member is woken when
it would get a better answer than its last one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.broker.access import group_reason, refused_on
from linkwise.broker.cluster.pod_request import is_volcano
from linkwise.broker.effects import Wake
from linkwise.broker.groups.gates import awaits_plan, is_being_steered, steer_members, was_steered
from linkwise.broker.groups.native_domains import within_offered
from linkwise.broker.groups.notices import group_warnings
from linkwise.broker.groups.planning.runs import begin, capacity_gained, requested_of, without_demoted
from linkwise.broker.groups.readiness import (
    bundle,
    bundle_keys,
    longest_wait,
    may_start_alone,
    pending_reason,
    waits_for_volumes,
    waits_until,
)
from linkwise.broker.groups.reservations import (
    accepts_pods,
    drop_plan,
    extend,
    hold_time,
    is_over,
    keep_places,
    move,
    release_forgotten,
    shares_are_reserved,
)
from linkwise.broker.groups.stale_gangs import evictions, note_stale_gangs, stale_gang
from linkwise.broker.readers import pod_events
from linkwise.broker.records.groups import Answer
from linkwise.broker.records.members import STAGES, BackingOff, Idle, Planning, Reserved, Unschedulable, Waiting
from linkwise.broker.volcano.nodes import demote_refused, describe_pod_group, expire_demoted, pinned_node
from linkwise.broker.wake_ups import flush
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.groups import is_group_refusal
from linkwise.engine.reasons.phrases import count_text, groups_text, is_or_are
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.effects import Bind, Event
    from linkwise.broker.records.groups import GroupRecord
    from linkwise.broker.records.members import GroupView, Limits
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "answer_now",
    "back_off",
    "bind_refused",
    "bound_by_plan",
    "claim_refused",
    "node_changed",
    "prepare_groups",
    "reconcile_groups",
    "replan",
    "resume",
    "wake_members",
]

FIRST_BACKOFF: Final = 5.0  # seconds
MAX_BACKOFF: Final = 60.0  # seconds
LONGEST_BACKOFF: Final = 1.25 * MAX_BACKOFF
"""with jitter; a deadline further away was set before the clock went back"""
MAX_REFUSED_BINDS: Final = 3
"""binds of a member to its planned node that are refused before the node is avoided"""
FEW_REPLANS: Final = 8
"""how often a plan is made again for nodes that the scheduler left out, beside twice per member"""
RETRY: Final = Answer(retry=True)
_EXPIRED: Final = Reason("001.hold", kind="resting")


def prepare_groups(state: State, now: float) -> None:
    """Release what forgotten groups reserve, and keep the devices of deleted members, before nodes are brought up to date."""
    if state.cluster.changes.forgotten_groups:
        release_forgotten(state)
    if state.groups.demoted:
        expire_demoted(state, now)
    keep_places(state, now)


def reconcile_groups(state: State, gained: Iterable[str], now: float) -> None:
    """Bring the stages of all groups up to date; effects go to the outbox."""
    groups, changes = state.groups, state.cluster.changes
    groups.gain(gained, state.cluster.index.changes)
    for key in [key for name in changes.take_pod_groups() for key in groups.named(name)]:
        groups.count_bound(key)
        changes.groups[key] = None
    changes.reopened = changes.take_network() or changes.reopened
    if changes.take_volumes():
        changes.groups |= {key: None for key, record in groups.in_stage(Waiting) if waits_for_volumes(record.stage)}
    note_stale_gangs(state, now)
    nodes = state.cluster.index.changed_since(groups.checked)
    groups.checked = state.cluster.index.changes
    reviewed = dict.fromkeys(_to_review(state, nodes, now))
    changes.groups = {}
    for key in reviewed:
        _review(state, key, nodes, now)
    state.outbox.add(evictions(state, now))
    flush(state)
    if changes.capacity or changes.reopened:
        more, changes.capacity = changes.capacity, {}
        anywhere, changes.reopened = changes.reopened, False
        capacity_gained(state, more, anywhere=anywhere)
    if reviewed or changes.invalid_groups:
        state.outbox.add(group_warnings(state, reviewed))
    wake_members(state, now)


def node_changed(state: State, view: NodeView) -> None:
    """Note a node change that may let pods fit that did not before."""
    known = state.cluster.nodes.get(view.name)
    if known and (known.unschedulable, known.taints, known.labels) != (view.unschedulable, view.taints, view.labels):
        state.cluster.changes.reopened = True
    if known and known.allocatable != view.allocatable:
        state.cluster.changes.reopened = True


def _to_review(state: State, nodes: set[str] | None, now: float) -> list[str]:
    """Return groups that changed, whose time is over, whose plan uses changed nodes, or that wait for a changed group."""
    groups = state.groups
    keys = list(state.cluster.changes.groups)
    for key, record in groups.in_stage(*STAGES[1:] if keys else (Waiting, Reserved, BackingOff)):
        match record.stage:
            case Reserved(expires=expires, hold=hold, check=check, homes=homes):
                # A plan without devices of its own follows no node that the index knows of.
                due = (
                    is_over(expires, now, hold)
                    or (check and is_over(check, now, state.settings.group.hold))
                    or nodes is None
                    or not nodes.isdisjoint(homes)
                )
            case Waiting(reason=reason, until=float(until)) if is_over(until, now, longest_wait(state, reason)):
                due = True
            case Waiting() | Planning() | Unschedulable():
                due = bool(keys) and groups.names_others(key)
            case BackingOff(until=until):
                due = is_over(until, now, LONGEST_BACKOFF)
            case _:
                due = False
        if due:
            keys.append(key)
    return keys


def _review(state: State, key: str, nodes: set[str] | None, now: float) -> None:
    record = state.groups.get(key)
    if record is None:
        return
    state.cluster.changes.answers[key] = None
    match record.stage:
        case Reserved() as stage:
            _review_plan(state, key, stage, nodes, now)
        case BackingOff(until=until):
            if is_over(until, now, LONGEST_BACKOFF):
                move(state, key, "retry", Idle())
                view = state.groups.view(key)
                if view and any(awaits_plan(state, view, pod) for pod in view.waiting):
                    resume(state, key, now)  # its scheduler does not ask
        case Idle():
            view = state.groups.view(key)
            if view and any(_was_refused(state, record, view, pod) for pod in view.waiting):
                resume(state, key, now)
        case _:
            resume(state, key, now)


def resume(state: State, key: str, now: float) -> None:
    """Plan a group of which a member was tried, or note what it waits for."""
    record, views = state.groups[key], bundle(state, key)
    view = state.groups.view(key)
    if view is None or not any(was_tried(state, each) for each in views):
        if not isinstance(record.stage, Idle):
            move(state, key, "forget", Idle())
        return
    if record.since is None:
        record.since = now
    if reason := pending_reason(state, view, now):
        record.complete = None
        move(state, key, "wait", Waiting(reason, waits_until(state, view, reason, now)))
        return
    if record.complete is None:
        record.complete = now
    requested = requested_of(views)
    match record.stage:
        case Planning(run=run) if run.requested == requested:
            return
        case Unschedulable(requested=known) if known == requested:
            return
    begin(state, views, without_demoted(state, views, record.limits))


def was_tried(state: State, view: GroupView) -> bool:
    """Return whether the scheduler asked for a pending member, as a member or before it was one.

    It does not ask for one with our gate, and need not have asked yet for one whose gate was removed.
    """
    record = state.groups[view.key]
    return any(
        pod.uid in record.answers or pod.uid in state.queue or awaits_plan(state, view, pod) or was_steered(record, pod)
        for pod in view.waiting
    )


def _was_refused(state: State, record: GroupRecord, view: GroupView, pod: PodView) -> bool:
    """Return whether a pending member was refused or lost its place, and was not woken since; or has our gate."""
    last = record.answers.get(pod.uid)
    return (not last.retry if last else pod.uid in state.queue) or awaits_plan(state, view, pod)


def _review_plan(state: State, key: str, stage: Reserved, nodes: set[str] | None, now: float) -> None:
    """Drop a plan that is carried out, broken or expired; otherwise let it place only those that are still members."""
    view = state.groups.view(key)
    if view is None:
        return
    members = {pod.uid for pod in (*view.waiting, *view.bound)}
    hold = hold_time(state, view.group)
    latest = now + hold
    if stage.expires > latest or not members.issuperset((*stage.plan.placements, *stage.plan.missing)):
        placements = {uid: placement for uid, placement in stage.plan.placements.items() if uid in members}
        missing = tuple(uid for uid in stage.plan.missing if uid in members)
        plan = replace(stage.plan, placements=placements, missing=missing)
        stage = replace(stage, plan=plan, hold=hold, expires=min(stage.expires, latest))  # the clock may be set back
        move(state, key, "change", stage)
    due, most = 0 < stage.check <= now, state.settings.group.hold
    if stage.check and is_over(stage.check, now, most):
        stage = replace(stage, check=now + most)
        move(state, key, "change", stage)
    available = shares_are_reserved(state, key)
    waiting = {pod.uid for pod in view.waiting} & stage.plan.placements.keys()
    if not any(uid in waiting or not state.cluster.is_settled(uid) for uid in stage.plan.placements):
        if stage.expires <= now or not _any_goes_anywhere(state, view, stage):
            _finish_plan(state, view, now)
    elif not waiting:
        if stage.expires <= now:
            extend(state, key, now)  # its last binds are in progress, and these have no deadline
    elif reason := (
        _broken_reason(state, stage, waiting, nodes, available=available)
        or _too_few(state, view, stage)
        or (_not_permitted(state, view, stage) if state.access else "")
        or _pinned_elsewhere(view, stage)
    ):
        _break_plan(state, view, reason, now)
    elif due or stage.expires <= now:
        _end_in_time(state, view, stage, waiting, now)


def _end_in_time(state: State, view: GroupView, stage: Reserved, waiting: set[str], now: float) -> None:
    """End a plan whose time is over, or of which a member can't be bound for a reason that is known."""
    key = view.key
    if stage.expires <= now and stage.limits.offered:
        # kube-scheduler tried a domain after the other, and the planned one was not among those that pass its filters.
        replan(state, bundle(state, key), within_offered(stage.limits), now)
    elif obstacle := "" if stage.limits.offered else _obstacle(state, view, waiting):
        reason = Reason("001.hold", key.partition("/")[0], obstacle, "obstacle")  # all gangs of its bundle get it
        back_off(state, key, reason, now, f"the plan was dropped before all of its members were bound: {obstacle}")
    elif stage.expires <= now:
        back_off(state, key, _EXPIRED, now, _expired_text(state, view, demote_refused(state, view, stage, now)))


def _obstacle(state: State, view: GroupView, waiting: set[str]) -> str:
    """Return what keeps a planned member from being bound though its devices are reserved; empty if nothing is known.

    kube-scheduler does not ask about a pod that does not pass its own checks, and waits long for a volume before it binds.
    """
    for pod in view.waiting:
        if pod.uid not in waiting or is_volcano(state.settings, pod):
            continue
        if claim := state.cluster.shared.unbound_claim(pod.namespace, pod.volume_claims):
            return f"PersistentVolumeClaim {claim} of pod {pod.name} is not bound"
        if pod.unschedulable_message and not is_group_refusal(pod.unschedulable_message):
            return f"pod {pod.name} is unschedulable for its scheduler: {pod.unschedulable_message}"
    return ""


def _expired_text(state: State, view: GroupView, demoted: Sequence[str]) -> str:
    if not any(is_volcano(state.settings, pod) for pod in view.waiting):
        return "the plan expired before its members were bound"
    nodes = f"; pods that replace them avoid node {', '.join(demoted)}, which Volcano refused" if demoted else ""
    return (
        f"Volcano did not bind the planned members within {hold_time(state, view.group):g} s, so their devices are free again{nodes}; "
        f"for its reason, run: {describe_pod_group(view.waiting[0])}"
    )


def _any_goes_anywhere(state: State, view: GroupView, stage: Reserved) -> bool:
    """Return whether a member without devices was ungated for the plan, and is not bound: the plan lets it in."""
    record = state.groups[view.key]
    return any(was_steered(record, pod) and pod.uid not in stage.plan.missing for pod in view.waiting)


def _finish_plan(state: State, view: GroupView, now: float) -> None:
    """End a plan whose members are bound or gone; members that it left out are planned next."""
    key, record = view.key, state.groups[view.key]
    move(state, key, "finish", Idle())
    record.since, record.expirations, record.complete = None, 0, None
    state.outbox.add(stale_gang(state, view, now))
    if any(state.request(pod).ask for pod in view.waiting):
        resume(state, key, now)


def _break_plan(state: State, view: GroupView, sentence: str, now: float) -> None:
    """Drop a plan that can't be carried out any more, with those of its bundle, and plan again at once."""
    ended = drop_plan(state, view.key, "break", Idle())
    state.outbox.add(_end_events(state, ended, "PlanBroken", sentence, now))
    flush(state)
    for key in ended:
        state.groups[key].since = None
        resume(state, key, now)


def replan(state: State, views: Sequence[GroupView], limits: Limits, now: float) -> None:
    """Plan again within other limits, or back off if that was done too often."""
    limits = replace(limits, replans=limits.replans + 1, offered={}, named=False)
    if limits.replans > FEW_REPLANS + 2 * sum(len(view.waiting) for view in views):
        back_off(state, views[0].key, Reason("001.hold", kind="unstable"), now)
    else:
        begin(state, views, limits)


def back_off(state: State, key: str, reason: Reason, now: float, sentence: str = "") -> None:
    """Drop a plan and back off exponentially, with jitter by group so that groups do not collide again."""
    first = bundle_keys(state, key)[0]
    times = state.groups[key].expirations + 1
    # A hash of the key, because decisions use no randomness: a replay must compute the same time.
    spread = 0.75 + crc32(first.encode()) % 1000 / 2000
    until = now + spread * min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (times - 1))
    if state.groups.plan_of(key):
        ended = drop_plan(state, key, "expire", BackingOff(reason, until))
    else:
        ended = [each for each in bundle_keys(state, key) if each in state.groups]
        for each in ended:
            move(state, each, "expire", BackingOff(reason, until))
    for each in ended:
        state.groups[each].expirations, state.groups[each].since = times, None
    flush(state)
    if sentence:
        state.outbox.add(_end_events(state, ended, "PlanExpired", sentence, now))


def _end_events(state: State, ended: list[str], reason: str, sentence: str, now: float) -> list[Event]:
    """Return events about a plan that ended, for the members of its group and of its bundle."""
    over = reason == "PlanExpired"
    events: list[Event] = []
    views = [view for key in ended if (view := state.groups.view(key))]
    for view in views:
        text = sentence if view.key == ended[0] else partial(_together, ended[0], sentence)
        events += pod_events(state, view.waiting, "Warning", reason, text)
    return [*events, *(event for view in views for event in stale_gang(state, view, now, over=over))]


def _together(key: str, sentence: str, reader: State) -> str:
    """Return why the plan of a group ended with that of another one; the reason may name a member of the other."""
    why = "" if reader.hides_group(key) else f": {sentence}"
    return f"the plan of {groups_text([reader.group_name(key)])}, which must start together with it, was dropped{why}"


def _broken_reason(state: State, stage: Reserved, waiting: set[str], nodes: set[str] | None, *, available: bool) -> str:
    """Return why a plan can't be carried out any more; empty if it can. Only changed nodes are checked."""
    homes = stage.homes
    for name in homes if nodes is None or not available else sorted(nodes & homes.keys()):
        members = [uid for uid in homes[name] if uid in waiting]
        if members and not accepts_pods(state, name):
            return f"node {name} of the plan no longer accepts pods"
        for uid in members:
            entry = state.cluster.ledger.get(uid)
            if stage.plan.placements[uid].offer is not None and (entry is None or not _is_available(state, entry)):
                return f"planned devices on node {name} are no longer available"
    return ""


def _is_available(state: State, entry: Entry) -> bool:
    """Return whether the devices are healthy and reachable, unused by others, and not needed by pods without a record."""
    node, drift = state.cluster.index.nodes.get(entry.node), state.cluster.drift.get(entry.node, ())
    if node is None or node.unattributed > len(node.free()) or _is_claimed_by_others(state, entry):
        return False
    pod = state.pod(entry.pod) if entry.node in state.cluster.unreachable else None
    query = state.query(pod) if pod else None
    across_nodes = query is not None and query.policy.across_nodes
    healthy = {device.id for device in node.healthy() if device.reachable or not across_nodes}
    twice = any(each.kind == "twice" and entry.pod in each.pods for each in drift)
    return healthy >= set(entry.grant.offer.devices) and not twice


def _is_claimed_by_others(state: State, entry: Entry) -> bool:
    """Return whether claims of other pods have devices that the claim of this one names; without one, the number counts."""
    pod, inventory = state.pod(entry.pod), state.cluster.inventories.get(entry.node)
    if pod is None or CLAIM_REQUEST not in pod.annotations or inventory is None or not inventory.by_claims:
        return False
    own = set(entry.grant.offer.devices)
    return any(not own.isdisjoint(devices) for user, devices in inventory.allocations.items() if user != entry.pod)


def _pinned_elsewhere(view: GroupView, stage: Reserved) -> str:
    """Return which member of Volcano can't go to its planned node, because an earlier plan pinned it; empty if all can."""
    for pod in view.waiting:
        placement, node = stage.plan.placements.get(pod.uid), pinned_node(pod)
        if placement and placement.offer and node not in {"", placement.node}:
            return f"pod {pod.name} can go to node {node} only, to which it was pinned when its scheduling gate was removed"
    return ""


def _too_few(state: State, view: GroupView, stage: Reserved) -> str:
    """Return why a gang that lost members, or needs more of them, can't start; empty if it can."""
    placed = [pod for pod in view.waiting if pod.uid in stage.plan.placements or state.request(pod).ask is None]
    left = len(view.bound) + len(placed)
    members = count_text(left, "member")
    return f"only {members} {is_or_are(left)} left, but {view.least} must start together" if left < view.least else ""


def _not_permitted(state: State, view: GroupView, stage: Reserved) -> str:
    """Return why policies, which may have changed, do not permit a plan; empty if they do."""
    planned = replace(view, waiting=tuple(pod for pod in view.waiting if pod.uid in stage.plan.placements))
    if reason := group_reason(state, planned, len(planned.waiting)):
        return refusal(reason)
    for pod in planned.waiting:
        query, name = state.query(pod), stage.plan.placements[pod.uid].node
        if query and (reason := refused_on(state, pod, query, name)):
            return f"node {name} of the plan: {refusal(reason)}"
    return ""


def bound_by_plan(state: State, uid: str, now: float) -> None:
    """Extend the plan of a member that is being bound, and those of its bundle."""
    key = state.groups.key_of(uid)
    plan = state.groups.plan_of(key)
    for each in (key, *(plan.bundle if plan else ())):
        extend(state, each, now)
        if record := state.groups.get(each):
            record.eviction = None
            state.groups.note_deadline(each)


def bind_refused(state: State, bound: Bind, now: float) -> None:
    """Note a refused bind of a member, which has its place still; after some attempts, avoid the node and plan again."""
    key = state.groups.key_of(bound.uid)
    stage, pod, view = state.groups.plan_of(key), state.pod(bound.uid), state.groups.view(key)
    state.cluster.changes.groups |= {key: None} if key else {}
    if stage is None or pod is None or view is None or bound.uid not in stage.plan.placements:
        return  # the group was planned again during the bind, and the new plan does not include it
    refusals = {**stage.refusals, bound.uid: stage.refusals.get(bound.uid, 0) + 1}
    if refusals[bound.uid] < MAX_REFUSED_BINDS:
        move(state, key, "change", replace(stage, refusals=refusals))
        return
    limits = replace(stage.limits, avoided=stage.limits.avoided | {bound.node})
    _break_plan(state, view, f"pod {pod.name} could not be bound to node {bound.node}", now)
    if isinstance(state.groups.stage(key), Planning):
        begin(state, bundle(state, key), limits)


def claim_refused(state: State, uid: str, sentence: str, now: float) -> None:
    """Drop the plan of a pod whose claim is not permitted, with the claims of its group, and back off."""
    key, pod = state.groups.key_of(uid), state.cluster.pods.get(uid)
    record = state.groups.get(key)
    if record is None or pod is None:
        return
    if not isinstance(record.stage, Reserved) or uid not in record.stage.plan.placements:
        return
    obstacle = f"the ResourceClaim of pod {pod.name} was refused: {sentence}"
    reason = Reason("001.hold", pod.namespace, obstacle, "obstacle")
    back_off(state, key, reason, now, f"the plan was dropped before all of its members were bound: {obstacle}")


def wake_members(state: State, now: float) -> None:
    """Wake members that would get a better answer than their last one: a node, or another attempt to plan.

    Members that have or had our gate are steered instead: what is written on them wakes them too.
    """
    if state.recovering:
        return
    moved, state.cluster.changes.answers = state.cluster.changes.answers, {}
    for key in moved:
        record, view = state.groups.get(key), state.groups.view(key)
        if record is None or view is None:
            continue
        steered = steer_members(state, key, now)
        spread = is_being_steered(record)
        extra = [pod for uid in view.extra if uid in record.answers and (pod := state.pod(uid)) and not pod.node]
        answers = [(pod, answer_now(state, record, pod)) for pod in view.waiting]
        for pod, answer in (*answers, *((pod, RETRY) for pod in extra)):
            last = record.answers.get(pod.uid) or (Answer() if pod.uid in state.queue else None)
            if last is None or answer == last or not (answer.node or answer.retry) or pod.uid in steered:
                continue
            if answer.node and spread and was_steered(record, pod):
                continue  # until kube-scheduler counts all of them where they are planned
            record.answers[pod.uid] = answer
            sentence = "its group is planned" if answer.node else "its group can be retried"
            state.outbox.add([Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority)])


def answer_now(state: State, record: GroupRecord, pod: PodView) -> Answer:
    """Return the answer that a pending member would get now."""
    match record.stage:
        case Reserved(plan=plan):
            placement = plan.placements.get(pod.uid)
            if placement:
                return Answer(Reserved, placement.node)
            return Answer(Reserved) if pod.uid in plan.missing else RETRY  # planned again with it if it is tried
        case Unschedulable() if may_start_alone(state, pod):
            return RETRY
        case Idle():
            return RETRY
    return Answer(type(record.stage))
