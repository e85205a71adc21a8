"""NodeResourceTopology objects: a node's Topology Manager, and its CPUs by NUMA node.

Written by Node Feature Discovery's topology updater and by the resource topology exporter, one object per node with its
name, in the API group topology.node.k8s.io: v1alpha2 with attributes, v1alpha1 with one name for policy and scope.
"""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError
from linkwise.model.numa import SCOPES, TOPOLOGY_POLICIES, NumaAlignment

if TYPE_CHECKING:
    from linkwise.model.verdict import Problem

__all__ = ["KIND", "topology_alignment"]

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
