"""Contention: whether open offers already claim the rest of a node, so that another pod must be refused there.

Whole devices are only counted. Their layout is checked at bind time, and offering a node too many does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.queue.offers import node_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.queue.offers import OpenOffer
    from linkwise.model.node import Node

    NodeNamed = Callable[[str], Node | None]
    Idle = Callable[[str], int]
    """the number of whole devices of a node that can be allocated"""
    Left = int | Node
    """the rest of a node: a number of whole devices, or its devices with their usage"""

__all__ = ["Contention", "is_contended"]

STEPS: Final = 1024
"""trial placements per filter call; beyond them no pod is refused because of others"""
SHARE_STEPS: Final = 16
"""cost of a trial placement of a share, for which the policy has to pick a device"""
DEEPEST: Final = 128
"""open offers of a node that are tried; further ones are ignored"""


def is_contended(node: Node, query: Query, others: Sequence[OpenOffer], node_named: NodeNamed) -> bool:
    """Whether open offers claim so much of this one node that a query must be refused there."""
    return Contention(query, node_named).needs(node.name, others)


class Contention:
    """Contention check of one query, node by node; `idle` is passed by callers that have the counts already."""

    def __init__(self, query: Query, node_named: NodeNamed, idle: Idle | None = None) -> None:
        self._query = query
        self._node_named = node_named
        self._idle = idle or (lambda name: _idle(node_named(name)))
        self._steps = STEPS

    def needs(self, name: str, others: Sequence[OpenOffer]) -> bool:
        """Whether the query on this node would leave one of the others without any of the nodes it was offered."""
        if self._steps <= 0:
            return False
        trial = _TrialPlacement(self._node_named, self._idle, self._steps)
        after = trial.after(self._query, name)
        if after is None:
            return True
        left = after if isinstance(after, int) else _idle(after)
        all_fit = left >= sum(max(1, pod.query.ask.devices) for pod in others)  # the cheap check first
        all_fit = all_fit or trial.place(others[:DEEPEST], {name: after})
        self._steps = trial.steps
        return not all_fit


class _TrialPlacement:
    """Places pods on the nodes they were offered by backtracking, without any effect."""

    def __init__(self, node_named: NodeNamed, idle: Idle, steps: int) -> None:
        self._node_named = node_named
        self._idle = idle
        self._now: dict[str, Left] = {}
        self.steps = steps

    def place(self, pods: Sequence[OpenOffer], now: dict[str, Left]) -> bool:
        """Whether all pods fit, given the rest of some nodes; also true if the steps are exhausted."""
        self._now = now
        return self._place(pods, 0)

    def after(self, query: Query, name: str) -> Left | None:
        """The rest of a node once the query is served; None if it does not fit."""
        devices, now = query.ask.devices, self._now.get(name)
        self.steps -= 1 if devices else SHARE_STEPS
        if devices:
            idle = now if isinstance(now, int) else self._idle(name) if now is None else _idle(now)
            return idle - devices if idle >= devices else None
        return node_with(query, self._node_named(name) if now is None or isinstance(now, int) else now)

    def _place(self, pods: Sequence[OpenOffer], start: int) -> bool:
        if start == len(pods):
            return True
        first = pods[start]
        for name in first.nodes:
            if self.steps <= 0:
                return True
            before, after = self._now.get(name), self.after(first.query, name)
            if after is None:
                continue
            self._now[name] = after
            if self._place(pods, start + 1):
                return True
            del self._now[name]
            if before is not None:
                self._now[name] = before
        return False


def _idle(node: Node | None) -> int:
    if node is None:
        return 0
    return len(node.free()) - node.unattributed - (node.unattributed_share > 0) * len(node.devices)
