"""Filter and prioritize: the nodes that a pod may go to, and their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.answers import FilterAnswer
from linkwise.broker.groups.filter import filter_member
from linkwise.broker.groups.priority import preempt_plans_for_pod
from linkwise.broker.reconcile import reconcile, reconcile_later
from linkwise.engine.index.lookup import choices
from linkwise.engine.queue.contention import Contention
from linkwise.engine.queue.offers import OpenOffer
from linkwise.engine.queue.unschedulable import UnschedulablePod
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.engine.index.lookup import Lookup
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.engine.ledger import Entry
    from linkwise.engine.queue.offers import FailedOffers
    from linkwise.model.views import PodView

__all__ = ["filter_nodes", "prioritize"]

BEING_BOUND: Final = short_refusal(Reason("002.whole", kind="promised"))
CONTENDED: Final = short_refusal(Reason("002.whole", kind="pending"))
NOT_READY: Final = short_refusal(Reason("001.filters", kind="not ready"))


def filter_nodes(state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool) -> FilterAnswer:
    """Return nodes of the best class; without `keep` nothing is remembered."""
    effects = reconcile(state, now)
    request = state.request(pod)
    answer = _answer(state, pod, request, names, now, keep=keep)
    effects = (*effects, *answer.effects, *state.outbox.drain())
    return FilterAnswer(answer.nodes, answer.failed, answer.unresolvable, answer.partial, effects, request.policy)


def _answer(  # noqa: PLR0913 - the verb's arguments and the request
    state: State, pod: PodView, request: PodRequest, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    entry = state.cluster.ledger.get(pod.uid)
    if entry and entry.state != "PLANNED":
        return _answer_assumed(state, entry, names)
    if request.broken:
        return FilterAnswer([], {}, dict.fromkeys(names, request.broken.sentence))
    grouped = request.group is not None or state.groups.key_of(pod.uid)  # a bind goes by what the watch shows
    if grouped and (member := filter_member(state, pod, names, now, keep=keep)):
        if keep:
            state.note_ask(pod, now)
            state.unschedulable.remove(pod.uid)  # it may have been alone before
        return member
    return _answer_single(state, pod, state.query_of(request), names, now, keep=keep)


def _answer_single(  # noqa: PLR0913 - same
    state: State, pod: PodView, query: Query | None, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    """Answer for a pod without a group."""
    if query is None:
        return FilterAnswer(list(names))
    refused = query.policy.admit(query.ask)
    if refused:
        return FilterAnswer([], {}, dict.fromkeys(names, short_refusal(refused)))
    lookup = choices(state.cluster.index, query, state.settings.budget)
    unready = state.cluster.unready
    ready = [name for name in names if name not in unready] if unready else names
    # A call for a pod that is bound or deleted by now is answered and not remembered.
    keep = keep and bool(pod.uid) and not state.cluster.known.settled(pod.uid)
    nodes, contended = _Choosing(state, pod, query, lookup).choose(ready, again=keep)
    may_preempt = keep and not nodes and not contended and pod.uid in state.cluster.pods
    if may_preempt and preempt_plans_for_pod(state, pod, query, ready, now):
        lookup = choices(state.cluster.index, query, state.settings.budget)
        nodes, contended = _Choosing(state, pod, query, lookup).choose(ready, again=False)
    if keep:
        _remember(state, pod, query, nodes, now)
    if nodes:
        return FilterAnswer(nodes, partial=lookup.partial)
    failed, final = lookup.why(ready)
    if contended:
        failed = {**failed, **dict.fromkeys(contended, CONTENDED)}
    if len(ready) < len(names):
        final = {**final, **{name: NOT_READY for name in names if name in unready}}
    return FilterAnswer([], failed, final, lookup.partial)


def prioritize(state: State, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
    """Return dense ranks from 0: equal nodes have equal ranks, and small differences are not lost.

    Nodes with open offers to other pods come after the others, and nodes offered to this pod without success come last,
    or it would be sent there again and again.
    """
    # rule 000.normalise: at the wire a dense rank.
    reconcile_later(state, now)
    query = state.query(pod)
    if query is None:
        return [(name, 0) for name in names]
    standings = _standings(state, pod, choices(state.cluster.index, query, state.settings.budget), names)
    ranks = {place: rank for rank, place in enumerate(sorted(set(standings.values())))}
    return [(name, ranks[standings[name]] if name in standings else 0) for name in names]


def _standings(state: State, pod: PodView, lookup: Lookup, names: Iterable[str]) -> Mapping[str, Code]:
    """Return the standing of each feasible node; larger is better."""
    touched, failed = state.offers.shared(names, pod.uid), state.offers.attempts(pod.uid).nodes
    scores = lookup.scores(names)
    if not touched and not failed:
        return scores
    busy = set(touched)
    return {name: (name not in failed, name not in busy, *score) for name, score in scores.items()}


def _answer_assumed(state: State, entry: Entry, names: Sequence[str]) -> FilterAnswer:
    """Answer for a pod that is being bound: only its node."""
    if entry.node in names and state.cluster.has(entry):
        return FilterAnswer([entry.node])
    return FilterAnswer([], {}, dict.fromkeys(names, BEING_BOUND))


@dataclass(frozen=True, slots=True)
class _Choosing:
    """Chooses nodes for one pod, considering open offers to other pods."""

    state: State
    pod: PodView
    query: Query
    lookup: Lookup

    def choose(self, names: Sequence[str], *, again: bool) -> tuple[list[str], list[str]]:
        """Return nodes to offer, and contended ones; `again` counts earlier offers as failed."""
        offers, uid = self.state.offers, self.pod.uid
        failed_offers = offers.asks_again(uid) if again and len(names) > 1 else offers.attempts(uid)
        index = self.state.cluster.index
        busy = offers.busy_but(uid, len(index.nodes))
        last = busy | failed_offers.nodes if failed_offers.nodes else busy
        contention = Contention(self.query, index.nodes.get, index.idle)
        contended: list[str] = []
        while True:
            nodes = self._offered(names, failed_offers, last)
            if len(nodes) <= self.state.settings.breadth:
                nodes = list(dict.fromkeys(nodes))
            claimed = {node for node in offers.shared(nodes, uid) if contention.needs(node, offers.on(node, uid))}
            contended += claimed
            left = [node for node in nodes if node not in claimed] if claimed else nodes
            if left or not claimed:
                return self._unbeaten(left) if self._selects(failed_offers) else left, contended
            names = [name for name in names if name not in claimed]

    def _offered(self, names: Sequence[str], failed_offers: FailedOffers, last: AbstractSet[str]) -> list[str]:
        """Return candidates: contended and failed nodes last; after a few rounds all feasible nodes."""
        if not self._selects(failed_offers):
            return self.lookup.all(names)
        return self.lookup.best(names, self.state.settings.breadth, last)

    def _selects(self, failed_offers: FailedOffers) -> bool:
        """Return whether only the best nodes are offered."""
        settings = self.state.settings
        return settings.breadth > 0 and failed_offers.rounds < settings.rounds

    def _unbeaten(self, nodes: list[str]) -> list[str]:
        """Return the nodes with the best standing; a single one spares the scheduler a prioritize call."""
        if len(nodes) < 2 or self.state.settings.offer == "class":
            return nodes
        standings = _standings(self.state, self.pod, self.lookup, nodes)
        best = max(standings.values(), default=None)
        return [name for name in nodes if standings.get(name) == best]


def _remember(state: State, pod: PodView, query: Query, nodes: list[str], now: float) -> None:
    state.note_ask(pod, now)
    if nodes:
        state.unschedulable.remove(pod.uid, nodes)
        state.offers.put(OpenOffer(pod.uid, query, tuple(nodes), now + state.settings.pending))
    else:
        state.offers.remove(pod.uid)
        state.note_refused(UnschedulablePod(pod.uid, pod.namespace, pod.name, pod.created, pod.priority, query))
