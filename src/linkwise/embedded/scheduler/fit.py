"""Filtering: the nodes a pod fits on apart from its devices, and kube-scheduler's messages for the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.engine.feasibility import lasting, unfit, unless_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.nodes import NodeCache, NodeInfo, PodInfo
    from linkwise.model.demand import Demand, Load
    from linkwise.model.verdict import Reason

__all__ = ["Fit", "filter_node", "find_feasible", "fit_error"]

_BATCH_SIZE: Final = 100
"""nodes filtered before other tasks get the event loop"""
_MESSAGES: Final = {
    "unschedulable": "node(s) were unschedulable",
    "not ready": "node(s) were not ready",
    "selector": "node(s) didn't match Pod's node affinity/selector",
    "affinity": "node(s) didn't match Pod's node affinity/selector",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "cpu": "Insufficient cpu",
    "memory": "Insufficient memory",
    "ephemeral": "Insufficient ephemeral-storage",
    "pods": "Too many pods",
    "apart": "node(s) didn't match pod anti-affinity rules",
    "together": "node(s) didn't match pod affinity rules",
}


@dataclass(slots=True)
class Fit:
    """The feasible nodes; for the others the reason, and whether preemption could resolve it."""

    nodes: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: set[str] = field(default_factory=set)


async def find_feasible(pod: PodInfo, node_cache: NodeCache, nominated: Mapping[str, Sequence[PodInfo]]) -> Fit:
    """Filter all nodes in batches; `nominated` are pods for which preemption frees resources on a node."""
    fit = Fit()
    demand = unless_first(pod.demand, node_cache.all_pods()) if pod.demand.together else pod.demand
    for index, (name, node) in enumerate(tuple(node_cache.nodes.items())):
        if index % _BATCH_SIZE == _BATCH_SIZE - 1:
            await asyncio.sleep(0)
        failure = filter_node(demand, pod.counts, node, nominated.get(name, ()))
        if failure is None:
            fit.nodes.append(name)
        else:
            fit.failed[name] = failure[0]
            if failure[1]:
                fit.unresolvable.add(name)
    return fit


def filter_node(
    demand: Demand, counts: Mapping[str, int], node: NodeInfo, nominated: Sequence[PodInfo] = ()
) -> tuple[str, bool] | None:
    """Why a pod does not fit a node and whether that is unresolvable by preemption; None if it fits."""
    load, used = node.load, node.used
    if nominated:
        load, used = _with_nominated(node, nominated)
    reason = unfit(demand, node.view, node.capacity, load, node.neighbours)
    if reason is not None:
        return _message(reason), lasting(reason)
    for name, count in counts.items():
        if count and count > node.allocatable.get(name, 0) - used.get(name, 0):
            return f"Insufficient {name}", count > node.allocatable.get(name, 0)
    return None


def fit_error(node_count: int, failures: Iterable[str]) -> str:
    """The FailedScheduling message of kube-scheduler: equal reasons are counted."""
    if not node_count:
        return "no nodes available to schedule pods"
    counts = sorted(f"{count} {text}" for text, count in Counter(failures).items())
    return f"0/{node_count} nodes are available: {', '.join(counts)}."


def _message(reason: Reason) -> str:
    if reason.kind == "taint":
        key, _, value = str(reason.found).rpartition(":")[0].partition("=")
        return f"node(s) had untolerated taint {{{key}: {value}}}"
    return _MESSAGES.get(reason.kind, reason.kind)


def _with_nominated(node: NodeInfo, nominated: Sequence[PodInfo]) -> tuple[Load, dict[str, int]]:
    load, used = node.load, dict(node.used)
    for pod in nominated:
        load = load.plus(pod.demand)
        for name, count in pod.counts.items():
            used[name] = used.get(name, 0) + count
    return load, used
