"""Open offers: the nodes that filter returned for pods that are not bound yet, so that the next pod avoids them.

An offer reserves nothing and never enters the ledger. It ends with the bind, with the pod, or at its deadline. Offers
that led to no bind are remembered longer: their nodes come last when the pod is retried.
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

__all__ = ["FailedOffers", "OfferBook", "OpenOffer", "node_with"]


@dataclass(frozen=True, slots=True)
class OpenOffer:
    """The nodes offered to one pod."""

    pod: str
    query: Query
    nodes: tuple[str, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class FailedOffers:
    """The nodes offered to a pod without a bind following, and the number of such rounds."""

    nodes: frozenset[str] = frozenset()
    rounds: int = 0


class OfferBook:
    """Open offers by pod and by node, and the failed offers of each pod."""

    def __init__(self) -> None:
        self._entries: dict[str, OpenOffer] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._offers = 0
        """number of pairs of a pod and a node"""
        self._attempts: dict[str, FailedOffers] = {}
        self._offered: dict[str, tuple[str, ...]] = {}
        """the last offer of each pod, kept beyond its deadline: if the pod is retried, it was not bound"""
        self.freed: dict[str, None] = {}
        """nodes whose offer to a pod ended: other pods may have been refused there because of it"""

    def put(self, entry: OpenOffer) -> None:
        """Record an offer."""
        self.remove(entry.pod)
        self._entries[entry.pod] = entry
        self._offered[entry.pod] = entry.nodes
        for node in dict.fromkeys(entry.nodes):
            self._by_node.setdefault(node, {})[entry.pod] = None
            self._offers += 1
            self.freed.pop(node, None)

    def remove(self, pod: str) -> OpenOffer | None:
        """End the offer of a pod that is bound, deleted or retried."""
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
        """End expired offers, and those that a clock set back would keep for longer than `longest`."""
        expired = [entry.pod for entry in self._entries.values() if not now < entry.expires <= now + longest]
        for pod in expired:
            self.remove(pod)

    def take_freed(self) -> list[str]:
        """The nodes whose offers ended since the last call."""
        freed, self.freed = self.freed, {}
        return list(freed)

    def next_expiry(self) -> float | None:
        """The earliest deadline."""
        return min((entry.expires for entry in self._entries.values()), default=None)

    def entries(self) -> list[OpenOffer]:
        """All open offers, the oldest first."""
        return list(self._entries.values())

    def shared(self, nodes: Iterable[str], pod: str) -> list[str]:
        """The nodes that are offered to pods other than `pod`."""
        offered = list(filter(self._by_node.__contains__, nodes))
        return [node for node in offered if self._by_node[node].keys() != {pod}] if pod in self._entries else offered

    def busy_but(self, pod: str, nodes: int) -> set[str]:
        """The nodes offered to more pods other than `pod` than the average of `nodes` nodes."""
        if pod not in self._entries and self._offers < nodes:
            return set(self._by_node)  # the average rounds down to 0
        counts = {node: len(pods) - (pod in pods) for node, pods in self._by_node.items()}
        average = sum(counts.values()) // max(1, nodes)
        return {node for node, count in counts.items() if count > average}

    def on(self, node: str, but: str = "") -> list[OpenOffer]:
        """The open offers of a node to pods other than `but`, the oldest first."""
        return [self._entries[pod] for pod in self._by_node.get(node, ()) if pod != but]

    def attempts(self, pod: str) -> FailedOffers:
        """The failed offers of a pod."""
        return self._attempts.get(pod, FailedOffers())

    def asks_again(self, pod: str) -> FailedOffers:
        """Count the last offer of a retried pod as failed, and return all that failed."""
        if pod in self._offered:
            self.failed(pod, self._offered.pop(pod))
        return self.attempts(pod)

    def failed(self, pod: str, nodes: Iterable[str]) -> None:
        """Record an offer that led to no bind."""
        known = self.attempts(pod)
        self._attempts[pod] = FailedOffers(known.nodes | set(nodes), known.rounds + 1)

    def bound(self, pod: str) -> None:
        """End the offer of a pod whose bind has started: it did not fail."""
        self.remove(pod)
        self._offered.pop(pod, None)

    def forget(self, pod: str) -> None:
        """Forget a pod that was observed as bound, or is gone, with its failed offers."""
        self.bound(pod)
        self._attempts.pop(pod, None)

    def all_attempts(self) -> dict[str, FailedOffers]:
        """The failed offers by pod, including pods with a last offer only."""
        pods = dict.fromkeys((*self._attempts, *self._offered))
        return {pod: self.attempts(pod) for pod in pods}

    def offered(self) -> dict[str, tuple[str, ...]]:
        """The last offer of each pod that is not bound."""
        return dict(self._offered)

    def restore(
        self,
        entries: Iterable[OpenOffer],
        attempts: Mapping[str, FailedOffers],
        offered: Mapping[str, tuple[str, ...]],
        freed: Iterable[str] = (),
    ) -> None:
        """Replace the content with that of a snapshot."""
        for pod in list(self._entries):
            self.remove(pod)
        for entry in entries:
            self.put(entry)
        self._attempts, self._offered = dict(attempts), dict(offered)
        self.freed = dict.fromkeys(freed)


def node_with(query: Query, node: Node | None) -> Node | None:
    """The node once the query is placed on it; None if it does not fit."""
    offer = query.policy.pick(query.ask, node) if node else None
    if node is None or not isinstance(offer, Offer):
        return None
    return node_after(node, offer, query.ask.namespace, query.ask.mode)
