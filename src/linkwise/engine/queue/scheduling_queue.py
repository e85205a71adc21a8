"""Scheduling queue: the pods that schedulers asked about, and the choice of those to wake when capacity is freed.

IN_FLIGHT      asked about, with no answer of its own open: its group answers for it, or its bind was begun or rejected
NOMINATED      offered nodes; while the offer is open, the ledger reserves devices of the first of them
UNSCHEDULABLE  no node fits; woken when one may, as soon as the pod is observed
WOKEN          unschedulable, woken for a node and not asked about since

One table has every allowed transition; a pod that is bound or deleted leaves the queue. As kube-scheduler's queue, it
waits for changes of the cluster and not for a time. Only the first pods in line that fit are woken, and no more. Bound:
pods with equal queries form one line, and only the head of each line is tried on a node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.index.node_index import Query  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer
from linkwise.model.views import PodView  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from linkwise.model.node import Node

    Turn = tuple[int, float, str]
    """sort key of the queue"""
    Serves = Callable[[Query, str], bool]
    """whether a node provides the resource of a query"""
    MayGo = Callable[[str, str], bool]
    """whether a pod fits a node for all reasons other than devices"""
    Kind = tuple[object, ...]

__all__ = ["MAX_UNOBSERVED", "TABLE", "UNOBSERVED_TIME", "QueuedPod", "SchedulingQueue", "State", "Transition"]

MAX_UNOBSERVED: Final = 10_000
"""pods that are kept though they were not observed"""
UNOBSERVED_TIME: Final = 90.0  # seconds
"""for which each is kept; a silent watch is restarted after a minute"""
MAX_TRIES: Final = 64
"""pods of one line that may fail on a node for reasons other than devices before the line is skipped there"""

State = Literal["IN_FLIGHT", "NOMINATED", "UNSCHEDULABLE", "WOKEN"]
Transition = Literal["offer", "refuse", "join", "assume", "reject", "wake", "lose node"]

TABLE: Final[Mapping[tuple[State | None, Transition], State]] = {
    # Filter: the answer replaces whatever was answered before.
    (None, "offer"): "NOMINATED",
    ("IN_FLIGHT", "offer"): "NOMINATED",
    ("NOMINATED", "offer"): "NOMINATED",
    ("UNSCHEDULABLE", "offer"): "NOMINATED",
    ("WOKEN", "offer"): "NOMINATED",
    (None, "refuse"): "UNSCHEDULABLE",
    ("IN_FLIGHT", "refuse"): "UNSCHEDULABLE",
    ("NOMINATED", "refuse"): "UNSCHEDULABLE",
    ("UNSCHEDULABLE", "refuse"): "UNSCHEDULABLE",
    ("WOKEN", "refuse"): "UNSCHEDULABLE",  # it passed on the node it was woken for
    (None, "join"): "IN_FLIGHT",  # its group answers for it, or it requests 0 devices
    ("IN_FLIGHT", "join"): "IN_FLIGHT",
    ("NOMINATED", "join"): "IN_FLIGHT",
    ("UNSCHEDULABLE", "join"): "IN_FLIGHT",
    ("WOKEN", "join"): "IN_FLIGHT",
    # Bind: a scheduler may bind a pod without asking before, or in spite of the answer.
    (None, "assume"): "IN_FLIGHT",
    ("IN_FLIGHT", "assume"): "IN_FLIGHT",
    ("NOMINATED", "assume"): "IN_FLIGHT",
    ("UNSCHEDULABLE", "assume"): "IN_FLIGHT",
    ("WOKEN", "assume"): "IN_FLIGHT",
    (None, "reject"): "IN_FLIGHT",
    ("IN_FLIGHT", "reject"): "IN_FLIGHT",
    ("NOMINATED", "reject"): "IN_FLIGHT",
    ("UNSCHEDULABLE", "reject"): "UNSCHEDULABLE",  # still refused: it waits as before
    ("WOKEN", "reject"): "WOKEN",
    # Changes of the cluster.
    ("UNSCHEDULABLE", "wake"): "WOKEN",
    ("WOKEN", "lose node"): "UNSCHEDULABLE",
}


_UNSCHEDULABLE: Final[tuple[State, ...]] = ("UNSCHEDULABLE", "WOKEN")


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod that a scheduler asked about, until it is observed as bound or deleted."""

    pod: PodView
    """as it asked: a bind names only its UID"""
    asked_at: float
    """time of the last question"""
    observed: bool = True
    """whether the watch has delivered it; a pod that the caller made up never is"""
    state: State | None = None
    """None until its first question is answered"""
    offered: tuple[str, ...] = ()
    """the nodes of the last offer, beyond its deadline too: if the pod asks again, it was not bound"""
    failed: frozenset[str] = frozenset()
    """nodes of offers and binds that failed"""
    rounds: int = 0
    """the number of those"""
    woken_for: str = ""
    """the node of a WOKEN pod"""
    passed: frozenset[str] = frozenset()
    """nodes that it was woken for and did not fit on; it is not woken for them again until they gain capacity"""
    query: Query | None = field(default=None, compare=False)
    """derived from the pod; None if it requests no devices, as some members of groups"""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid

    @property
    def unschedulable(self) -> bool:
        """Whether no node fitted when it was last asked about."""
        return self.state in _UNSCHEDULABLE

    @property
    def turn(self) -> Turn:
        """Queue order: by priority, then by age."""
        return (-self.pod.priority, self.pod.created, self.pod.uid)


class SchedulingQueue:
    """One record per pod, by UID; everything else is an index over the records.

    Args:
        shown: gets pods in the queue that the watch delivers for the first time, until they are observed.
        untaken: gets nodes that a pod was woken for and did not take; the caller empties it.
    """

    def __init__(self, shown: dict[str, None] | None = None, untaken: dict[str, None] | None = None) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._unobserved: dict[str, None] = {}
        """unobserved pods, by the time of their last question"""
        self._dropped: dict[str, None] = {}
        """UIDs of unobserved pods that were dropped, the earliest first: one that is observed after all is woken"""
        self._lines: dict[Kind, list[Turn]] = {}
        """unschedulable pods that are observed, by table key and in queue order"""
        self._unschedulable = 0
        """the number of those"""
        self._woken: dict[str, None] = {}
        self._passed: dict[str, set[str]] = {}
        """pods that passed on a node, by node"""
        self.shown: Final[dict[str, None]] = {} if shown is None else shown
        self.untaken: Final[dict[str, None]] = {} if untaken is None else untaken

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        """The pod's record."""
        return self._pods.get(uid)

    def pod(self, uid: str) -> PodView | None:
        """The pod as it asked."""
        queued = self._pods.get(uid)
        return queued.pod if queued else None

    def offer(self, queued: QueuedPod, nodes: Iterable[str]) -> None:
        """Filter named nodes to a pod."""
        self._answer("offer", queued, tuple(nodes))

    def refuse(self, queued: QueuedPod) -> None:
        """No node fits a pod: it is woken when one may."""
        self._answer("refuse", queued)

    def join(self, queued: QueuedPod) -> None:
        """A pod's group answered for it."""
        self._answer("join", queued)

    def leave_to_group(self, uid: str) -> None:
        """From now on a pod's group answers for it."""
        if queued := self._pods.get(uid):
            self._move(queued, "join")

    def retry(self, uid: str) -> None:
        """A pod asks again: its last offer led to no bind."""
        queued = self._pods.get(uid)
        if queued and queued.offered:
            failed = queued.failed.union(queued.offered)
            self._put(replace(queued, offered=(), failed=failed, rounds=queued.rounds + 1))

    def assume(self, queued: QueuedPod, node: str) -> None:
        """A bind of a pod has begun: its offer has not failed."""
        self._move(replace(self._pods.get(queued.uid, queued), offered=()), "assume", (node,))

    def reject(self, refused: QueuedPod, node: str) -> None:
        """A bind of a pod failed."""
        queued = self._pods.get(refused.uid, refused)
        failed = queued.failed | {node}
        self._move(replace(queued, offered=(), failed=failed, rounds=queued.rounds + 1), "reject")

    def show(self, uid: str) -> None:
        """The watch delivers a pod; what follows from that is derived later, by `observe`."""
        queued = self._pods.get(uid)
        if queued and not queued.observed:
            self.shown[uid] = None

    def observe(self, uid: str) -> None:
        """A pod that the watch delivered may be woken."""
        self.shown.pop(uid, None)
        queued = self._pods.get(uid)
        if queued:
            self._put(replace(queued, observed=True))

    def forget(self, uid: str) -> None:
        """Remove a pod that is bound or deleted."""
        self._dropped.pop(uid, None)
        queued = self._pods.pop(uid, None)
        if queued:
            self._leave(queued)
            self._untake(queued, ())
            self._unobserved.pop(uid, None)
            self.shown.pop(uid, None)

    def lose_node(self, node: str) -> None:
        """Remove a node: pods woken for it may be woken for another."""
        self._forget_passed(node)
        for uid in [uid for uid in self._woken if self._pods[uid].woken_for == node]:
            self._move(self._pods[uid], "lose node", (node,))

    def restore(
        self,
        pods: Iterable[QueuedPod],
        shown: Iterable[str] = (),
        untaken: Iterable[str] = (),
        dropped: Iterable[str] = (),
    ) -> None:
        """Replace the content with that of a snapshot."""
        for uid in list(self._pods):
            self.forget(uid)
        self._dropped = dict.fromkeys(dropped)
        for queued in sorted(pods, key=lambda queued: queued.asked_at):
            self._put(queued)
        self.shown.clear()
        self.untaken.clear()
        self.shown.update(dict.fromkeys(shown))
        self.untaken.update(dict.fromkeys(untaken))

    # unobserved pods

    def unobserved(self) -> list[QueuedPod]:
        """The pods that the watch has not delivered, by the time of their last question."""
        return [self._pods[uid] for uid in self._unobserved]

    def surplus(self, now: float, most: int = MAX_UNOBSERVED) -> list[str]:
        """Unobserved pods to forget: asked about too long ago, or the oldest of too many."""
        if not self._unobserved:
            return []
        last = self._pods[next(reversed(self._unobserved))]
        if last.asked_at > now:  # the clock was set back
            for queued in self.unobserved():
                self._pods[queued.uid] = replace(queued, asked_at=min(queued.asked_at, now))
        uids = list(self._unobserved) if self._is_over(now) or len(self._unobserved) > most else []
        many = len(uids) - most
        return [uid for n, uid in enumerate(uids) if n < many or self._pods[uid].asked_at + UNOBSERVED_TIME <= now]

    def drop(self, uid: str) -> None:
        """Remove an unobserved pod, and remember that it was asked about."""
        self.forget(uid)
        self._dropped[uid] = None
        if len(self._dropped) > MAX_UNOBSERVED:
            del self._dropped[next(iter(self._dropped))]

    @property
    def dropped(self) -> tuple[str, ...]:
        """The pods that were dropped and neither observed nor asked about since."""
        return tuple(self._dropped)

    def take_dropped(self, uid: str) -> bool:
        """Whether a pod that is observed was dropped before; it is not from now on."""
        return self._dropped.pop(uid, "") is None

    def prolong(self, uid: str, now: float) -> None:
        """Keep an unobserved pod for longer, because it is being bound."""
        self._put(replace(self._pods[uid], asked_at=now))

    def next_deadline(self) -> float | None:
        """When the next unobserved pod is to be forgotten."""
        first = next(iter(self._unobserved), None)
        return None if first is None else self._pods[first].asked_at + UNOBSERVED_TIME

    def _is_over(self, now: float) -> bool:
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now

    # unschedulable pods

    @property
    def waiting(self) -> int:
        """The number of unschedulable pods that are observed: only these are woken."""
        return self._unschedulable

    def unschedulable(self) -> list[QueuedPod]:
        """Those pods in queue order."""
        return [self._pods[uid] for _, _, uid in sorted(turn for line in self._lines.values() for turn in line)]

    def pods_to_wake(
        self, fresh: Iterable[Node], again: Iterable[Node], serves: Serves, may_go: MayGo
    ) -> list[tuple[QueuedPod, str]]:
        """The pods to wake for freed capacity, each with its node; a trial placement fills each node, no pod twice.

        `fresh` nodes gained capacity; `again` nodes have capacity that a woken pod did not take.
        """
        woken: list[tuple[QueuedPod, str]] = []
        for node in fresh if self._lines else ():
            self._forget_passed(node.name)
            woken += self._fill(node, serves, may_go)
        for node in again if self._lines else ():
            woken += self._fill(node, serves, may_go)
        return woken

    def take_untaken(self) -> list[str]:
        """The nodes that woken pods did not take since the last call."""
        untaken = list(self.untaken)
        self.untaken.clear()
        return untaken

    def _fill(self, node: Node, serves: Serves, may_go: MayGo) -> Iterator[tuple[QueuedPod, str]]:
        """Wake the first pods of all lines, in queue order, until none fits the node."""
        name, passed = node.name, self._passed.get(node.name, ())
        owners = {owner for use in node.used.values() for owner in use.domains}
        # Keys that do not fit. Sharing domains without a device on the node are equal to it, so that one try serves all.
        unfit: set[Kind] = set()
        heads = [(line[0], kind, 0, MAX_TRIES) for kind, line in self._lines.items()]
        heapify(heads)
        while heads:
            (_, _, uid), kind, place, tries = heads[0]
            queued, line = self._pods[uid], self._lines[kind]
            if queued.query and uid not in self._woken and uid not in passed:
                query = queued.query
                key = query.table_key(any_domain=query.ask.domain not in owners)
                after = _node_with(query, node) if key not in unfit and serves(query, name) else None
                if after is None or not tries:
                    unfit |= {key} if after is None else set()
                    heappop(heads)
                    continue
                if may_go(uid, name):  # otherwise the capacity stays for the pods behind it
                    node = after
                    owners.add(query.ask.domain)
                    # Its place in line stays the same, so that no index but this changes.
                    self._pods[uid] = replace(queued, state=TABLE[queued.state, "wake"], woken_for=name)
                    self._woken[uid] = None
                    yield queued, name
                else:
                    tries -= 1
            if place + 1 < len(line):
                heapreplace(heads, (line[place + 1], kind, place + 1, tries))
            else:
                heappop(heads)

    # transitions

    def _answer(self, transition: Transition, queued: QueuedPod, offered: tuple[str, ...] | None = None) -> None:
        """Record an answer of filter to a pod, which may have asked before."""
        known = self._pods.get(queued.uid, queued)
        passed = known.passed | {known.woken_for} if transition == "refuse" and known.woken_for else known.passed
        self._untake(known, offered or ())
        self._put(
            QueuedPod(
                queued.pod,
                queued.asked_at,
                queued.observed,
                TABLE[known.state, transition],
                known.offered if offered is None else offered,
                known.failed,
                known.rounds,
                passed=passed,
                query=queued.query,
            )
        )

    def _move(self, queued: QueuedPod, transition: Transition, taken: Collection[str] = ()) -> None:
        """Set a record after a transition; a node that the pod was woken for and that is not in `taken` is untaken."""
        state = TABLE[queued.state, transition]
        if state == "WOKEN":
            self._put(replace(queued, state=state))
            return
        self._untake(queued, taken)
        self._put(replace(queued, state=state, woken_for=""))

    def _untake(self, queued: QueuedPod, taken: Collection[str]) -> None:
        if queued.woken_for and queued.woken_for not in taken:
            self.untaken[queued.woken_for] = None

    # indexes

    def _put(self, queued: QueuedPod) -> None:
        """Set a record, and bring the indexes up to date."""
        uid, known = queued.uid, self._pods.get(queued.uid)
        self._pods[uid] = queued
        self._dropped.pop(uid, None)
        if queued.observed or known is None or known.asked_at != queued.asked_at:
            self._unobserved.pop(uid, None)
        if not queued.observed:
            self._unobserved[uid] = None
        if known:
            self._leave(known)
        if queued.observed and queued.unschedulable and queued.query:
            insort(self._lines.setdefault(queued.query.table_key(), []), queued.turn)
            self._unschedulable += 1
        if queued.state == "WOKEN":
            self._woken[uid] = None
        for node in queued.passed:
            self._passed.setdefault(node, set()).add(uid)

    def _leave(self, queued: QueuedPod) -> None:
        """Take a record out of the indexes of unschedulable pods."""
        if queued.observed and queued.unschedulable and queued.query:
            kind = queued.query.table_key()
            line = self._lines[kind]
            del line[bisect_left(line, queued.turn)]
            self._unschedulable -= 1
            if not line:
                del self._lines[kind]
        self._woken.pop(queued.uid, None)
        for node in queued.passed:
            pods = self._passed[node]
            pods.discard(queued.uid)
            if not pods:
                del self._passed[node]

    def _forget_passed(self, node: str) -> None:
        """Pods that passed on a node may be woken for it again."""
        for uid in self._passed.pop(node, ()):
            queued = self._pods[uid]
            self._pods[uid] = replace(queued, passed=queued.passed - {node})


def _node_with(query: Query, node: Node | None) -> Node | None:
    """The node once the query is placed on it; None if it does not fit."""
    offer = query.pick(node) if node else None
    if node is None or not isinstance(offer, Offer):
        return None
    return node_after(node, offer, query.ask.domain, query.ask.mode)
