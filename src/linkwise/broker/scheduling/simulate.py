"""Simulations: calls with complete Node objects, some of which do not exist, as autoscalers make them.

A node that is not observed is a template: it is evaluated by what its object says, as an empty node. Nothing is
remembered, and no answer waits for anything. Nodes that exist are answered from what is known of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.access.enforcement import not_permitted
from linkwise.broker.answers import FilterAnswer
from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.inventory.merge import merge_or_report
from linkwise.broker.groups.readiness import pending_reason
from linkwise.broker.scheduling.filter import BEING_BOUND, filter_nodes
from linkwise.engine.index.node_index import judge
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Reject

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.access import AccessRule
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Verdict
    from linkwise.model.views import NodeView, PodView

__all__ = ["simulate_filter", "simulate_scores"]


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
