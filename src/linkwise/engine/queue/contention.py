"""Whether pods that were offered a node need it so much that the next one must be refused there.

Whole devices are only counted: which of them lie together is for the bind to find out, and a node more that is offered
does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.queue.offers import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.queue.offers import OpenOffer
    from linkwise.model.node import Node

    NodeNamed = Callable[[str], Node | None]
    Idle = Callable[[str], int]
    """how many whole devices of a node can be handed out"""
    Left = int | Node
    """of a node: how many whole devices, or what there is of each of them"""

__all__ = ["Contention", "is_contended"]

STEPS: Final = 1024
"""of placing pods in thought for one filter; past them nobody is refused for others' sake"""
PART: Final = 16
"""steps that placing a part of a device takes: its device has to be picked"""
DEEPEST: Final = 128
"""pods of one node that are placed in thought; among more of them the first speak for all"""


def is_contended(node: Node, wanted: Query, others: Sequence[OpenOffer], node_named: NodeNamed) -> bool:
    """Whether pending pods need this one node so much that an ask must be refused there."""
    return Contention(wanted, node_named).needs(node.name, others)


class Contention:
    """Answers for one ask, about one node after the other; whoever has counted idle devices already brings them."""

    def __init__(self, wanted: Query, node_named: NodeNamed, idle: Idle | None = None) -> None:
        self._wanted = wanted
        self._node_named = node_named
        self._idle = idle or (lambda name: _idle(node_named(name)))
        self._steps = STEPS

    def needs(self, name: str, others: Sequence[OpenOffer]) -> bool:
        """Whether not all of the others find a place beside the ask: on this node, or on others that they were offered."""
        if self._steps <= 0:
            return False
        beside = _Beside(self._node_named, self._idle, self._steps)
        after = beside.after(self._wanted, name)
        if after is None:
            return True
        left = after if isinstance(after, int) else _idle(after)
        found = left >= sum(max(1, pod.wanted.ask.devices) for pod in others)  # told quickly
        found = found or beside.place(others[:DEEPEST], {name: after})
        self._steps = beside.steps
        return not found


class _Beside:
    """Places pods on the nodes that they were offered, in thought."""

    def __init__(self, node_named: NodeNamed, idle: Idle, steps: int) -> None:
        self._node_named = node_named
        self._idle = idle
        self._now: dict[str, Left] = {}
        self.steps = steps

    def place(self, pods: Sequence[OpenOffer], now: dict[str, Left]) -> bool:
        """Whether all find a place where so much is left; true as well where that takes too long to find out."""
        self._now = now
        return self._place(pods, 0)

    def after(self, wanted: Query, name: str) -> Left | None:
        """What is left of a node when the ask is served; None if there is too little."""
        devices, now = wanted.ask.devices, self._now.get(name)
        self.steps -= 1 if devices else PART
        if devices:
            there = now if isinstance(now, int) else self._idle(name) if now is None else _idle(now)
            return there - devices if there >= devices else None
        return placed(wanted, self._node_named(name) if now is None or isinstance(now, int) else now)

    def _place(self, pods: Sequence[OpenOffer], start: int) -> bool:
        if start == len(pods):
            return True
        first = pods[start]
        for name in first.nodes:
            if self.steps <= 0:
                return True
            before, after = self._now.get(name), self.after(first.wanted, name)
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
