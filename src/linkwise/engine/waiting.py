"""Pods that no node could serve, and which of them to wake when room appears: the oldest that fit, and no more."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from linkwise.engine.pending import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.engine.index import Wanted
    from linkwise.model.node import Node

    Serves = Callable[[Wanted, str], bool]
    """whether what a node has can be asked for in these words"""
    MayGo = Callable[[str, str], bool]
    """whether nothing beside devices keeps a pod off a node"""
    Kind = tuple[object, ...]
    Turn = tuple[int, float, str]

__all__ = ["Refused", "Waiting", "more_room"]


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that was told that nothing fits."""

    pod: str
    namespace: str
    name: str
    created: float
    priority: int
    wanted: Wanted

    @property
    def turn(self) -> Turn:
        """Its place in the line: by priority, then age."""
        return (-self.priority, self.created, self.pod)


class Waiting:
    """Refused pods; who asks again and is answered is no longer one of them.

    Pods of one kind want the same, so that of each kind only the first in line has to be tried on a node.
    """

    def __init__(self) -> None:
        self._refused: dict[str, Refused] = {}
        self._lines: dict[Kind, list[Turn]] = {}

    def put(self, refused: Refused) -> None:
        """The pod was told that nothing fits."""
        self.remove(refused.pod)
        self._refused[refused.pod] = refused
        insort(self._lines.setdefault(refused.wanted.kind(), []), refused.turn)

    def remove(self, pod: str) -> None:
        """The pod was answered, bound, or is gone."""
        refused = self._refused.pop(pod, None)
        if refused:
            kind = refused.wanted.kind()
            self._lines[kind].remove(refused.turn)
            if not self._lines[kind]:
                del self._lines[kind]

    def pods(self) -> list[Refused]:
        """All of them, in the order in which they may be woken."""
        return sorted(self._refused.values(), key=lambda refused: refused.turn)

    def woken_by(self, nodes: Iterable[Node], serves: Serves, may_go: MayGo) -> list[tuple[Refused, str]]:
        """Whom room on these nodes would serve, with the node; each node is filled up in thought, nobody woken twice."""
        woken: dict[str, tuple[Refused, str]] = {}
        for node in nodes if self._refused else ():
            self._fill(node, serves, may_go, woken)
        return list(woken.values())

    def _fill(self, node: Node, serves: Serves, may_go: MayGo, woken: dict[str, tuple[Refused, str]]) -> None:
        """Wake the first in line of all kinds that fit, until none does."""
        heads = [(line[0], kind, 0) for kind, line in self._lines.items()]
        heapify(heads)
        while heads:
            (_, _, pod), kind, place = heads[0]
            refused, line = self._refused[pod], self._lines[kind]
            if pod not in woken:
                after = placed(refused.wanted, node) if serves(refused.wanted, node.name) else None
                if after is None:
                    heappop(heads)
                    continue
                if may_go(pod, node.name):  # else it must not keep the room from those behind it
                    node = after
                    woken[pod] = (refused, node.name)
            if place + 1 < len(line):
                heapreplace(heads, (line[place + 1], kind, place + 1))
            else:
                heappop(heads)


def more_room(before: Node | None, after: Node) -> bool:
    """Whether something can be had of a node that could not be had before."""
    if before is None:
        return bool(after.devices)
    if after.unattributed < before.unattributed or after.mode != before.mode:
        return True
    rooms, healthy = before.room(), after.healthy()
    if any(rooms.get(device, -1) < room for device, room in after.room().items()):
        return True
    if any(not before.use(device).namespaces <= after.use(device).namespaces for device in healthy):
        return True  # those who are left may be others' neighbours
    return not {device.id for device in after.free()} <= {device.id for device in before.free()}
