"""A pod on the page: where it is and why, or why it waits and what would let it start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import code_of_rule, counted_nodes
from linkwise.engine.reasons.phrases import OTHER_POD, count_text
from linkwise.errors import NotFoundError
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.published.lists import named
from linkwise.explain.text.group import speed_text
from linkwise.explain.text.phrases import leaver_text, remedy_line
from linkwise.explain.text.pod import (
    certainty_text,
    explanation_lines,
    next_best_text,
    no_end_text,
    reason_lines,
    remark_lines,
    request_text,
)
from linkwise.explain.victims import victims_of
from linkwise.views.explanations import pod_explanation
from linkwise.views.nodes import holder_text
from linkwise.views.page.documents import (
    Against,
    AmountOfPod,
    FreedPods,
    Holding,
    NextNode,
    Placed,
    PodPage,
    PodWaiting,
    RemedyCard,
    RunnerUpSet,
)
from linkwise.views.page.links import slowest_speed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.explain.reports import Explanation, Leaver
    from linkwise.explain.survey import RefusalSummary
    from linkwise.views.cluster import ClusterView

__all__ = ["amounts_of", "explained_pod", "pod_page", "refusals"]

MOST_NODES: Final = 3
"""nodes whose pods are listed as those that hold devices"""
MOST_HOLDERS: Final = 24
_WAITS: Final = frozenset({"grouped", "unschedulable", "invalid", "not permitted"})


def pod_page(cluster: ClusterView, namespace: str, name: str) -> PodPage:
    """Describe a pod; NotFoundError suggests similar names."""
    explanation = pod_explanation(cluster, cluster.pod(namespace, name))
    if explanation is None:
        raise NotFoundError(f"pod {namespace}/{name} not found")
    return explained_pod(cluster, explanation)


def explained_pod(cluster: ClusterView, explanation: Explanation) -> PodPage:
    """Describe a pod that is explained already."""
    headline, *lines = explanation_lines(explanation)
    namespace, _, name = explanation.name.partition("/")
    waits = explanation.state in _WAITS
    return PodPage(
        namespace,
        name,
        explanation.state,
        explanation.code,
        "/".join(named(explanation.group)) if explanation.group else "",
        request_text(explanation) if explanation.asked else "",
        explanation.policy,
        headline,
        tuple(lines),
        tuple(remark_lines(explanation)),
        explanation.notes,
        None if waits or not explanation.node else _placed(cluster, explanation),
        _waiting(cluster, explanation) if waits else None,
    )


def _placed(cluster: ClusterView, explanation: Explanation) -> Placed:
    broker, node = cluster.broker, explanation.node
    devices = tuple(sorted({index for part in explanation.devices for index in part.indices}))
    choice = explanation.because.choice if explanation.because else explanation.choice
    other, why = next_best_text(explanation)
    slowest = slowest_speed(broker.inventories.get(node), broker.usage.get(node), devices)
    return Placed(
        node,
        devices,
        certainty_text(explanation),
        tuple(reason_lines(explanation)),
        speed_text(slowest),
        RunnerUpSet(choice.other, choice.lost) if choice and choice.other and not choice.now else None,
        NextNode(other, why) if other else None,
    )


def _waiting(cluster: ClusterView, explanation: Explanation) -> PodWaiting:
    sentence, victims = victims_of(cluster.broker, explanation.uid, cluster.now, cluster.only)
    return PodWaiting(
        explanation.nodes,
        explanation.fitting,
        refusals(explanation.against),
        tuple(RemedyCard(remedy_line(remedy), remedy.node, amounts_of(remedy.pods)) for remedy in explanation.remedies),
        no_end_text(explanation),
        tuple(_holders(cluster, explanation)),
        FreedPods(sentence, amounts_of(victims)) if sentence else None,
    )


def refusals(groups: Iterable[RefusalSummary]) -> tuple[Against, ...]:
    """Return what speaks against nodes, by reason."""
    return tuple(
        Against(
            code_of_rule(group.rule, group.kind),
            group.nodes,
            counted_nodes(group.nodes, group.short),
            not group.final,
            group.nearest,
            group.sentence,
        )
        for group in groups
    )


def amounts_of(pods: Iterable[Leaver]) -> tuple[AmountOfPod, ...]:
    """Return pods that would have to finish, with what each frees; one that may not be named has no name."""
    return tuple(AmountOfPod("" if pod.name == OTHER_POD else pod.name, leaver_text(pod)) for pod in pods)


def _holders(cluster: ClusterView, explanation: Explanation) -> Iterator[Holding]:
    """Yield the pods on the nodes that come nearest: those of remedies, then those whose reasons change when pods finish."""
    nearest = [
        *(remedy.node for remedy in explanation.remedies if remedy.pods),
        *(group.nearest for group in explanation.against if not group.final),
    ]
    names = list(dict.fromkeys(nearest))[:MOST_NODES]
    left = MOST_HOLDERS
    for name in names:
        for node in inspect_nodes(cluster.broker, name, cluster.now, cluster.only):
            devices: dict[tuple[str, int], list[str]] = {}
            for device in node.devices:
                for pod in device.pods:
                    full = pod.full_name if pod.namespace else ""
                    devices.setdefault((full, pod.other), []).append(holder_text(pod, node.unit))
            for (pod_name, _), texts in list(devices.items())[:left]:
                left -= 1
                yield Holding(pod_name, name, len(texts), count_text(len(texts), "device"))
