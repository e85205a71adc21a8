"""Preemptable and reclaimable: which of Volcano's candidates must be evicted so that a pod fits on their node.

Volcano evicts by counts. Where that would free the wrong devices, only those pods are named whose devices fit together: for
rings those of one ring, or of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.access.enforcement import not_permitted
from linkwise.broker.preemption.victims import Preemptor, harm_in, leaving_on
from linkwise.engine.preemption import Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["ABSTAIN", "PERMIT", "REJECT", "Victims", "victims"]

PERMIT: Final = 1
ABSTAIN: Final = 0
"""other plugins decide"""
REJECT: Final = -1
TRIES: Final = 1000
"""sets of victims that are tried per call"""


@dataclass(frozen=True, slots=True)
class Victims:
    """The verdict on some candidates, and those that must go."""

    verdict: int
    uids: tuple[str, ...] = ()


def victims(state: State, pod: PodView, uids: Sequence[str]) -> Victims:
    """Return which of these pods must be evicted so that the pod fits, on the first of their nodes where that helps.

    A pod that is not a matter of devices is left to other plugins.
    """
    request = state.request(pod)
    query = state.query_of(request, pod)
    if query is None:
        return Victims(REJECT if request.broken else ABSTAIN)
    if query.policy.admit(query.ask) or (state.access and not_permitted(state, pod, query)):
        return Victims(REJECT)
    own = {pod.uid} if state.cluster.ledger.get(pod.uid) else set()
    preemptor = Preemptor(state, pod, query, frozenset(own))
    views = [view for uid in dict.fromkeys(uids) if (view := state.cluster.pods.get(uid)) and view.node]
    served = False
    for node in dict.fromkeys(view.node for view in views):
        if not preemptor.serves(node):
            continue
        served = True
        if preemptor.frees_devices(node, leaving_on(state, node)):
            return Victims(ABSTAIN)  # devices are not what it lacks
        if found := _least_harm(preemptor, node, views):
            return Victims(PERMIT, tuple(sorted(each.uid for each in found)))
    return Victims(REJECT if served or views else ABSTAIN)


def _least_harm(preemptor: Preemptor, node: str, views: Sequence[PodView]) -> Sequence[PodView]:
    """Return the victims on a node that do the least harm; empty if no eviction helps there."""
    state, leaving = preemptor.state, leaving_on(preemptor.state, node)

    def enough(gone: frozenset[str]) -> bool:
        return preemptor.frees_devices(node, gone | leaving)

    search = Search(enough, lambda pods: harm_in(state, pods), TRIES)
    return preemptor.victims(node, search, [view for view in views if view.node == node and not view.deleting])
