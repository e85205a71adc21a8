"""Filter and prioritize: the node that a pod should go to, and ranks where several are offered.

Filter chooses the node. It picks devices there and reserves them as an offer in the ledger, so that the next pod sees them
as used: pods that arrive together are packed as if they came one by one. A pod with preferences of its own is offered
several nodes of equal score, so that kube-scheduler's scores decide among them.

A call with complete Node objects, as autoscalers make them, is a simulation. A node that is not observed is a template: it
is evaluated by what its object says, as an empty node. Nothing is remembered, and no answer waits for anything. Nodes that
exist are answered from what is known of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.access import barred_nodes, not_permitted, refused_pod
from linkwise.broker.candidates import Candidates, decided_by_filter
from linkwise.broker.cluster.inventory import merge_or_report
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.effects import FilterAnswer
from linkwise.broker.groups.filter import filter_member
from linkwise.broker.groups.lifecycle import wake_members
from linkwise.broker.groups.planning.priority import preempt_plans_for_pod
from linkwise.broker.groups.readiness import pending_reason
from linkwise.broker.holding.evictions import take_room
from linkwise.broker.holding.reserved_devices import release, reserved_reason, yield_reservation
from linkwise.broker.reconcile import reconcile, reconcile_later
from linkwise.broker.wake_ups import note_gain
from linkwise.engine.index.node_index import judge
from linkwise.engine.ledger import Entry
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Grant, Offer, Reason, Reject
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.engine.access import AccessRule
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Verdict
    from linkwise.engine.queue.scheduling_queue import QueuedPod
    from linkwise.model.views import NodeView, PodView

__all__ = ["BEING_BOUND", "filter_nodes", "prioritize", "ranked", "simulate_filter", "simulate_scores"]

BEING_BOUND: Final = short_refusal(Reason("002.whole", kind="promised"))
_entry: Final = fast_constructor(Entry)
NOT_READY: Final = short_refusal(Reason("001.filters", kind="not ready"))


def filter_nodes(state: State, pod: PodView, names: Sequence[str], now: float, *, keep: bool) -> FilterAnswer:
    """Return the best node, or several equal ones; without `keep` nothing is remembered."""
    request = state.request(pod)
    observed = state.cluster.pods.get(pod.uid) if keep else None
    if observed and observed.scheduler not in state.reservations.schedulers:
        state.reservations.asked_by(observed.scheduler)
    # A bind goes by what the watch shows.
    grouped = request.group is not None or pod.uid in state.groups.key_by_pod
    if keep and grouped:
        state.withdraw(pod.uid)
    effects = reconcile(state, now)
    offered = state.cluster.ledger.offered(pod.uid)
    answer = _answer(state, pod, request, names, now, keep=keep, grouped=grouped)
    now_offered = state.cluster.ledger.offered(pod.uid)
    if offered and (now_offered is None or now_offered.grant != offered.grant):
        effects = (*effects, *reconcile(state, now))  # others may want the devices of the earlier offer
    else:
        if gained := state.cluster.settle():
            note_gain(state, gained)
        if state.cluster.changes.answers:
            wake_members(state, now)
    effects = (*effects, *answer.effects, *state.outbox.drain())
    return FilterAnswer(answer.nodes, answer.failed, answer.unresolvable, answer.partial, effects, request.policy)


def prioritize(state: State, pod: PodView, names: Sequence[str], now: float) -> list[tuple[str, int]]:
    """Return dense ranks from 0: equal nodes have equal ranks, and small differences are not lost.

    Nodes offered to the pod without success come last, or it would be sent there again and again.
    """
    # rule 000.normalise: at the wire a dense rank.
    reconcile_later(state, now)
    query = state.query(pod)
    if query is None:
        return [(name, 0) for name in names]
    queued = state.queue.get(pod.uid)
    failed = queued.failed if queued else frozenset()
    scores = Candidates(state, query, pod.uid, state.settings.budget).scores(names)
    return ranked(names, {name: (name not in failed, *score) for name, score in scores.items()})


def ranked(names: Sequence[str], scores: Mapping[str, tuple[int, ...]]) -> list[tuple[str, int]]:
    """Return the rank of each name among the different scores, the lowest first; 0 without a score."""
    ranks = {score: rank for rank, score in enumerate(sorted(set(scores.values())))}
    return [(name, ranks[scores[name]] if name in scores else 0) for name in names]


def simulate_filter(
    state: State, pod: PodView, names: Sequence[str], templates: Sequence[NodeView], now: float
) -> FilterAnswer:
    """Return the best of the nodes that exist, and every template on which the pod fits: price may decide among those."""
    known = filter_nodes(state, pod, names, now, keep=False)
    refused, fitting = _judged(state, pod, templates, now)
    nodes = [*known.nodes, *fitting]
    if nodes:
        return FilterAnswer(nodes, partial=known.partial, effects=known.effects, policy=known.policy)
    # There are no pods on a template that could be evicted.
    unresolvable = {**known.unresolvable, **refused}
    return FilterAnswer([], known.failed, unresolvable, known.partial, known.effects, known.policy)


def simulate_scores(
    state: State, pod: PodView, names: Sequence[str], templates: Sequence[NodeView]
) -> dict[str, tuple[int, ...]]:
    """Return comparable scores of nodes that exist and of templates; those without one are not suitable."""
    query = state.query(pod)
    if query is None:
        return {}
    scores = dict(Candidates(state, query, pod.uid, state.settings.budget).scores(names))
    verdicts = _verdicts(query, templates, state.access.rule_of(pod))
    return scores | {name: found for name, found in verdicts.items() if not isinstance(found, Reject)}


def _answer(  # noqa: PLR0913 - the verb's arguments and the request
    state: State, pod: PodView, request: PodRequest, names: Sequence[str], now: float, *, keep: bool, grouped: bool
) -> FilterAnswer:
    entry = state.cluster.ledger.get(pod.uid)
    if entry and (entry.booked or not entry.tentative):
        return _answer_assumed(state, entry, names)
    if request.broken:
        return FilterAnswer([], {}, dict.fromkeys(names, request.broken.text))
    query = state.query_of(request, pod)
    if grouped and (member := filter_member(state, pod, names, now, keep=keep)):
        if keep:
            state.queue.join(state.asked(pod, query, now))  # it may have been alone before
        return member
    return _answer_single(state, pod, query, names, now, keep=keep)


def _answer_assumed(state: State, entry: Entry, names: Sequence[str]) -> FilterAnswer:
    """Answer for a pod that is being bound: only its node."""
    if entry.node in names and state.cluster.has(entry):
        return FilterAnswer([entry.node])
    return FilterAnswer([], {}, dict.fromkeys(names, BEING_BOUND))


def _answer_single(  # noqa: PLR0913 - same
    state: State, pod: PodView, query: Query | None, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    """Answer for a pod without a group."""
    if query is None:
        if keep and pod.uid and asks_for_devices(pod) and not state.cluster.is_settled(pod.uid):
            # It names a resource with the quantity 0: any node will do, but the scheduler still calls bind for it.
            state.queue.join(state.asked(pod, None, now))
        return FilterAnswer(list(names))
    refused = query.policy.admit(query.ask)
    if refused:
        return FilterAnswer([], {}, dict.fromkeys(names, short_refusal(refused)))
    # A call for a pod that is bound or deleted by now is answered and not remembered.
    keep = keep and bool(pod.uid) and not state.cluster.is_settled(pod.uid)
    place = _place_permitted if state.has_policies else _place
    return place(state, pod, query, names, now, keep=keep)


def _place_permitted(  # noqa: PLR0913 - same
    state: State, pod: PodView, query: Query, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    """Place a pod where AcceleratorPolicies permit it."""
    # rule 002.access: judged again by namespace and recorded user, for pods made before a policy or past the webhook.
    if keep and state.access.limited:
        state.access.lift(pod.uid)
    if denied := not_permitted(state, pod, query):
        if keep:
            refused_pod(state, pod, query, denied, now)
        return FilterAnswer([], {}, dict.fromkeys(names, short_refusal(denied)))
    barred = barred_nodes(state, pod, query)
    if not barred:
        return _place(state, pod, query, names, now, keep=keep)
    permitted = [name for name in names if name not in barred]
    answer = _place(state, pod, query, permitted, now, keep=keep)
    if answer.nodes or len(permitted) == len(names):
        return answer
    left_out = {name: barred[name] for name in names if name in barred}
    if keep:
        state.access.note_refusal(pod.uid, next(iter(left_out.values())))
    final = {**answer.unresolvable, **{name: short_refusal(reason) for name, reason in left_out.items()}}
    return FilterAnswer([], answer.failed, final, answer.partial)


def _place(  # noqa: PLR0913 - same
    state: State, pod: PodView, query: Query, names: Sequence[str], now: float, *, keep: bool
) -> FilterAnswer:
    """Choose the node of a pod, and reserve devices there."""
    retried = keep and pod.uid in state.queue
    if retried and len(names) > 1:  # with a single name, kube-scheduler tries the nominated node first
        state.queue.retry(pod.uid)
    if keep and pod.uid in state.preemptions.records:
        take_room(state, pod.uid, names)
    candidates = Candidates(state, query, pod.uid, state.settings.budget)
    nodes = _choose(state, pod, candidates, names)
    may_preempt = keep and not nodes and pod.uid in state.cluster.pods
    passes = (
        may_preempt and bool(state.reservations.made) and yield_reservation(state, pod, query, _ready(state, names))
    )
    if passes or (may_preempt and preempt_plans_for_pod(state, pod, query, _ready(state, names), now)):
        candidates = Candidates(state, query, pod.uid, state.settings.budget)
        nodes = _choose(state, pod, candidates, names)
    if keep:
        _remember(state, state.asked(pod, query, now), candidates, names, nodes)
    if nodes:
        return FilterAnswer(nodes, partial=candidates.partial)
    ready = _ready(state, names)
    failed, final = candidates.why(ready)
    if state.reservations.made:
        # kube-scheduler takes a node that is in both as unresolvable; copying the reasons of all nodes would take longer.
        kept = _reserved_for_others(state, query, pod.uid, ready)
        final = {**final, **kept} if kept else final
    if len(ready) < len(names):
        final = {**final, **{name: NOT_READY for name in names if name in state.cluster.unready}}
    return FilterAnswer([], failed, final, candidates.partial)


def _choose(state: State, pod: PodView, candidates: Candidates, names: Sequence[str]) -> list[str]:
    """Return the best node, or all that fit if what was offered before has failed too often."""
    queued, settings, unready = state.queue.get(pod.uid), state.settings, state.cluster.unready
    failed = queued.failed if queued else frozenset()
    without = unready | failed if failed else unready
    nodes = candidates.best(names, settings.breadth if pod.has_preferences else 1, without)
    rounds = queued.rounds if queued else 0
    if rounds < settings.rounds and (nodes or not failed):
        return nodes
    # Something other than devices seems to stop it.
    return candidates.all(_ready(state, names))


def _ready(state: State, names: Sequence[str]) -> Sequence[str]:
    unready = state.cluster.unready
    return [name for name in names if name not in unready] if unready else names


def _remember(
    state: State, asked: QueuedPod, candidates: Candidates, names: Sequence[str], nodes: Sequence[str]
) -> None:
    """Reserve devices on the best of the nodes until the offer expires; a pod that no node fits waits for one."""
    if not nodes:
        state.queue.refuse(asked)
        state.withdraw(asked.uid)
        return
    state.queue.offer(asked, nodes)
    pod, query, pending = asked.pod, candidates.query, state.settings.pending
    best = nodes[0] if len(nodes) == 1 else _best_of(state, asked.uid, candidates, nodes)
    devices = candidates.pick(best)
    if not isinstance(devices, Offer) or not pending:
        return
    if state.reservations.made:
        release(state, (pod.uid,))
    grant = Grant(pod.uid, query.policy.name, devices, mode=query.ask.mode)
    expires, decision = asked.asked_at + pending, decided_by_filter(state, pod, candidates, names, best)
    entry = _entry(grant, "OFFERED", pod.namespace, pod.created, expires=expires, decision=decision)
    state.cluster.ledger.offer(entry, state.cluster.inventories[best].allocations)


def _best_of(state: State, uid: str, candidates: Candidates, nodes: Sequence[str]) -> str:
    """Return the node that prioritize ranks highest."""
    queued = state.queue.get(uid)
    fresh = [name for name in nodes if name not in queued.failed] if queued and queued.failed else nodes
    return (candidates.best(fresh, 1) or candidates.best(nodes, 1))[0]


def _reserved_for_others(state: State, query: Query, uid: str, names: Sequence[str]) -> dict[str, str]:
    """Return the refusals of nodes whose free devices are reserved: evicting pods there would only help the reservation."""
    reasons = {
        name: reserved_reason(state, query, name, uid) for name in state.reservations.taken().intersection(names)
    }
    return {name: short_refusal(reason) for name, reason in reasons.items() if reason}


def _judged(state: State, pod: PodView, templates: Sequence[NodeView], now: float) -> tuple[dict[str, str], list[str]]:
    """Return why templates are refused, by name, and those on which the pod fits."""
    names = [view.name for view in templates]
    request, entry = state.request(pod), state.cluster.ledger.get(pod.uid)
    if request.broken:
        return dict.fromkeys(names, request.broken.text), []
    if entry and (entry.booked or not entry.tentative):
        return dict.fromkeys(names, BEING_BOUND), []
    group = state.groups.view(state.groups.key_of(pod.uid))
    # More nodes do not help a group that is not complete; once it is, each member is evaluated alone.
    waits = pending_reason(state, group, now) if group and pod.uid not in group.extra else None
    if waits:
        return dict.fromkeys(names, short_refusal(waits)), []
    query = state.query_of(request, pod)
    if query is None:
        return {}, names
    if refused_everywhere := query.policy.admit(query.ask) or not_permitted(state, pod, query):
        return dict.fromkeys(names, short_refusal(refused_everywhere)), []
    verdicts = _verdicts(query, templates, state.access.rule_of(pod))
    refused = {name: short_refusal(found.reason) for name, found in verdicts.items() if isinstance(found, Reject)}
    return refused, [name for name in verdicts if name not in refused]


def _verdicts(query: Query, templates: Iterable[NodeView], rule: AccessRule | None) -> dict[str, Verdict]:
    """Return the verdict of each template, computed once for equal ones: a node group has many."""
    verdicts: dict[str, Verdict] = {}
    by_kind: dict[tuple[object, ...], Verdict] = {}
    for view in templates:
        inventory = merge_or_report(view, {})
        kind = (
            inventory.devices,
            inventory.topology,
            inventory.profile,
            inventory.mode,
            inventory.words,
            inventory.unidentified,
            tuple(sorted(inventory.facts.items())),
        )
        if kind not in by_kind:
            node = node_of(inventory, usage_of(inventory, (), ()))
            barred = rule.node_refusal(query.ask, node) if rule else None
            by_kind[kind] = Reject(view.name, barred) if barred else judge(query, node, inventory.words)
        verdicts[view.name] = by_kind[kind]
    return verdicts
