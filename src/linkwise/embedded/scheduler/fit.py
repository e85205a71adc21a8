"""Filtering: the nodes that fit a pod apart from its devices, with kube-scheduler's messages for the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.engine.feasibility import lasting, unfit, unless_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.cache import NodeCache, NodeInfo, PodInfo
    from linkwise.embedded.scheduler.dynamic_resources import PodClaims
    from linkwise.model.ask import Demand, Load
    from linkwise.model.verdict import Reason
    from linkwise.model.views import NodeTerm, PodView

__all__ = ["Fit", "filter_node", "find_candidates", "find_feasible", "fit_error", "pinned_to", "select_candidate"]

_NODE_NAME: Final = "metadata.name"

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


async def find_feasible(
    pod: PodInfo,
    node_cache: NodeCache,
    nominated: Mapping[str, Sequence[PodInfo]],
    claims: PodClaims | None = None,
) -> Fit:
    """Filter all nodes in batches; `nominated` are pods for which preemption frees resources on a node."""
    fit = Fit()
    demand = unless_first(pod.demand, node_cache.all_pods()) if pod.demand.together else pod.demand
    nodes = node_cache.nodes
    if pinned := pinned_to(pod.view):  # most nodes are out of the question, and there may be thousands
        fit.failed = dict.fromkeys(nodes.keys() - pinned, _MESSAGES["affinity"])
        fit.unresolvable = set(fit.failed)
        nodes = {name: node for name, node in nodes.items() if name in pinned}
    for index, (name, node) in enumerate(tuple(nodes.items())):
        if index % _BATCH_SIZE == _BATCH_SIZE - 1:
            await asyncio.sleep(0)
        counts = claims.counts(node, pod.counts) if claims else pod.counts
        failure = filter_node(demand, counts, node, nominated.get(name, ()))
        if failure is None and claims and (why := claims.filter(node)):
            failure = why, True  # evicting pods does not deallocate claims in time
        if failure is None:
            fit.nodes.append(name)
        else:
            fit.failed[name] = failure[0]
            if failure[1]:
                fit.unresolvable.add(name)
    return fit


def pinned_to(pod: PodView) -> set[str]:
    """The nodes that the affinity names; empty if one of its terms names none."""
    named = [_named(term) for term in pod.affinity or ()]
    return set().union(*named) if all(named) else set()


def _named(term: NodeTerm) -> set[str]:
    values = (set(field.values) for field in term.fields if field.key == _NODE_NAME and field.operator == "In")
    return next(values, set())


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


def find_candidates(pod: PodInfo, node_cache: NodeCache, names: Iterable[str]) -> dict[str, list[str]]:
    """By node, the UIDs of the victims; only nodes where evicting them makes the pod fit."""
    candidates = {}
    for name in names:
        victims = _select_victims(pod, node_cache.nodes[name]) if name in node_cache.nodes else None
        if victims:
            candidates[name] = [victim.view.uid for victim in victims]
    return candidates


def select_candidate(node_cache: NodeCache, candidates: Mapping[str, Sequence[str]]) -> str:
    """The node with the lowest highest victim priority, then the lowest sum, then the fewest victims."""

    def cost(name: str) -> tuple[int, int, int, str]:
        priorities = [node_cache.nodes[name].pods[uid].view.priority for uid in candidates[name]]
        return max(priorities), sum(priorities), len(priorities), name

    return min(candidates, key=cost)


def _with_nominated(node: NodeInfo, nominated: Sequence[PodInfo]) -> tuple[Load, dict[str, int]]:
    load, used = node.load, dict(node.used)
    for pod in nominated:
        load = load.plus(pod.demand)
        for name, count in pod.counts.items():
            used[name] = used.get(name, 0) + count
    return load, used


def _message(reason: Reason) -> str:
    if reason.kind == "taint":
        key, _, value = str(reason.found).rpartition(":")[0].partition("=")
        return f"node(s) had untolerated taint {{{key}: {value}}}"
    return _MESSAGES.get(reason.kind, reason.kind)


def _select_victims(pod: PodInfo, node: NodeInfo) -> list[PodInfo] | None:
    """Of all pods with lower priority, those that can't stay; pods of higher priority, then older pods, are reprieved first."""
    lower = {uid: victim for uid, victim in node.pods.items() if victim.view.priority < pod.view.priority}
    remaining = node.without(lower)
    if not lower or filter_node(pod.demand, pod.counts, remaining) is not None:
        return None
    victims = []
    for victim in sorted(
        lower.values(), key=lambda candidate: (-candidate.view.priority, candidate.view.created, candidate.view.uid)
    ):
        remaining.add(victim)
        if filter_node(pod.demand, pod.counts, remaining) is not None:
            remaining.remove(victim.view.uid)
            victims.append(victim)
    return victims
