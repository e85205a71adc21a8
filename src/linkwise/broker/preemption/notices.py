"""Sentences about preemption, for explanations of pods and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.records.stages import Unschedulable
from linkwise.engine.reasons.phrases import count_text, groups_text, pod_text
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["of_group", "of_pod", "of_preemptor"]

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
