"""Pods known to only one side: asked about before the watch delivered them, or observed and never asked about.

A pod that is newer than the watch is observed within moments, and is tried again then if it may fit. One that the caller
made up never is: no other pod waits for it, no plan reserves devices for a group that it names, and it is dropped from
the queue after a while. Only its UID is remembered, so that a pod is tried again however late it is observed.

A pending pod that was never asked about may have been refused by a previous instance of the service. kube-scheduler tries
it again after a change that it knows of, or after five minutes; it is woken at start, because we may know of more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices, is_volcano
from linkwise.broker.effects import Wake
from linkwise.engine.index.node_index import choices
from linkwise.engine.queue.scheduling_queue import MAX_UNOBSERVED
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.queue.scheduling_queue import QueuedPod
    from linkwise.model.views import PodView

    Observed = tuple[PodView, QueuedPod]
    """an observed pod, and its record as it was before"""

__all__ = [
    "forget_unobserved",
    "is_unobserved_member",
    "take_observed",
    "unanswered",
    "wake_late",
    "wake_observed",
]

_ASKED_BEFORE: Final = "the scheduler asked about it before it was observed"


def is_unobserved_member(state: State, pod: PodView) -> bool:
    """Return whether a pod declares a group but is not observed; only the watch makes a pod a member."""
    known = state.cluster.known
    return bool(
        pod.uid and pod.uid not in known.views and not state.cluster.is_settled(pod.uid) and state.request(pod).group
    )


def forget_unobserved(state: State, now: float, most: int = MAX_UNOBSERVED) -> None:
    """Drop unobserved pods that are too old or too many; those being bound are checked again later."""
    for uid in state.queue.surplus(now, most):
        entry = state.cluster.ledger.get(uid)
        if entry and entry.state != "OFFERED":
            state.queue.prolong(uid, now)
        else:
            state.forget(uid)
            state.queue.drop(uid)


def wake_late(state: State, pod: PodView) -> None:
    """Wake a pod that is observed after it was dropped."""
    if state.queue.take_dropped(pod.uid) and not (pod.node or pod.deleting or pod.phase in FINISHED):
        state.outbox.add([Wake(pod.namespace, pod.name, pod.uid, _ASKED_BEFORE, pod.priority)])


def take_observed(state: State) -> list[Observed]:
    """Return newly observed pods by priority and age; from now on those that no node fits may be woken."""
    pods = [state.cluster.pods[uid] for uid in state.queue.shown]
    pods.sort(key=lambda pod: (-pod.priority, pod.created, pod.uid))
    observed = [(pod, queued) for pod in pods if (queued := state.queue.get(pod.uid))]
    for pod, _ in observed:
        state.queue.observe(pod.uid)
        if state.groups.key_of(pod.uid):
            state.leave_to_group(pod.uid)
    return observed


def wake_observed(state: State, observed: Iterable[Observed], effects: Iterable[Effect]) -> list[Wake]:
    """Return wake-ups for pods just observed, except those woken already: unobserved pods are not woken."""
    woken = {effect.uid for effect in effects if isinstance(effect, Wake)}
    not_woken = [(pod, queued) for pod, queued in observed if pod.uid not in woken and not _is_assumed(state, pod)]
    refused = {queued.uid: queued.query for _, queued in not_woken if queued.unschedulable and queued.query}
    kinds = {query.table_key(): query for query in refused.values()}
    fitting = {kind for kind, query in kinds.items() if _fits(state, query)}
    return [
        Wake(pod.namespace, pod.name, pod.uid, _ASKED_BEFORE, pod.priority, fits=not _in_a_group(state, queued))
        for pod, queued in not_woken
        if _in_a_group(state, queued)
        or (pod.uid in refused and (refused[pod.uid].table_key() in fitting or _outranks_a_plan(state, pod)))
    ]


def _is_assumed(state: State, pod: PodView) -> bool:
    entry = state.cluster.ledger.get(pod.uid)
    return entry is not None and not entry.tentative


def _in_a_group(state: State, queued: QueuedPod) -> bool:
    """Return whether the pod is a member of a group, or declared one when it asked."""
    return bool(state.groups.key_of(queued.uid) or state.request(queued.pod).group)


def _fits(state: State, query: Query) -> bool:
    """Return whether it may fit on a node."""
    index, unready = state.cluster.index, state.cluster.unready
    lookup = choices(index, query, state.settings.budget)
    return bool(lookup.best(list(index.nodes), 1, unready)) or lookup.partial


def _outranks_a_plan(state: State, pod: PodView) -> bool:
    """Return whether it could preempt a plan."""
    return any(plan.priority < pod.priority for plan in state.groups.plans.values())


def unanswered(state: State) -> tuple[Wake, ...]:
    """Return wake-ups for pending pods never asked about: members of restored plans first, then by priority and age."""
    pods = [pod for pod in state.cluster.pods.values() if _waits(state, pod) and pod.uid not in state.queue]
    planned = {pod.uid for pod in pods if (entry := state.cluster.ledger.get(pod.uid)) and entry.state == "PLANNED"}
    pods.sort(key=lambda pod: (pod.uid not in planned, -pod.priority, pod.created, pod.uid))
    sentence = "it may have been refused by a previous instance of the service"
    return tuple(Wake(pod.namespace, pod.name, pod.uid, sentence, pod.priority, pod.uid in planned) for pod in pods)


def _waits(state: State, pod: PodView) -> bool:
    """Return whether a previous instance may have refused it: members that request no devices wait for their group."""
    free = not (pod.node or pod.deleting or pod.gates or pod.phase in FINISHED or is_volcano(state.settings, pod))
    return free and (asks_for_devices(pod) or bool(state.groups.key_of(pod.uid)))
