"""Queued pod: everything that is remembered of a pod between a scheduler's first question and its end on a node.

IN_FLIGHT      asked about, with no answer of its own open: its group answers for it, or its bind was begun or rejected
NOMINATED      offered nodes; while the offer is open, the ledger reserves devices of the first of them
UNSCHEDULABLE  no node fits; woken when one may, as soon as the pod is observed
WOKEN          unschedulable, woken for a node and not asked about since

One table has every allowed transition; a pod that is bound or deleted leaves the queue. As kube-scheduler's queue, it
waits for changes of the cluster and not for a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.index.node_index import Query  # noqa: TC001 - snapshots are decoded by these annotations
from linkwise.model.views import PodView  # noqa: TC001 - snapshots are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    Turn = tuple[int, float, str]
    """sort key of the queue"""

__all__ = ["TABLE", "QueuedPod", "State", "Transition"]

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
    (None, "join"): "IN_FLIGHT",  # its group answers for it
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


_UNSCHEDULABLE: Final[tuple[State, ...]] = ("UNSCHEDULABLE", "WOKEN")
