"""Rows of lists: pods that request devices with a short reason for pending ones, and groups with their stage.

Equal pods are explained once and each group is planned once, because an explanation takes a while on a large cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.state import pod_name
from linkwise.dialects.kubernetes.claims.requests import CLAIM
from linkwise.dialects.misspelt_keys import misspelt_resources
from linkwise.engine.reasons.catalog import counted_nodes, devices_text
from linkwise.explain.group.group import group_explanation
from linkwise.explain.pod import as_member, explain_alone, with_outlook
from linkwise.explain.text.phrases import part_text
from linkwise.explain.text.pod import HAS_GATES, explanation_lines
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.broker.broker import Broker, BrokerView
    from linkwise.broker.state import State
    from linkwise.explain.reports import Explanation, GroupExplanation, Requested
    from linkwise.explain.survey import RefusalSummary
    from linkwise.model.views import PodView

__all__ = [
    "MAX_EXPLAINED",
    "MAX_PLANS",
    "GroupRow",
    "PodExplainer",
    "PodRow",
    "any_pod",
    "group_rows",
    "named",
    "namespaces_with_requests",
    "pod_rows",
    "waiting_pods",
    "why_text",
]

MAX_EXPLAINED: Final = 100
"""pods of a list that are explained"""
MAX_PLANS: Final = 20
"""groups that are planned to explain their pending members; each takes even longer than a pod"""
_STATES: Final = {
    "unschedulable": "Pending",
    "invalid": "Invalid",
    "not permitted": "Pending",
    "grouped": "Pending",
    "schedulable": "Pending",
    "scheduling": "Pending",
    "claimed": "Pending",
    "booked": "Starting",
    "binding": "Starting",
    "planned": "Pending",
    "terminating": "Terminating",
    "no devices": "-",
}
_same_fields: Final = attrgetter(
    *("namespace", "containers", "node_selector", "tolerations", "affinity", "ports", "apart", "together"),
    *("claims", "hosted_by_claims", "overhead", "requests", "priority", "preempts", "nominated", "gates", "scheduler"),
)
"""the fields on which an explanation of a pending pod depends, beside its request, its labels and its offers"""
_OWN_LABELS: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""labels by which controllers tell equal pods apart"""


def any_pod(_: PodView) -> bool:
    """Select every pod."""
    return True


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod of a list."""

    namespace: str
    pod: str
    phase: str
    created: float
    state: str
    """for people: Pending, Starting, Running, Terminating, Invalid"""
    node: str
    devices: str
    """what it has or requests"""
    policy: str
    group: str
    why: str
    code: str = ""
    priority: int = 0
    scheduler: str = ""
    uid: str = ""
    explanation: Explanation | None = None
    """None beyond the first pods of a list"""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group of a list."""

    namespace: str
    name: str
    why: str
    explanation: GroupExplanation


@dataclass(slots=True)
class PodExplainer:
    """Explains many pods at one time: equal pods once, and each of their groups once."""

    broker: Broker
    now: float
    most_plans: int = MAX_PLANS
    groups: dict[str, GroupExplanation | None] = field(default_factory=dict)
    """explanations of the groups that were planned, by key"""
    surveys: int = 0
    """pods whose nodes were surveyed: those of one template count once"""
    _alone: dict[tuple[str, int], list[tuple[PodView, Explanation]]] = field(default_factory=dict)
    """explanations of pending pods without regard to their groups, by namespace and template"""

    def explain(self, uid: str, readable: frozenset[str] | None = None) -> Explanation | None:
        """Explain a pod to a reader of these namespaces, or of all; a pending member of a group with the group's outlook.

        What is explained once is shared by the pods of one namespace only, and all of them have the same reader.
        """
        state = self.broker.state_at(self.now, readable)
        pod = state.pod(uid)
        if pod is None:
            return None
        explanation = as_member(state, self._explain_alone(state, pod), self.now, plan=False)
        if explanation.state != "grouped":
            return explanation
        group = self._group(state, explanation.group)
        return with_outlook(explanation, group, helped=False) if group else explanation

    def _explain_alone(self, state: State, pod: PodView) -> Explanation:
        if pod.node or state.cluster.ledger.get(pod.uid) or state.reservations.of_pod(pod.uid):
            return explain_alone(state, pod)
        known = self._alone.setdefault((pod.namespace, id(pod.containers)), [])
        for other, explanation in known:
            if _is_alike(state, pod, other):
                return replace(explanation, uid=pod.uid, name=pod_name(pod))
        self.surveys += 1
        explanation = explain_alone(state, pod)
        known.append((pod, explanation))
        return explanation

    def _group(self, state: State, key: str) -> GroupExplanation | None:
        if key not in self.groups and len(self.groups) < self.most_plans:
            self.groups[key] = group_explanation(state, key, self.now, most=0) if key else None
        return self.groups.get(key)


def _is_alike(state: State, pod: PodView, other: PodView) -> bool:
    """Return whether the explanation of one pending pod is that of the other."""
    return (
        _same_fields(pod) == _same_fields(other)
        and _shared_labels(pod) == _shared_labels(other)
        and state.request(pod) == state.request(other)
        and _offers(state, pod.uid) == _offers(state, other.uid)
    )


def _shared_labels(pod: PodView) -> Mapping[str, str]:
    labels = pod.labels
    return labels if _OWN_LABELS.isdisjoint(labels) else {k: v for k, v in labels.items() if k not in _OWN_LABELS}


def _offers(state: State, uid: str) -> tuple[object, ...]:
    queued = state.queue.get(uid)
    return (queued.unschedulable, queued.rounds, queued.failed, queued.offered) if queued else ()


def pod_rows(  # noqa: PLR0913 - what is listed, and to whom
    broker: Broker,
    now: float,
    namespace: str | None,
    uid: str = "",
    selects: Callable[[PodView], bool] = any_pod,
    *,
    readable: frozenset[str] | None = None,
) -> list[PodRow]:
    """Return the pod of that UID, or all pods of a namespace (None for all): pending pods first, then by age.

    Reasons name pods and groups of the `readable` namespaces; None for all.
    """
    pods = [broker.pods[uid]] if uid else list(filter(selects, _pods_with_requests(broker, namespace)))
    explainer = PodExplainer(broker, now)
    return [
        _pod_row(broker, pod, explainer.explain(pod.uid, readable) if place < MAX_EXPLAINED else None)
        for place, pod in enumerate(pods)
    ]


def _pods_with_requests(broker: Broker, namespace: str | None) -> list[PodView]:
    pods = [
        pod
        for pod in broker.pods.values()
        if namespace in {None, pod.namespace} and pod.phase not in FINISHED and _is_shown(pod)
    ]
    return sorted(pods, key=lambda pod: (bool(pod.node), pod.created, pod.namespace, pod.name))


def namespaces_with_requests(broker: BrokerView) -> set[str]:
    """Return the namespaces that have rows in lists: those of pods that request devices, and of groups."""
    pods = (pod.namespace for pod in broker.pods.values() if pod.phase not in FINISHED and _is_shown(pod))
    return {*pods, *(named(key)[0] for key in broker.group_keys())}


def waiting_pods(broker: Broker, now: float, only: frozenset[str] | None = None) -> list[PodView]:
    """Return the pods that wait for devices, of these namespaces or of all: by priority, then the oldest first.

    A pod that has a place on a node, and is bound in a moment, does not wait.
    """
    pods = broker.state_at(now).pausing(list(broker.pods.values()))
    waiting = [
        pod
        for pod in pods
        if (only is None or pod.namespace in only)
        and not (pod.node or pod.deleting or pod.phase in FINISHED)
        and _is_shown(pod)
        and not _has_place(broker, pod.uid)
    ]
    return sorted(waiting, key=lambda pod: (-pod.priority, pod.created, pod.namespace, pod.name))


def _has_place(broker: BrokerView, uid: str) -> bool:
    entry = broker.entry(uid)
    return entry is not None and entry.state in {"OFFERED", "ASSUMED", "BOOKED"}


def _is_shown(pod: PodView) -> bool:
    """Return whether the pod requests devices, or waits because it misspelt their name."""
    return asks_for_devices(pod) or (not pod.node and next(misspelt_resources(pod), None) is not None)


def _pod_row(broker: Broker, pod: PodView, explanation: Explanation | None) -> PodRow:
    key = broker.group_of(pod.uid)
    placed = bool(pod.node) or (explanation is not None and explanation.state == "planned")
    return PodRow(
        pod.namespace,
        pod.name,
        pod.phase,
        pod.created,
        _state(pod, explanation),
        explanation.node if explanation and placed else pod.node,
        _devices_of(explanation) if explanation and placed else _requested(explanation),
        explanation.policy if explanation else broker.request(pod).policy,
        named(key)[1] if key else "",
        why_text(explanation) if explanation else "",
        explanation.code if explanation else "",
        pod.priority,
        pod.scheduler,
        pod.uid,
        explanation,
    )


def named(key: str) -> tuple[str, str]:
    """Namespace and name of a group."""
    namespace, _, rest = key.partition("/")
    return namespace, rest.partition("/")[0]


def _state(pod: PodView, explanation: Explanation | None) -> str:
    if pod.deleting:
        return "Terminating"
    if pod.node:
        return "Running" if pod.phase == "Running" else "Starting"
    return _STATES.get(explanation.state, explanation.state) if explanation else "Pending"


def _requested(explanation: Explanation | None) -> str:
    requested = explanation.asked if explanation else None
    return f"{_amount(requested)} requested" if requested else ""


def _amount(requested: Requested) -> str:
    return str(requested.devices) if requested.devices else part_text(requested.share, requested.core, requested.unit)


def _devices_of(explanation: Explanation) -> str:
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
        case "invalid" | "not permitted":
            return explanation.sentence
        case "grouped":
            return (
                explanation.lacks[0] if explanation.lacks else explanation.standing.partition(",")[0].partition(";")[0]
            )
        case "schedulable":
            gates = [note for note in explanation.notes if note.startswith(HAS_GATES)]
            return "; ".join([*gates, f"fits on {explanation.node} now"])
        case _ if explanation.foreign:
            return "placed by another scheduler"
        case _:
            choice = explanation.because.choice if explanation.because else None
            return choice.worth if choice else ""


def _is_unspecific(against: RefusalSummary) -> bool:
    """Whether the refusal comes from nodes without such devices: most nodes of a mixed cluster, and nothing a user can change."""
    return (against.rule, against.kind) == ("002.inventory", "")


def group_rows(  # noqa: PLR0913 - what is listed, and to whom
    broker: Broker,
    now: float,
    namespace: str | None,
    key: str = "",
    selects: Callable[[PodView], bool] = any_pod,
    *,
    readable: frozenset[str] | None = None,
) -> list[GroupRow]:
    """Return the group of that key, or all groups of a namespace (None for all namespaces) with a pod that is selected.

    Reasons name pods and groups of the `readable` namespaces; None for all.
    """
    keys = [key] if key else [one for one in sorted(broker.group_keys()) if namespace in {None, named(one)[0]}]
    if selects is not any_pod:
        chosen = {broker.group_of(pod.uid) for pod in broker.pods.values() if selects(pod)}
        keys = [one for one in keys if one in chosen]
    state = broker.state_at(now, readable)
    most = None if key else 0  # remedies are in `linkwise explain group/NAME`
    # Single pods with a claim are planned as gangs of one, which are no groups to anyone.
    keys = [one for one in keys if key or not ((view := state.groups.view(one)) and view.group.source == CLAIM)]
    groups = [group_explanation(state, one, now, most=most) for one in keys]
    return [_group_row(group) for group in groups if group]


def _group_row(group: GroupExplanation) -> GroupRow:
    namespace, name = named(group.key)
    heading, *lines = explanation_lines(group)
    why = heading.removeprefix(f"group {group.key} ").removeprefix("is placed: ")
    if group.stage == "unschedulable":
        why = next((line for line in lines if line.startswith("it needs")), why)
    return GroupRow(namespace, name, why, group)
