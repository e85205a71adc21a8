"""Pods that no node could serve, and which of them to wake when room appears: the oldest that fit, and no more."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final

from linkwise.engine.queue.offers import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node

    Serves = Callable[[Query, str], bool]
    """whether what a node has can be asked for in these words"""
    MayGo = Callable[[str, str], bool]
    """whether nothing beside devices keeps a pod off a node"""
    Kind = tuple[object, ...]
    Turn = tuple[int, float, str]

__all__ = ["UnschedulablePod", "UnschedulablePods", "more_room"]

TRIED: Final = 64
"""pods of one kind that other things keep off a node, after which nobody of that kind is tried there"""


@dataclass(frozen=True, slots=True)
class UnschedulablePod:
    """A pod that was told that nothing fits."""

    pod: str
    namespace: str
    name: str
    created: float
    priority: int
    wanted: Query

    @property
    def turn(self) -> Turn:
        """Its place in the line: by priority, then age."""
        return (-self.priority, self.created, self.pod)


class UnschedulablePods:
    """Refused pods; who asks again and is answered is no longer one of them.

    Pods of one kind want the same, so that of each kind only the first in line has to be tried on a node.
    """

    def __init__(self) -> None:
        self._refused: dict[str, UnschedulablePod] = {}
        self._woken: dict[str, str] = {}
        """pods that were woken and did not ask again yet, each with the node that had room for it"""
        self._passed: dict[str, set[str]] = {}
        """pods that were woken for room on a node and refused all the same: that room is for others"""
        self.freed: dict[str, None] = {}
        """nodes with room that somebody was woken for and did not take"""
        self._lines: dict[Kind, list[Turn]] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def put(self, refused: UnschedulablePod) -> None:
        """The pod was told that nothing fits."""
        node = self._woken.get(refused.pod)
        if node is not None:
            self._passed.setdefault(node, set()).add(refused.pod)
        self.remove(refused.pod)
        self._refused[refused.pod] = refused
        insort(self._lines.setdefault(refused.wanted.table_key(), []), refused.turn)

    def remove(self, pod: str, taken: Collection[str] = ()) -> None:
        """The pod was answered, bound, or is gone; room that it was woken for and does not take is for others."""
        node = self._woken.pop(pod, None)
        if node is not None and node not in taken:
            self.freed[node] = None
        refused = self._refused.pop(pod, None)
        if refused:
            kind = refused.wanted.table_key()
            line = self._lines[kind]
            del line[bisect_left(line, refused.turn)]
            if not line:
                del self._lines[kind]
        if not self._refused:
            self._passed.clear()

    def lose_node(self, node: str) -> None:
        """The node is gone: who was woken for it, or passed by it, may be woken for any other."""
        self._passed.pop(node, None)
        self._woken = {pod: there for pod, there in self._woken.items() if there != node}

    def pods(self) -> list[UnschedulablePod]:
        """All of them, in the order in which they may be woken."""
        return sorted(self._refused.values(), key=lambda refused: refused.turn)

    def pods_to_wake(
        self, fresh: Iterable[Node], again: Iterable[Node], serves: Serves, may_go: MayGo
    ) -> list[tuple[UnschedulablePod, str]]:
        """Whom room on these nodes would serve, with the node; each node is filled up in thought, nobody woken twice.

        On `fresh` nodes there is more room than before; on those offered `again` somebody did not take it.
        """
        before = dict(self._woken)
        for node in fresh if self._refused else ():
            self._passed.pop(node.name, None)
            self._fill(node, serves, may_go)
        for node in again if self._refused else ():
            self._fill(node, serves, may_go)
        return [(self._refused[pod], node) for pod, node in self._woken.items() if pod not in before]

    def take_freed(self) -> list[str]:
        """What was freed since this was last asked."""
        freed, self.freed = self.freed, {}
        return list(freed)

    def remembered(self) -> tuple[dict[str, str], dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Who was woken for which node, who passed by it, and which nodes are to be offered again; for a snapshot."""
        passed = {node: tuple(sorted(pods)) for node, pods in sorted(self._passed.items())}
        return dict(self._woken), passed, tuple(self.freed)

    def restore(self, woken: Mapping[str, str], passed: Mapping[str, Iterable[str]], freed: Iterable[str]) -> None:
        """Become what a snapshot holds; the pods are put first."""
        self._woken, self.freed = dict(woken), dict.fromkeys(freed)
        self._passed = {node: set(pods) for node, pods in passed.items()}

    def _fill(self, node: Node, serves: Serves, may_go: MayGo) -> None:
        """Wake the first in line of all kinds that fit, until none does."""
        passed = self._passed.get(node.name, ())
        owners = {name for use in node.used.values() for name in use.namespaces}
        vain: set[Kind] = set()  # kinds are as many as namespaces that want parts, and to a node most are strangers
        heads = [(line[0], kind, 0, TRIED) for kind, line in self._lines.items()]
        heapify(heads)
        while heads:
            (_, _, pod), kind, place, tries = heads[0]
            refused, line = self._refused[pod], self._lines[kind]
            if pod not in self._woken and pod not in passed:
                wanted = refused.wanted
                alike = wanted.table_key(stranger=wanted.ask.namespace not in owners)
                after = placed(wanted, node) if alike not in vain and serves(wanted, node.name) else None
                if after is None or not tries:
                    vain |= {alike} if after is None else set()
                    heappop(heads)
                    continue
                if may_go(pod, node.name):  # else it must not keep the room from those behind it
                    node = after
                    owners.add(wanted.ask.namespace)
                    self._woken[pod] = node.name
                else:
                    tries -= 1
            if place + 1 < len(line):
                heapreplace(heads, (line[place + 1], kind, place + 1, tries))
            else:
                heappop(heads)


def _only_more_is_used(before: Node, after: Node) -> bool:
    """Whether devices are used as they were, and perhaps some others as well: told quickly, as it is after every bind."""
    if before.devices is not after.devices or after.unattributed_share < before.unattributed_share:
        return False
    return all(after.used.get(device) == use for device, use in before.used.items())


def more_room(before: Node | None, after: Node) -> bool:
    """Whether something can be had of a node that could not be had before."""
    if before is None:
        return bool(after.devices)
    if after.unattributed < before.unattributed or after.mode != before.mode:
        return True
    if _only_more_is_used(before, after):
        return False
    rooms, healthy = before.room(), after.healthy()
    if any(rooms.get(device, -1) < room for device, room in after.room().items()):
        return True
    if any(not before.use(device).namespaces <= after.use(device).namespaces for device in healthy):
        return True  # those who are left may be others' neighbours
    return not {device.id for device in after.free()} <= {device.id for device in before.free()}
