"""Seed 003's table for Ascend 910 nodes: states, their order, and nodes in such a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support.e2e.node_objects import ascend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.e2e.volcano_placing import VolcanoPlacing

__all__ = ["GROUPS", "STATES", "elsewhere", "idle", "make", "rank"]

GROUPS: Final = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}
"""by the size of a request, how many chips the chosen ring should have idle, the best first: groups A to D"""
STATES: Final = {f"n{left}{right}": (left, right) for left in range(5) for right in range(left + 1)}
"""every state of a node but for swapped rings: idle chips of both rings"""


def idle(left: int, right: int) -> set[int]:
    """Chips of a node with so many idle in each ring."""
    return {*range(left), *range(4, 4 + right)}


def rank(state: tuple[int, int], size: int) -> tuple[int, int] | None:
    """Group and idle chips of the other ring, the smaller the better; None if the request does not fit."""
    if size == 8:
        return (0, 0) if state == (4, 4) else None
    fits = [(GROUPS[size].index(one), other) for one, other in (state, state[::-1]) if one in GROUPS[size]]
    return min(fits) if fits else None


def elsewhere(names: Iterable[str]) -> dict[str, Any]:
    """Fields of a pod whose node affinity leaves out these nodes."""
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": sorted(names)}
    term = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}}
        if rule["values"]
        else {}
    )


def make(volcano: VolcanoPlacing, free: Mapping[str, set[int]], unhealthy: Mapping[str, set[int]] | None = None) -> str:
    """Nodes with these chips idle, all others in use by pods of a namespace, or faulty; the namespace."""
    bad = unhealthy or {}
    volcano.nodes(*(thing for name in free for thing in ascend(name, unhealthy=bad.get(name, ()))))
    return volcano.idle(free, bad)
