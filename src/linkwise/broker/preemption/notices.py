"""Sentences about preemption, for explanations of pods and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.reasons.phrases import count_text

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["of_pod", "of_preemptor"]


def of_pod(state: State, pod: PodView) -> list[str]:
    """Return what there is to say about a pod that is evicted for another, or waits beside pods of lower priority."""
    preemptions = state.preemptions
    if preemptor := preemptions.of_victim(pod.uid):
        name = f"group {preemptor}" if preemptor in state.groups else f"pod {state.name_of(preemptor)}"
        return [f"it is being evicted for {name}, which has a higher priority and does not fit otherwise"]
    if pod.node:
        return []
    if under_way := of_preemptor(state, state.groups.key_of(pod.uid) or pod.uid):
        return [under_way]
    queued = state.queue.get(pod.uid)
    if queued is None or not queued.unschedulable or not pod.preempts or not _outranks(state, pod):
        return []
    advice = "" if state.settings.preemption.evict else "; with placing.preemption.evict, Linkwise does"
    return [f"kube-scheduler does not preempt where enough devices are free but not as the pod needs them{advice}"]


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
