"""Which of the nodes given a pod may go to: filter and prioritize."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.answers import FilterAnswer
from linkwise.broker.groups.filter import filter_member
from linkwise.broker.groups.priority import give_way_to_pod
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

PROMISED: Final = short_refusal(Reason("002.whole", kind="promised"))
CROWDED: Final = short_refusal(Reason("002.whole", kind="pending"))
NOT_READY: Final = short_refusal(Reason("001.filters", kind="not ready"))


def filter_nodes(state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool) -> FilterAnswer:
    """Nodes of the best class; without `keep` nothing is remembered of it."""
    effects = reconcile(state, now)
    wish = state.request(pod)
    found = _answered(state, pod, wish, names, now, keep=keep)
    told = (*effects, *found.effects, *state.outbox.drain())
    return FilterAnswer(found.nodes, found.failed, found.unresolvable, found.partial, told, wish.policy)


def _answered(  # noqa: PLR0913 - the verb's own, and what the pod wants
    state: State, pod: PodView, wish: PodRequest, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    entry = state.cluster.ledger.get(pod.uid)
    if entry and entry.state != "PLANNED":
        return _promised(state, entry, names)
    if wish.broken:
        return FilterAnswer([], {}, dict.fromkeys(names, wish.broken.sentence))
    grouped = wish.group is not None or state.groups.key_of(pod.uid)  # a bind goes by what the watch shows
    if grouped and (member := filter_member(state, pod, names, now, keep=keep)):
        if keep:
            state.note_ask(pod, now)
            state.unschedulable.remove(pod.uid)  # it may have been alone before
        return member
    return _one(state, pod, state.query_of(wish), names, now, keep=keep)


def _one(  # noqa: PLR0913 - same
    state: State, pod: PodView, wanted: Query | None, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    """A pod by itself."""
    if wanted is None:
        return FilterAnswer(list(names))
    refused = wanted.policy.admit(wanted.ask)
    if refused:
        return FilterAnswer([], {}, dict.fromkeys(names, short_refusal(refused)))
    found = choices(state.cluster.index, wanted, state.settings.budget)
    resting = state.cluster.unready
    ready = [name for name in names if name not in resting] if resting else names
    # Who asks on behalf of a pod that is bound or gone by now gets an answer, and nothing is kept of it.
    keep = keep and bool(pod.uid) and not state.cluster.known.settled(pod.uid)
    nodes, crowded = _Choosing(state, pod, wanted, found).choose(ready, again=keep)
    gives_way = keep and not nodes and not crowded and pod.uid in state.cluster.pods
    if gives_way and give_way_to_pod(state, pod, wanted, ready, now):
        found = choices(state.cluster.index, wanted, state.settings.budget)
        nodes, crowded = _Choosing(state, pod, wanted, found).choose(ready, again=False)
    if keep:
        _remember(state, pod, wanted, nodes, now)
    if nodes:
        return FilterAnswer(nodes, partial=found.partial)
    failed, final = found.why(ready)
    if crowded:
        failed = {**failed, **dict.fromkeys(crowded, CROWDED)}
    if len(ready) < len(names):
        final = {**final, **{name: NOT_READY for name in names if name in resting}}
    return FilterAnswer([], failed, final, found.partial)


def prioritize(state: State, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
    """A rank for every name, dense and from 0: equal nodes have equal ranks, and small differences are not lost.

    Nodes that were offered to other pods a moment ago come after all that were not, and those offered to this one in
    vain come last, or it would be sent there again and again when all that fit are offered.
    """
    # rule 000.normalise: at the wire a dense rank.
    reconcile_later(state, now)
    wanted = state.query(pod)
    if wanted is None:
        return [(name, 0) for name in names]
    standing = _standing(state, pod, choices(state.cluster.index, wanted, state.settings.budget), names)
    ranks = {place: rank for rank, place in enumerate(sorted(set(standing.values())))}
    return [(name, ranks[standing[name]] if name in standing else 0) for name in names]


def _standing(state: State, pod: PodView, found: Lookup, names: Iterable[str]) -> Mapping[str, Code]:
    """How good each of the names that fit is for the pod: larger is better."""
    touched, failed = state.offers.shared(names, pod.uid), state.offers.attempts(pod.uid).nodes
    scores = found.scores(names)
    if not touched and not failed:
        return scores
    busy = set(touched)
    return {name: (name not in failed, name not in busy, *score) for name, score in scores.items()}


def _promised(state: State, entry: Entry, names: Sequence[str]) -> FilterAnswer:
    """A pod whose bind has not ended may go where it was promised, and nowhere else."""
    if entry.node in names and state.cluster.has(entry):
        return FilterAnswer([entry.node])
    return FilterAnswer([], {}, dict.fromkeys(names, PROMISED))


@dataclass(frozen=True, slots=True)
class _Choosing:
    """Chooses nodes for one pod beside those that were offered nodes before it."""

    state: State
    pod: PodView
    wanted: Query
    found: Lookup

    def choose(self, names: Sequence[str], *, again: bool) -> tuple[list[str], list[str]]:
        """The nodes to offer, and those refused for the sake of other pods; `again` counts what was offered before."""
        pending, uid = self.state.offers, self.pod.uid
        tries = pending.asks_again(uid) if again and len(names) > 1 else pending.attempts(uid)
        index = self.state.cluster.index
        busy = pending.busy_but(uid, len(index.nodes))
        last = busy | tries.nodes if tries.nodes else busy
        crowding = Contention(self.wanted, index.nodes.get, index.idle)
        crowded: list[str] = []
        while True:
            nodes = self._offered(names, tries, last)
            if len(nodes) <= self.state.settings.breadth:
                nodes = list(dict.fromkeys(nodes))
            out = {node for node in pending.shared(nodes, uid) if crowding.needs(node, pending.on(node, uid))}
            crowded += out
            left = [node for node in nodes if node not in out] if out else nodes
            if left or not out:
                return self._unbeaten(left) if self._selects(tries) else left, crowded
            names = [name for name in names if name not in out]

    def _offered(self, names: Sequence[str], tries: FailedOffers, last: AbstractSet[str]) -> list[str]:
        """Nodes of other pods, and those offered in vain, come last; after a few rounds all that fit are offered."""
        if not self._selects(tries):
            return self.found.all(names)
        return self.found.best(names, self.state.settings.breadth, last)

    def _selects(self, tries: FailedOffers) -> bool:
        """Whether the best are offered, and not all that fit."""
        settings = self.state.settings
        return settings.breadth > 0 and tries.rounds < settings.rounds

    def _unbeaten(self, nodes: list[str]) -> list[str]:
        """Those that no other outranks: one alone spares the scheduler the question which of them is the best."""
        if len(nodes) < 2 or self.state.settings.offer == "class":
            return nodes
        standing = _standing(self.state, self.pod, self.found, nodes)
        best = max(standing.values(), default=None)
        return [name for name in nodes if standing.get(name) == best]


def _remember(state: State, pod: PodView, wanted: Query, nodes: list[str], now: float) -> None:
    state.note_ask(pod, now)
    if nodes:
        state.unschedulable.remove(pod.uid, nodes)
        state.offers.put(OpenOffer(pod.uid, wanted, tuple(nodes), now + state.settings.pending))
    else:
        state.offers.remove(pod.uid)
        state.note_refused(UnschedulablePod(pod.uid, pod.namespace, pod.name, pod.created, pod.priority, wanted))
