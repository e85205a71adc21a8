"""Unschedulable pods, and the choice of those to wake when capacity is freed: the first in line that fit, and no more.

Bound: pods with equal queries form one line, and only the head of each line is tried on a node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final

from linkwise.engine.queue.offers import node_with

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node

    Serves = Callable[[Query, str], bool]
    """whether a node provides the resource of a query"""
    MayGo = Callable[[str, str], bool]
    """whether a pod fits a node for all reasons other than devices"""
    Kind = tuple[object, ...]
    Turn = tuple[int, float, str]
    """sort key of the queue"""

__all__ = ["UnschedulablePod", "UnschedulablePods", "gained_capacity"]

MAX_TRIES: Final = 64
"""pods of one line that may fail on a node for reasons other than devices before the line is skipped there"""


@dataclass(frozen=True, slots=True)
class UnschedulablePod:
    """A pod that no node fits."""

    pod: str
    namespace: str
    name: str
    created: float
    priority: int
    query: Query

    @property
    def turn(self) -> Turn:
        """Queue order: by priority, then by age."""
        return (-self.priority, self.created, self.pod)


class UnschedulablePods:
    """The unschedulable pods, in one line per table key; a pod leaves when it is offered a node."""

    def __init__(self) -> None:
        self._refused: dict[str, UnschedulablePod] = {}
        self._woken: dict[str, str] = {}
        """woken pods that were not retried yet, each with the node it was woken for"""
        self._passed: dict[str, set[str]] = {}
        """pods woken for a node and refused again; not woken for it a second time"""
        self.freed: dict[str, None] = {}
        """nodes that a pod was woken for and did not take"""
        self._lines: dict[Kind, list[Turn]] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def put(self, refused: UnschedulablePod) -> None:
        """Add a pod that no node fits."""
        node = self._woken.get(refused.pod)
        if node is not None:
            self._passed.setdefault(node, set()).add(refused.pod)
        self.remove(refused.pod)
        self._refused[refused.pod] = refused
        insort(self._lines.setdefault(refused.query.table_key(), []), refused.turn)

    def remove(self, pod: str, taken: Collection[str] = ()) -> None:
        """Remove a pod that was offered nodes, bound or deleted; a node it was woken for and not offered is freed."""
        node = self._woken.pop(pod, None)
        if node is not None and node not in taken:
            self.freed[node] = None
        refused = self._refused.pop(pod, None)
        if refused:
            kind = refused.query.table_key()
            line = self._lines[kind]
            del line[bisect_left(line, refused.turn)]
            if not line:
                del self._lines[kind]
        if not self._refused:
            self._passed.clear()

    def lose_node(self, node: str) -> None:
        """Remove a node: pods woken for it may be woken for another."""
        self._passed.pop(node, None)
        self._woken = {pod: name for pod, name in self._woken.items() if name != node}

    def pods(self) -> list[UnschedulablePod]:
        """All unschedulable pods, in queue order."""
        return sorted(self._refused.values(), key=lambda refused: refused.turn)

    def pods_to_wake(
        self, fresh: Iterable[Node], again: Iterable[Node], serves: Serves, may_go: MayGo
    ) -> list[tuple[UnschedulablePod, str]]:
        """The pods to wake for freed capacity, each with its node; a trial placement fills each node, no pod twice.

        `fresh` nodes gained capacity; `again` nodes have capacity that a woken pod did not take.
        """
        before = dict(self._woken)
        for node in fresh if self._refused else ():
            self._passed.pop(node.name, None)
            self._fill(node, serves, may_go)
        for node in again if self._refused else ():
            self._fill(node, serves, may_go)
        return [(self._refused[pod], node) for pod, node in self._woken.items() if pod not in before]

    def take_freed(self) -> list[str]:
        """The nodes freed since the last call."""
        freed, self.freed = self.freed, {}
        return list(freed)

    def remembered(self) -> tuple[dict[str, str], dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Woken pods, pods that passed on a node, and freed nodes, for a snapshot."""
        passed = {node: tuple(sorted(pods)) for node, pods in sorted(self._passed.items())}
        return dict(self._woken), passed, tuple(self.freed)

    def restore(self, woken: Mapping[str, str], passed: Mapping[str, Iterable[str]], freed: Iterable[str]) -> None:
        """Replace the wake-up state with that of a snapshot, after its pods were put."""
        self._woken, self.freed = dict(woken), dict.fromkeys(freed)
        self._passed = {node: set(pods) for node, pods in passed.items()}

    def _fill(self, node: Node, serves: Serves, may_go: MayGo) -> None:
        """Wake the first pods of all lines, in queue order, until none fits the node."""
        passed = self._passed.get(node.name, ())
        owners = {name for use in node.used.values() for name in use.namespaces}
        # Keys that do not fit. Namespaces without a device on the node are equal to it, so that one try serves all.
        unfit: set[Kind] = set()
        heads = [(line[0], kind, 0, MAX_TRIES) for kind, line in self._lines.items()]
        heapify(heads)
        while heads:
            (_, _, pod), kind, place, tries = heads[0]
            refused, line = self._refused[pod], self._lines[kind]
            if pod not in self._woken and pod not in passed:
                query = refused.query
                key = query.table_key(any_namespace=query.ask.namespace not in owners)
                after = node_with(query, node) if key not in unfit and serves(query, node.name) else None
                if after is None or not tries:
                    unfit |= {key} if after is None else set()
                    heappop(heads)
                    continue
                if may_go(pod, node.name):  # otherwise the capacity stays for the pods behind it
                    node = after
                    owners.add(query.ask.namespace)
                    self._woken[pod] = node.name
                else:
                    tries -= 1
            if place + 1 < len(line):
                heapreplace(heads, (line[place + 1], kind, place + 1, tries))
            else:
                heappop(heads)


def _only_more_is_used(before: Node, after: Node) -> bool:
    """Whether `after` differs by additional usage only, as after every bind: the cheap check."""
    if before.devices is not after.devices or after.unattributed_share < before.unattributed_share:
        return False
    return all(after.used.get(device) == use for device, use in before.used.items())


def gained_capacity(before: Node | None, after: Node) -> bool:
    """Whether a node can serve something now that it could not serve before."""
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
        return True  # a namespace left the device: others may share it now
    return not {device.id for device in after.free()} <= {device.id for device in before.free()}
