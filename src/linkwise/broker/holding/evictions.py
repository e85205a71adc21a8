"""Evictions for preemptors: requested through the Eviction API, while the room that they make is held for the preemptor.

Unless `placing.preemption.evict` is off, unschedulable groups, and pods that filter refused, are looked into every few
seconds, the highest priority first. kube-scheduler preempts for pods that lack a number of devices; what is left for us are
groups, and pods whose devices are free in number but not in one ring, on one card or with the bandwidth they need.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.access import not_permitted
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.effects import Evict, Wake
from linkwise.broker.groups.lifecycle import resume
from linkwise.broker.groups.planning.runs import adopt
from linkwise.broker.groups.readiness import bundle, bundle_keys
from linkwise.broker.groups.reservations import is_over
from linkwise.broker.holding.victims import room_for_group, room_for_pod
from linkwise.broker.readers import event_name, outbid_text, pod_events
from linkwise.broker.records.bookings import Preemption
from linkwise.broker.records.groups import Answer
from linkwise.broker.records.members import Idle, Planning, Unschedulable
from linkwise.broker.wake_ups import flush
from linkwise.engine.ledger import Entry, ReservedKey
from linkwise.engine.reasons.phrases import count_text, groups_text, pod_text
from linkwise.model.verdict import Grant, Offer, Part, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.effects import Event
    from linkwise.broker.holding.victims import Option
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = [
    "evict_for_preemptors",
    "evictable",
    "hold_freed",
    "next_deadline",
    "not_evicted",
    "of_group",
    "of_pod",
    "of_preemptor",
    "plan_group_of",
    "reconcile_preemptions",
    "take_room",
]

SCAN: Final = 2.0  # seconds
"""between two looks at unschedulable groups and pods"""
SCHEDULERS_TURN: Final = 1.0  # seconds
"""after a refusal, in which kube-scheduler may preempt by itself"""
PAUSE: Final = 0.5  # seconds
"""between two searches, each of which keeps other calls waiting"""
AGAIN: Final = 15.0  # seconds
"""until a preemptor that no eviction helped is looked into again"""
AVOIDED: Final = 60.0  # seconds
"""in which a pod whose eviction was refused is not chosen again"""
ATTEMPTS: Final = 3
"""requests to evict one pod, before other victims are looked for"""
_NAMED: Final = 5
"""victims that an event names"""


def next_deadline(state: State) -> float | None:
    """When records end, or unschedulable groups and pods are looked into again."""
    preemptions = state.preemptions
    times = [record.until for record in preemptions.records.values()]
    if state.settings.preemption.evict and (state.queue.waiting or state.groups.in_stage(Unschedulable)):
        times.append(preemptions.next_scan)
    return min(times, default=None)


def hold_freed(state: State) -> bool:
    """Hold planned devices that are free by now, before any other pod is offered them; return whether there were any."""
    ledger, freed = state.cluster.ledger, False
    rooms: dict[str, tuple[set[str], dict[str, int]]] = {}
    for record in state.preemptions.records.values():
        for uid, place in record.plan.placements.items():
            node, inventory = state.cluster.index.nodes.get(place.node), state.cluster.inventories.get(place.node)
            if node is None or inventory is None or place.offer is None:
                continue
            free, room = rooms.setdefault(place.node, ({device.id for device in node.free()}, node.room()))
            held = ledger.get(ReservedKey(uid, "preemption"))
            before = held.grant.offer.parts if held else tuple(replace(part, devices=()) for part in place.offer.parts)
            parts = tuple(
                _hold_part(part, known, free, room) for part, known in zip(place.offer.parts, before, strict=True)
            )
            entry = _entry(state, record, uid, replace(place.offer, parts=parts))
            if parts != before and not ledger.has_conflict(entry, inventory.allocations):
                ledger.plan([entry], inventory.allocations)
                freed = True
    return freed


def reconcile_preemptions(state: State, now: float) -> None:
    """End records that are over, and give preemptors their room when all victims are gone."""
    preemptions = state.preemptions
    for uid in [uid for uid, until in preemptions.avoided.items() if is_over(until, now, AVOIDED)]:
        del preemptions.avoided[uid]
    for key, known in list(preemptions.records.items()):
        if _is_settled(state, key) or known.until <= now:
            end(state, key)
            continue
        left = tuple(uid for uid in known.victims if _still_there(state, uid))
        latest = now + state.settings.preemption.hold  # the clock may have been set back
        record = replace(known, victims=left, until=min(known.until, latest))
        if record != known:
            preemptions.put(record)
        if record.is_ready or any(uid in left for uid in _on_plan(state, record)) or not _holds_all(state, record):
            continue
        if key in state.groups:
            end(state, key)
            adopt(state, bundle(state, key), record.plan, now)
        elif pod := state.pod(key):
            preemptions.put(replace(record, is_ready=True))
            sentence = "the pods that were evicted for it are gone"
            state.outbox.add([Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority, fits=True)])


def end(state: State, preemptor: str) -> None:
    """Remove a record and release what it holds."""
    record = state.preemptions.remove(preemptor)
    if record:
        state.cluster.ledger.drop_reserved(record.plan.placements, "preemption")
        flush(state)


def plan_group_of(state: State, pod: PodView, now: float) -> bool:
    """Plan the group of a member for which the scheduler preempts; false for a pod that is placed alone.

    Where devices are short in number, the scheduler never calls filter.
    """
    key = state.groups.key_of(pod.uid)
    record, view = state.groups.get(key), state.groups.view(key)
    if not record or not view or all(member.uid != pod.uid for member in view.waiting):
        return False
    record.answers.setdefault(pod.uid, Answer(type(record.stage)))
    if isinstance(record.stage, Idle):
        resume(state, key, now)
    return True


def take_room(state: State, uid: str, names: Sequence[str]) -> None:
    """Release what is held for a pod that asks for one of these nodes, so that this call can offer it."""
    record = state.preemptions.records.get(uid)
    if record and record.is_ready and not set(record.plan.nodes).isdisjoint(names):
        end(state, uid)


def evictable(state: State, uid: str) -> int | None:
    """Return 0 for a pod that is still to be evicted for a preemptor, whatever its resourceVersion; otherwise None."""
    preemptions, pod = state.preemptions, state.cluster.pods.get(uid)
    attempts = preemptions.attempts.get(uid, 0)
    if not preemptions.of_victim(uid) or pod is None or pod.deleting or attempts >= ATTEMPTS:
        return None
    preemptions.attempts[uid] = attempts + 1
    return 0


def not_evicted(state: State, uid: str, now: float) -> None:
    """Record a refused eviction: other victims are looked for at once."""
    preemptor, pod = state.preemptions.of_victim(uid), state.cluster.pods.get(uid)
    if not preemptor or pod is None or pod.deleting:
        return
    end(state, preemptor)
    state.preemptions.avoided[uid] = now + AVOIDED
    state.preemptions.later.pop(preemptor, None)
    state.preemptions.next_scan = now
    sentence = lambda reader: f"{pod_text(event_name(reader, uid))} could not be evicted; other victims are looked for"  # noqa: E731 - a text in a line
    state.outbox.add(_events(state, preemptor, "Warning", "PreemptionRefused", sentence))


def evict_for_preemptors(state: State, now: float) -> None:
    """Look into unschedulable groups and pods, and request evictions for those that they help."""
    preemptions = state.preemptions
    if not state.settings.preemption.evict or not is_over(preemptions.next_scan, now, SCAN):
        return
    preemptions.next_scan = now + SCAN
    preemptions.later = {key: time for key, time in preemptions.later.items() if not is_over(time, now, AGAIN)}
    waiting = [(key, pods) for key, pods in _preemptors(state, now) if key not in preemptions.later]
    if not waiting:
        return
    lowest = _lowest_priority(state)
    key, pods = min(waiting, key=lambda entry: (-entry[1][0].priority, entry[1][0].created, entry[0]))
    if lowest is None or pods[0].priority <= lowest:
        return
    preemptions.next_scan = now + PAUSE
    group = key in state.groups
    option = room_for_group(state, bundle(state, key)) if group else room_for_pod(state, pods[0])
    if option is None or not (option.victims or option.leaving):
        preemptions.later[key] = now + AGAIN
    else:
        _start(state, key, pods, option, now)


def _lowest_priority(state: State) -> int | None:
    """Return the lowest priority of pods that have devices: without a lower one no search can succeed."""
    pods = state.cluster.pods
    there = (pods[entry.pod] for entry in state.cluster.ledger.entries() if entry.pod in pods)
    return min((pod.priority for pod in there if pod.node), default=None)


def _preemptors(state: State, now: float) -> Iterable[tuple[str, list[PodView]]]:
    """Yield groups that do not fit, and refused pods that kube-scheduler does not preempt for."""
    records = state.preemptions.records
    for key, record in state.groups.in_stage(Unschedulable):
        keys = bundle_keys(state, key)
        view = state.groups.view(key)
        if view and view.waiting and key == keys[0] and not any(each in records for each in keys):
            short = isinstance(record.stage, Unschedulable) and record.stage.reason.kind == "short"
            if short:
                yield key, list(view.waiting)
    for queued in state.queue.unschedulable():
        pod = state.cluster.pods.get(queued.uid)
        turn = abs(now - queued.asked_at) >= SCHEDULERS_TURN
        if pod and turn and queued.uid not in records and not pod.nominated and not state.groups.key_of(pod.uid):
            if state.access and queued.query and not_permitted(state, pod, queued.query):
                continue  # no eviction changes what policies permit
            yield pod.uid, [pod]


def _start(state: State, key: str, pods: Sequence[PodView], option: Option, now: float) -> None:
    until = now + state.settings.preemption.hold
    victims = (*sorted(option.leaving), *(pod.uid for pod in option.victims))
    record = Preemption(key, option.plan, victims, until, namespace=pods[0].namespace)
    state.preemptions.put(record)
    preempted = lambda reader: f"preempted by {outbid_text(reader, key, pods[0].priority)}"  # noqa: E731 - a text in a line
    for event in pod_events(state, option.victims, "Warning", "Preempted", preempted):
        state.outbox.add([event, Evict(event.namespace, event.name, event.uid, event.sentence)])
    state.outbox.add(_events(state, key, "Normal", "Preempting", partial(_sentence, option)))
    hold_freed(state)
    flush(state)


def _sentence(option: Option, reader: State) -> str:
    if not option.victims:
        return "it fits when pods that are terminating are gone; their devices are held for it"
    named = [f"{event_name(reader, pod.uid)} on node {pod.node}" for pod in option.victims[:_NAMED]]
    more = f" and {len(option.victims) - _NAMED} more" if len(option.victims) > _NAMED else ""
    return f"evicting {count_text(len(option.victims), 'pod')} of lower priority: {', '.join(named)}{more}"


def _events(
    state: State, preemptor: str, kind: Literal["Normal", "Warning"], reason: str, sentence: Callable[[State], str]
) -> list[Event]:
    if preemptor in state.groups:
        pods = [pod for view in bundle(state, preemptor) for pod in view.waiting]
    else:
        pods = [pod for pod in [state.pod(preemptor)] if pod]
    return pod_events(state, pods, kind, reason, sentence)


def _is_settled(state: State, preemptor: str) -> bool:
    """Return whether the preemptor has devices, or needs none any more."""
    if preemptor in state.groups:
        return not isinstance(state.groups.stage(preemptor), Unschedulable | Planning)
    pod, entry = state.cluster.pods.get(preemptor), state.cluster.ledger.get(preemptor)
    return pod is None or bool(pod.node) or pod.deleting or entry is not None


def _on_plan(state: State, record: Preemption) -> list[str]:
    """Return the victims on nodes of the plan; members of their gangs elsewhere are not waited for."""
    nodes, pods = set(record.plan.nodes), state.cluster.pods
    return [uid for uid in record.victims if uid in pods and pods[uid].node in nodes]


def _still_there(state: State, uid: str) -> bool:
    pod = state.cluster.pods.get(uid)
    return pod is not None and holds_devices(pod)


def _hold_part(part: Part, held: Part, free: set[str], room: dict[str, int]) -> Part:
    """Return what can be held of a planned part: what is held already, and what is free; of memory, as much as there is."""
    if not part.share:
        devices = tuple(device for device in part.devices if device in held.devices or device in free)
        free.difference_update(devices)
        return replace(part, devices=devices)
    devices = tuple(device for device in part.devices if device in held.devices or room.get(device, 0) > 0)
    before = held.share if held.devices else 0
    share = min((part.share, *(before + room.get(device, 0) for device in devices)))
    for device in devices:
        room[device] = room.get(device, 0) - (share - before)
    return replace(part, devices=devices, share=share, core=part.core if share == part.share else 0)


def _entry(state: State, record: Preemption, uid: str, offer: Offer) -> Entry:
    pod = state.pod(uid)
    query = state.query(pod) if pod else None
    grant = Grant(uid, query.policy.name if query else "", offer, mode=query.ask.mode if query else "whole")
    return Entry(grant, "PLANNED", record.namespace, expires=record.until, purpose="preemption")


def _holds_all(state: State, record: Preemption) -> bool:
    """Return whether everything that is planned is held."""
    held = {uid: state.cluster.ledger.get(ReservedKey(uid, "preemption")) for uid in record.plan.placements}
    return all(
        place.offer is None or ((entry := held[uid]) is not None and entry.grant.offer.parts == place.offer.parts)
        for uid, place in record.plan.placements.items()
    )


_SCATTERED: Final = (
    "kube-scheduler does not preempt where enough devices are free but not as the pod needs them; with"
    " placing.preemption.evict, Linkwise does"
)
_NEVER: Final = "its preemptionPolicy is Never, so no pod of lower priority is evicted for it"
_OFF: Final = "no pod of lower priority is evicted for it, because placing.preemption.evict is off"
_IN_VAIN: Final = "evicting pods of lower priority does not help it: too few devices would be free, or a PodDisruptionBudget forbids it"


def of_pod(state: State, pod: PodView) -> list[str]:
    """Return what there is to say about a pod that is evicted for another, or waits beside pods of lower priority."""
    preemptions = state.preemptions
    if preemptor := preemptions.of_victim(pod.uid):
        is_group = preemptor in state.groups
        name = groups_text([state.group_name(preemptor)]) if is_group else pod_text(state.name_of(preemptor))
        return [f"it is being evicted for {name}, which has a higher priority and does not fit otherwise"]
    if pod.node:
        return []
    if under_way := of_preemptor(state, state.groups.key_of(pod.uid) or pod.uid):
        return [under_way]
    queued = state.queue.get(pod.uid)
    if queued is None or not queued.unschedulable or not pod.preempts or not _outranks(state, pod):
        return []
    if state.settings.preemption.evict:
        return [_IN_VAIN] if pod.uid in preemptions.later else []
    return [_SCATTERED]


def of_group(state: State, view: GroupView) -> str:
    """Return what is evicted for a group, or why nothing is though pods of lower priority have devices."""
    if under_way := of_preemptor(state, view.key):
        return under_way
    match state.groups.stage(view.key):
        case Unschedulable(reason=Reason(kind="short")) if all(_outranks(state, pod) for pod in view.waiting):
            if not all(pod.preempts for pod in view.waiting):
                return _NEVER
            if not state.settings.preemption.evict:
                return _OFF
            return _IN_VAIN if view.key in state.preemptions.later else ""
    return ""


def of_preemptor(state: State, key: str) -> str:
    """Return what is evicted for a group or a pod; empty if nothing is."""
    record = state.preemptions.records.get(key)
    if record is None:
        return ""
    if not record.victims:
        return "the pods that were evicted for it are gone, and their devices are held for it"
    pods = count_text(len(record.victims), "pod")
    return f"it waits for {pods} of lower priority to terminate; devices that become free are held for it"


def _outranks(state: State, pod: PodView) -> bool:
    pods = state.cluster.pods
    bound = (pods[entry.pod] for entry in state.cluster.ledger.entries() if entry.pod in pods)
    return any(other.node and other.priority < pod.priority for other in bound)
