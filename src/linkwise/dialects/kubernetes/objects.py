"""Objects of Kubernetes: disruption budgets, volume claims, storage classes, and NodeResourceTopology.

NodeResourceTopology is written by Node Feature Discovery's topology updater and by the resource topology exporter, one object
per node with its name, in the API group topology.node.k8s.io: v1alpha2 with attributes, v1alpha1 with one name for policy
and scope.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError
from linkwise.model.node import SCOPES, TOPOLOGY_POLICIES, NumaAlignment
from linkwise.model.views import DisruptionBudget, SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.verdict import Problem

__all__ = [
    "BUDGET",
    "CLAIM",
    "CLASS",
    "KIND",
    "VolumeClaim",
    "binds_later",
    "budget_of",
    "claim_of",
    "essential",
    "topology_alignment",
]

BUDGET: Final = "PodDisruptionBudget.policy"


def budget_of(name: str, document: Mapping[str, object]) -> tuple[DisruptionBudget | None, tuple[Problem, ...]]:
    """The budget with that namespace and name, and what is wrong with it; None if it selects no pod.

    As in policy/v1, an empty selector selects every pod of the namespace, and a missing one selects none.
    """
    report = Report(f"PodDisruptionBudget {name}", "spec.selector")
    spec = Fields.of(document.get("spec"), "spec", report)
    raw = spec.raw.get("selector") if spec else None
    selector = None if raw is None else Fields.of(raw, "spec.selector", report)
    if selector is None:
        return None, tuple(report.problems)
    labels = selector.raw.get("matchLabels") or {}
    pairs = Fields.of(labels, "spec.selector.matchLabels", report)
    wanted = {str(key): str(value) for key, value in pairs.raw.items()} if pairs else {}
    expressions = tuple(
        SelectorRequirement(entry.text("key") or "", entry.text("operator") or "", entry.texts("values", ()) or ())
        for entry in (selector.objects("matchExpressions") if selector.raw.get("matchExpressions") else ())
    )
    allowed, disrupted = _status(document.get("status"))
    namespace, _, own = name.rpartition("/")
    budget = DisruptionBudget(namespace, own, allowed, wanted, expressions, disrupted)
    return None if report.broken else budget, tuple(report.problems)


def _status(status: object) -> tuple[int, frozenset[str]]:
    if not isinstance(status, dict):
        return 0, frozenset()
    allowed, disrupted = status.get("disruptionsAllowed"), status.get("disruptedPods")
    count = allowed if isinstance(allowed, int) and not isinstance(allowed, bool) else 0
    return max(0, count), frozenset(map(str, disrupted)) if isinstance(disrupted, dict) else frozenset()


CLAIM: Final = "PersistentVolumeClaim"
CLASS: Final = "StorageClass.storage.k8s.io"
_BOUND: Final[Mapping[str, object]] = {"status": {"phase": "Bound"}}
"""what is kept of every bound claim, of which a cluster may have many thousands"""
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_WAITS: Final = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """The state of a claim."""

    bound: bool
    storage_class: str = ""
    """empty if it has none: it is bound to a volume that exists"""
    volume: str = ""
    """to which it is to be bound"""
    node: str = ""
    """for which its volume is being provisioned"""


def claim_of(document: Mapping[str, object]) -> VolumeClaim:
    """The state of a claim; what can't be read counts as missing."""
    spec, meta, status = (_part(document, name) for name in ("spec", "metadata", "status"))
    annotations = _part(meta, "annotations")
    volume = _text(spec, "volumeName")
    # As in kube-scheduler: the annotation, and the phase for claims that are written without a controller.
    bound = status.get("phase") == "Bound" or bool(volume and annotations.get(_COMPLETED))
    return VolumeClaim(bound, _text(spec, "storageClassName"), volume, _text(annotations, _SELECTED_NODE))


def binds_later(document: Mapping[str, object]) -> bool:
    """Whether claims of a StorageClass are bound when a pod that uses them is scheduled."""
    return document.get("volumeBindingMode") == _WAITS


def essential(kind: str, document: Mapping[str, object]) -> Mapping[str, object]:
    """The part of a claim or a StorageClass that is read, so that no other part of it is kept."""
    if kind == CLASS:
        return {"volumeBindingMode": _WAITS} if binds_later(document) else {}
    claim = claim_of(document)
    if claim.bound:
        return _BOUND
    spec = {"storageClassName": claim.storage_class, "volumeName": claim.volume}
    return {"spec": spec, "metadata": {"annotations": {_SELECTED_NODE: claim.node}}}


def _part(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


KIND: Final = "NodeResourceTopology"

_POLICY: Final = "topologyManagerPolicy"
_SCOPE: Final = "topologyManagerScope"
_ZONE: Final = re.compile(r"node-([0-9]{1,6})")
_CPU: Final = "cpu"
_OLD_NAMES: Final = {
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "SingleNUMANode": ("single-numa-node", "container"),
    "RestrictedContainerLevel": ("restricted", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "Restricted": ("restricted", "container"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "BestEffort": ("best-effort", "container"),
    "None": ("none", "container"),
}
"""policy and scope by the names of v1alpha1"""


def topology_alignment(raw: object, node: str) -> tuple[NumaAlignment | None, tuple[Problem, ...]]:
    """The Topology Manager of a node and its CPUs, and problems for what is invalid."""
    report = Report(f"node {node}", KIND)
    root = Fields.of(raw, "", report)
    if root is None:
        return None, tuple(report.problems)
    policy, scope = _names(root)
    known_policy = next((each for each in TOPOLOGY_POLICIES if each == policy), None)
    known_scope = next((each for each in SCOPES if each == scope), None)
    if policy and known_policy is None:
        report.note(f"{_POLICY} is {shown(policy)}; one of {', '.join(TOPOLOGY_POLICIES)} is expected")
    if scope and known_scope is None:
        report.note(f"{_SCOPE} is {shown(scope)}; one of {', '.join(SCOPES)} is expected")
    total, free = _cpus(root)
    alignment = known_policy and NumaAlignment(known_policy, known_scope or "container", free, total)
    return alignment or None, tuple(report.problems)


def _names(root: Fields) -> tuple[str, str]:
    """Policy and scope by the attributes, else by the older field."""
    values = {}
    for entry in root.objects("attributes") if "attributes" in root.raw else ():
        name, value = entry.text("name"), entry.text("value", "")
        if name in {_POLICY, _SCOPE}:
            values[name] = value or ""
    if values.get(_POLICY):
        return values[_POLICY], values.get(_SCOPE, "")
    old = root.raw.get("topologyPolicies")
    first = old[0] if isinstance(old, list) and old else ""
    return _OLD_NAMES.get(first, (first, "")) if isinstance(first, str) else ("", "")


def _cpus(root: Fields) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """CPUs by NUMA node: those that pods may use, and those that are available; none if a zone does not tell."""
    total: dict[int, int] = {}
    free: dict[int, int] = {}
    for zone in root.objects("zones") if "zones" in root.raw else ():
        name = _ZONE.fullmatch(zone.text("name", "") or "")
        if zone.raw.get("type") != "Node" or name is None:
            continue
        node = int(name[1])
        for resource in zone.objects("resources") if "resources" in zone.raw else ():
            if resource.raw.get("name") == _CPU:
                total[node] = _whole(resource, "allocatable")
                free[node] = min(total[node], _whole(resource, "available"))
    return tuple(sorted(total.items())), tuple(sorted(free.items()))


def _whole(resource: Fields, name: str) -> int:
    """A number of CPUs, rounded down; 0 with a note if it is not a quantity."""
    value = resource.raw.get(name, resource.raw.get("capacity", "0"))
    try:
        return max(0, int(quantity(str(value)).to_integral_value(ROUND_FLOOR)))
    except (InputError, ArithmeticError):
        resource.report.note(f"{resource.path}{name} is {shown(value)}; a quantity of CPUs is expected, so 0 is used")
        return 0
