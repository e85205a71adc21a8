"""Explains a workload: all pods of a Job, Deployment or similar object, with equal reasons merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from linkwise.broker.state import pod_name
from linkwise.dialects.groups.owners import workloads_of
from linkwise.explain.group.group import explain_group
from linkwise.explain.published.lists import PodExplainer
from linkwise.explain.reports import WorkloadExplanation, WorkloadPart
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.engine.reasons.phrases import ReasonCode
    from linkwise.explain.reports import Explanation, PartState
    from linkwise.model.views import PodView

__all__ = ["explain_workload", "workload_names"]


def explain_workload(  # noqa: PLR0913 - a workload has three names
    broker: Broker, kind: str, namespace: str, name: str, now: float, *, readable: frozenset[str] | None = None
) -> WorkloadExplanation | None:
    """Explain the pods of a workload as one to a reader of these namespaces, or of all; None if it has no pods."""
    state = broker.state_at(now, readable)
    pods = sorted(
        (
            pod
            for pod in state.pausing(list(state.cluster.pods.values()))
            if pod.namespace == namespace and (kind, name) in workloads_of(pod)
        ),
        key=lambda pod: (pod.created, pod.name),
    )
    if not pods:
        return None
    explainer = PodExplainer(broker, now)
    parts: dict[tuple[object, ...], WorkloadPart] = {}
    for pod in state.pausing(pods):
        explanation = None if pod.phase in FINISHED else explainer.explain(pod.uid, readable)
        key = _kind_of(pod, explanation)
        known = parts.get(key)
        parts[key] = (
            replace(known, pods=(*known.pods, pod.name))
            if known
            else WorkloadPart(_state(pod), (pod.name,), explanation)
        )
    groups = sorted({group for pod in pods if not pod.node and (group := broker.group_of(pod.uid))})
    one = explain_group(broker, groups[0], now, readable=readable) if len(groups) == 1 else None
    ordered = sorted(parts.values(), key=lambda part: (part.state != "pending", part.state, part.pods))
    code: ReasonCode | Literal[""] = next(
        (part.explanation.code for part in ordered if part.explanation and part.state == "pending"), ""
    )
    return WorkloadExplanation(kind, namespace, name, tuple(ordered), one, tuple(groups), code)


def _state(pod: PodView) -> PartState:
    if pod.phase in FINISHED:
        return "succeeded" if pod.phase == "Succeeded" else "failed"
    if pod.deleting:
        return "terminating"
    if not pod.node:
        return "pending"
    return "running" if pod.phase == "Running" else "starting"


def _kind_of(pod: PodView, explanation: Explanation | None) -> tuple[object, ...]:
    """Return what pods have in common that are explained by one answer: of pending ones the reason, of others the node."""
    state = _state(pod)
    if state != "pending" or explanation is None:
        return (state, pod.node)
    return (state, replace(explanation, uid="", name="", notes=tuple(_unnamed(explanation, pod))))


def _unnamed(explanation: Explanation, pod: PodView) -> list[str]:
    return [note.replace(pod_name(pod), "").replace(pod.name, "") for note in explanation.notes]


def workload_names(broker: Broker, kind: str, namespace: str) -> list[str]:
    """Return the names of workloads of a kind that have pods."""
    pods = (pod for pod in broker.pods.values() if pod.namespace == namespace)
    return sorted({name for pod in pods for known, name in workloads_of(pod) if known == kind})
