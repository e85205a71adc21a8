"""Rows of `linkwise get pods`: pods that request devices, with a short reason for pending ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import named
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.cli.render.explanation import plain, pod_explanation
from linkwise.cli.render.tables import Cell, Row, age_text
from linkwise.dialects.misspelt_keys import misspelt_resources
from linkwise.engine.reasons.catalog import counted_nodes, devices_text
from linkwise.explain.group import explain_group
from linkwise.explain.pod import with_outlook
from linkwise.explain.text.phrases import part_text
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.pod import Explanation, Requested
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.views import PodView

__all__ = ["MAX_EXPLAINED", "PodExplainer", "devices_of", "pod_rows", "why_text"]

MAX_EXPLAINED: Final = 100
"""pods that are explained; each takes a while on a large cluster"""
MAX_PLANS: Final = 20
"""groups that are planned to explain their pending members; each takes even longer, and is planned once"""
_STYLES: Final = {
    "unschedulable": "yellow",
    "invalid": "red",
    "grouped": "yellow",
    "schedulable": "yellow",
    "bound": "green",
}
_STATES: Final = {
    "unschedulable": "Pending",
    "invalid": "Invalid",
    "grouped": "Pending",
    "schedulable": "Pending",
    "scheduling": "Pending",
    "binding": "Starting",
    "planned": "Pending",
    "terminating": "Terminating",
    "no devices": "-",
}


def pod_rows(reader: ClusterReader, namespace: str | None, uid: str) -> list[Row]:
    """Return a row for the pod of that UID, or for all pods of a namespace: pending pods first, then by age."""
    pods = [reader.broker.pods[uid]] if uid else _pods_with_requests(reader, namespace)
    explainer = PodExplainer(reader)
    explanations = [explainer.explain(pod.uid) if place < MAX_EXPLAINED else None for place, pod in enumerate(pods)]
    return [
        _row(reader, pod, one, with_namespace=namespace is None) for pod, one in zip(pods, explanations, strict=True)
    ]


def _pods_with_requests(reader: ClusterReader, namespace: str | None) -> list[PodView]:
    pods = [
        pod
        for pod in reader.broker.pods.values()
        if namespace in {None, pod.namespace} and pod.phase not in FINISHED and _is_shown(pod)
    ]
    return sorted(pods, key=lambda pod: (bool(pod.node), pod.created, pod.namespace, pod.name))


def _is_shown(pod: PodView) -> bool:
    """Return whether the pod requests devices, or waits because it misspelt their name."""
    return asks_for_devices(pod) or (not pod.node and next(misspelt_resources(pod), None) is not None)


@dataclass(slots=True)
class PodExplainer:
    """Explains pods, and plans each of their groups only once."""

    reader: ClusterReader
    groups: dict[str, GroupExplanation | None] = field(default_factory=dict)
    """explanations of the groups that were planned, by key"""

    def explain(self, uid: str) -> Explanation | None:
        """Explain a pod; a pending member of a group with the outlook of the group."""
        explanation = pod_explanation(self.reader, uid, plan=False)
        if explanation is None or explanation.state != "grouped":
            return explanation
        group = self._group(explanation.group)
        return with_outlook(explanation, group, helped=False) if group else explanation

    def _group(self, key: str) -> GroupExplanation | None:
        if key not in self.groups and len(self.groups) < MAX_PLANS:
            self.groups[key] = explain_group(self.reader.broker, key, self.reader.now, most=0)
        return self.groups.get(key)


def _row(reader: ClusterReader, pod: PodView, explanation: Explanation | None, *, with_namespace: bool) -> Row:
    state = _state(pod, explanation)
    key = reader.broker.group_of(pod.uid)
    placed = bool(pod.node) or (explanation is not None and explanation.state == "planned")
    request = reader.broker.request(pod)
    cells = {
        "namespace": Cell(pod.namespace if with_namespace else "", short=True),
        "pod": Cell(pod.name, short=True),
        "state": Cell(state, _STYLES.get(explanation.state if explanation else "", ""), short=True),
        "node": Cell((explanation.node if explanation and placed else pod.node), short=True, always=True),
        "devices": Cell(devices_of(explanation) if explanation and placed else _requested(explanation)),
        "policy": Cell(explanation.policy if explanation else request.policy),
        "group": Cell(named(key)[1] if key else "", short=True),
        "age": Cell(age_text(reader.now - pod.created) if pod.created else "", short=True),
        "why": Cell(why_text(explanation) if explanation else ""),
        "priority": Cell(str(pod.priority or ""), wide=True),
        "scheduler": Cell(pod.scheduler, wide=True),
    }
    return Row(
        cells,
        lambda: {
            "namespace": pod.namespace,
            "pod": pod.name,
            "phase": pod.phase,
            "created": pod.created,
            "why": cells["why"].text,
            **(
                plain(explanation)
                if explanation
                else {"uid": pod.uid, "name": f"{pod.namespace}/{pod.name}", "node": pod.node}
            ),
        },
    )


def _state(pod: PodView, explanation: Explanation | None) -> str:
    if pod.deleting:
        return "Terminating"
    if pod.node:
        return "Running" if pod.phase == "Running" else "Starting"
    return _STATES.get(explanation.state, explanation.state) if explanation else "Pending"


def _requested(explanation: Explanation | None) -> str:
    asked = explanation.asked if explanation else None
    return f"{_amount(asked)} requested" if asked else ""


def _amount(asked: Requested) -> str:
    return str(asked.devices) if asked.devices else part_text(asked.share, asked.core, asked.unit)


def devices_of(explanation: Explanation) -> str:
    """Return the devices of a pod: {0,3}, 6 GiB of {1}, or the number where the devices are not recorded."""
    parts = [part for part in explanation.devices if part.indices]
    if not parts:
        return f"{_amount(explanation.asked)}, not recorded" if explanation.asked else ""
    indices = tuple(sorted({index for part in parts for index in part.indices}))
    share, core = sum(part.share for part in parts), sum(part.core for part in parts)
    return (
        f"{part_text(share, core, explanation.unit)} of {devices_text(indices)}"
        if share or core
        else devices_text(indices)
    )


def why_text(explanation: Explanation) -> str:
    """Return the main reason in a few words."""
    match explanation.state:
        case "unschedulable":
            against = sorted(explanation.against, key=_is_unspecific)
            return "; ".join(counted_nodes(one.nodes, one.short) for one in against[:2]) or "no nodes"
        case "invalid":
            return explanation.sentence
        case "grouped":
            return (
                explanation.lacks[0] if explanation.lacks else explanation.standing.partition(",")[0].partition(";")[0]
            )
        case "schedulable":
            return f"fits on {explanation.node} now"
        case _ if explanation.foreign:
            return "placed by another scheduler"
        case _:
            choice = explanation.because.choice if explanation.because else None
            return choice.worth if choice else ""


def _is_unspecific(against: RefusalSummary) -> bool:
    """Whether the refusal comes from nodes without such devices: most nodes of a mixed cluster, and nothing a user can change."""
    return (against.rule, against.kind) == ("002.inventory", "")
