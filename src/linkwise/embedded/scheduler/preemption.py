"""Preemption: the victims on each candidate node, and the candidate with the lowest cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.scheduler.fit import filter_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.nodes import NodeCache, NodeInfo, PodInfo

__all__ = ["find_candidates", "select_candidate"]


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
