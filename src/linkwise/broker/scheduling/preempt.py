"""Preempt: the victims that kube-scheduler should evict on each candidate node.

kube-scheduler chooses victims by counts. Where those free the right devices, they are confirmed: they are minimal for its
own filters, of which not all are known here. Where they do not, they are replaced by the set that does the least harm. It
evicts only pods of the node itself, and it does not check the answer again, so a replacement must satisfy everything that
is known: devices, counts, host resources, ports and affinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.access import not_permitted
from linkwise.broker.groups.planning.what_if import Assumption, WhatIf
from linkwise.broker.holding.evictions import plan_group_of
from linkwise.broker.holding.reserved_devices import outranked
from linkwise.broker.holding.victims import Preemptor, harm_in, leaving_on, lower_on
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.engine.preemption import Search, violations
from linkwise.model.verdict import ReservedKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.verdict import Key
    from linkwise.model.views import PodView

__all__ = ["budget_violations", "preempt"]

# Bounded, because kube-scheduler waits for the answer.
TRIES: Final = 1000
"""sets of victims that are tried per call, over all nodes"""
NODES: Final = 32
"""nodes on which other victims are looked for; the scheduler evicts on only one node"""
PLANS: Final = 40
"""of these, how many are tried with a plan of the pod's gang"""


def preempt(state: State, pod: PodView, victims: Mapping[str, Sequence[str]], now: float) -> dict[str, Sequence[str]]:
    """Return the nodes on which evicting pods lets the pod fit, with the pods to evict, by UID.

    Nodes without victims are left out: kube-scheduler would abort the preemption.
    """
    request = state.request(pod)
    query, entry = state.query_of(request, pod), state.cluster.ledger.get(pod.uid)
    if query is None and not request.broken:
        return {name: pods for name, pods in victims.items() if pods}
    if query is None or _is_invalid(state, pod, query) or (entry and (entry.booked or not entry.tentative)):
        return {}  # no eviction can help, or it is being bound
    if is_unobserved_member(state, pod) or pod.uid in state.preemptions.records:
        if state.settings.preemption.evict and pod.uid not in state.cluster.pods:
            state.queue.join(state.asked(pod, query, now))  # its group is planned once it is observed
        return {}
    if state.settings.preemption.evict and plan_group_of(state, pod, now):
        return {}  # the service evicts for the whole group
    own, drained = _reserved(state, pod)
    own |= {pod.uid} if entry and entry.state == "OFFERED" else set()
    preemptor, gang = Preemptor(state, pod, query, own), _Gang(state, pod)
    tries, nodes = TRIES, NODES
    answer: dict[str, Sequence[str]] = {}
    for name, pods in victims.items():
        if not pods or name in drained or not preemptor.serves(name):
            continue
        if preemptor.frees_devices(name, pods) and gang.starts_without(pods):
            answer[name] = pods
        elif nodes > 0:
            others, tries = _other_victims(preemptor, gang, name, tries)
            answer |= {name: others} if others else {}
            nodes -= 1
    return answer


def _is_invalid(state: State, pod: PodView, query: Query) -> bool:
    """Return whether no eviction could let the request fit, because of itself or of AcceleratorPolicies."""
    return bool(query.policy.admit(query.ask) or (state.access and not_permitted(state, pod, query)))


def _reserved(state: State, pod: PodView) -> tuple[frozenset[Key], frozenset[str]]:
    """Return the entries that are reserved for the pod or give way to it, and nodes whose evictions would help others."""
    if not state.reservations.made:
        return frozenset(), frozenset()
    lower = outranked(state, pod.priority, (pod.uid,))
    own = {ReservedKey(uid, "reservation") for uid in (pod.uid, *(uid for each in lower for uid, _ in each.seats))}
    others = (each for each in state.reservations if each not in lower and state.reservations.of_pod(pod.uid) != each)
    return frozenset(own), frozenset(node for each in others for node in each.nodes)


def _other_victims(preemptor: Preemptor, gang: _Gang, name: str, tries: int) -> tuple[list[str], int]:
    """Return the pods that should be evicted on a node, and how many tries are left."""
    state, leaving = preemptor.state, leaving_on(preemptor.state, name)

    def enough(gone: frozenset[str]) -> bool:
        return preemptor.fits(name, gone | leaving) and gang.starts_without(gone | leaving)

    if leaving and enough(frozenset()):
        return sorted(leaving), tries  # it fits when these are gone: no other pod is evicted
    search = Search(enough, lambda pods: harm_in(state, pods), tries)
    victims = preemptor.victims(name, search, lower_on(state, name, preemptor.pod.priority))
    return [victim.uid for victim in victims], max(0, search.tries)


def budget_violations(state: State, uids: Iterable[str]) -> int:
    """Return how many of the pods could be evicted only against a disruption budget."""
    pods = [pod for uid in uids if (pod := state.cluster.pods.get(uid))]
    return violations(pods, state.cluster.shared.budgets.values())


class _Gang:
    """The gang of a pod: no pod is evicted for a gang that can't start anyway."""

    def __init__(self, state: State, pod: PodView) -> None:
        view = state.groups.view(state.groups.key_of(pod.uid))
        self._state, self._view = state, view if view and view.least else None
        self._what_if: WhatIf | None = None
        self._plans = PLANS

    def starts_without(self, gone: Collection[str]) -> bool:
        """Whether enough members of the gang fit without these pods; true for a pod without a gang."""
        if self._view is None:
            return True
        self._what_if = self._what_if or WhatIf(self._state, self._view)
        self._plans -= 1
        return self._plans >= 0 and self._what_if.plan(Assumption(gone=frozenset(gone))) is not None
