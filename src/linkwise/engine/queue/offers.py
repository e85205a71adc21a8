"""Pods that were offered nodes and are not bound yet, so that the next pod does not walk into the same set.

A pending entry is no promise and never enters the ledger. It ends with the bind, with the pod, or after a while. What a
pod was offered without a bind following is remembered longer: those nodes come last when it asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node

__all__ = ["FailedOffers", "OfferBook", "OpenOffer", "placed"]


@dataclass(frozen=True, slots=True)
class OpenOffer:
    """One pod's offers."""

    pod: str
    wanted: Query
    nodes: tuple[str, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class FailedOffers:
    """Nodes that a pod was offered without a bind following, and how often it asked."""

    nodes: frozenset[str] = frozenset()
    rounds: int = 0


class OfferBook:
    """Entries by pod, and the pods by node."""

    def __init__(self) -> None:
        self._entries: dict[str, OpenOffer] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._offers = 0
        """pods on all nodes together"""
        self._attempts: dict[str, FailedOffers] = {}
        self._offered: dict[str, tuple[str, ...]] = {}
        """the last offer of each pod, kept when its entry is over: a pod that asks again was not bound"""
        self.freed: dict[str, None] = {}
        """nodes that some pod no longer needs: others were refused there for its sake"""

    def put(self, entry: OpenOffer) -> None:
        """A pod was offered nodes."""
        self.remove(entry.pod)
        self._entries[entry.pod] = entry
        self._offered[entry.pod] = entry.nodes
        for node in dict.fromkeys(entry.nodes):
            self._by_node.setdefault(node, {})[entry.pod] = None
            self._offers += 1
            self.freed.pop(node, None)

    def remove(self, pod: str) -> OpenOffer | None:
        """The pod is bound, gone, or asks again."""
        entry = self._entries.pop(pod, None)
        for node in dict.fromkeys(entry.nodes) if entry else ():
            self.freed[node] = None
            pods = self._by_node[node]
            del pods[pod]
            self._offers -= 1
            if not pods:
                del self._by_node[node]
        return entry

    def expire(self, now: float, longest: float) -> None:
        """Remove those whose time is over, and those that a clock set back would keep for longer than any may last."""
        over = [entry.pod for entry in self._entries.values() if not now < entry.expires <= now + longest]
        for pod in over:
            self.remove(pod)

    def take_freed(self) -> list[str]:
        """What was freed since this was last asked."""
        freed, self.freed = self.freed, {}
        return list(freed)

    def next_expiry(self) -> float | None:
        """When the next one ends."""
        return min((entry.expires for entry in self._entries.values()), default=None)

    def entries(self) -> list[OpenOffer]:
        """All of them, the oldest first."""
        return list(self._entries.values())

    def shared(self, nodes: Iterable[str], pod: str) -> list[str]:
        """Those of the nodes that were offered to other pods."""
        found = list(filter(self._by_node.__contains__, nodes))
        return [node for node in found if self._by_node[node].keys() != {pod}] if pod in self._entries else found

    def busy_but(self, pod: str, nodes: int) -> set[str]:
        """Nodes that were offered to other pods, and to more of them than so many nodes are on the average."""
        if pod not in self._entries and self._offers < nodes:
            return set(self._by_node)  # the average is none
        counts = {node: len(pods) - (pod in pods) for node, pods in self._by_node.items()}
        average = sum(counts.values()) // max(1, nodes)
        return {node for node, count in counts.items() if count > average}

    def on(self, node: str, but: str = "") -> list[OpenOffer]:
        """The other pods that were offered the node, the first to be offered first."""
        return [self._entries[pod] for pod in self._by_node.get(node, ()) if pod != but]

    def attempts(self, pod: str) -> FailedOffers:
        """What the pod was offered in vain."""
        return self._attempts.get(pod, FailedOffers())

    def asks_again(self, pod: str) -> FailedOffers:
        """The pod asks: what it was offered before and not bound to has failed."""
        if pod in self._offered:
            self.failed(pod, self._offered.pop(pod))
        return self.attempts(pod)

    def failed(self, pod: str, nodes: Iterable[str]) -> None:
        """The pod was offered these nodes in vain."""
        known = self.attempts(pod)
        self._attempts[pod] = FailedOffers(known.nodes | set(nodes), known.rounds + 1)

    def bound(self, pod: str) -> None:
        """A bind is under way: the offer did not fail."""
        self.remove(pod)
        self._offered.pop(pod, None)

    def forget(self, pod: str) -> None:
        """The pod is seen bound, or gone: what was offered in vain no longer counts."""
        self.bound(pod)
        self._attempts.pop(pod, None)

    def all_attempts(self) -> dict[str, FailedOffers]:
        """By pod, the last offers included."""
        pods = dict.fromkeys((*self._attempts, *self._offered))
        return {pod: self.attempts(pod) for pod in pods}

    def offered(self) -> dict[str, tuple[str, ...]]:
        """The last offer of each pod that was not bound yet."""
        return dict(self._offered)

    def restore(
        self,
        entries: Iterable[OpenOffer],
        attempts: Mapping[str, FailedOffers],
        offered: Mapping[str, tuple[str, ...]],
        freed: Iterable[str] = (),
    ) -> None:
        """Become what a snapshot holds."""
        for pod in list(self._entries):
            self.remove(pod)
        for entry in entries:
            self.put(entry)
        self._attempts, self._offered = dict(attempts), dict(offered)
        self.freed = dict.fromkeys(freed)


def placed(wanted: Query, node: Node | None) -> Node | None:
    """The node after the ask was placed on it; None if it does not fit."""
    offer = wanted.policy.pick(wanted.ask, node) if node else None
    if node is None or not isinstance(offer, Offer):
        return None
    return node_after(node, offer, wanted.ask.namespace, wanted.ask.mode)
