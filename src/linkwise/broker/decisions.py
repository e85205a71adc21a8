"""Decisions as they are made: filter captures by what it chose a node, and the bind writes that with the grant.

Bound: a few microseconds per filter. Whether the runner-up is among thousands of names would take longer than the filter
itself. Short lists are searched; for others, the bind takes the next best node that has enough of everything else, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.available_devices import available_devices
from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.cluster.host_fit import misfit
from linkwise.model.verdict import Decision
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.candidates import Candidates
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.model.verdict import Entry, Offer
    from linkwise.model.views import PodView

__all__ = ["decided_by_bind", "decided_by_filter", "settled"]

FEW: Final = 16
"""names among which the runner-up is searched"""
OTHERS: Final = 3
"""next best nodes that are captured if there are more names"""
_decision: Final = fast_constructor(Decision)


def decided_by_filter(
    state: State, pod: PodView, candidates: Candidates, names: Sequence[str], chosen: str
) -> Decision:
    """Return the facts by which filter chose a node; called before the offer is entered."""
    query, node = candidates.query, candidates.node(chosen)
    score = candidates.scores((chosen,)).get(chosen, ())
    others = _among(candidates, names, chosen) if len(names) <= FEW else candidates.after(chosen, score, OTHERS)
    free, rooms = available_devices(state.settings.share, query, node)
    return _decision(
        len(names), query.policy.terms if score else (), score, others, free, rooms, pod.nominated == chosen
    )


def decided_by_bind(state: State, pod: PodView, query: Query, offer: Offer, tentative: Entry | None) -> Decision:
    """Return the decision of a bind: that of the offer if its devices are used, else what is known at the bind.

    A member gets what its group's plan reserves: nodes were compared for the group, not for the pod.
    """
    if tentative and tentative.decision and tentative.grant.offer is offer:
        return settled(state, pod, tentative.decision)
    node = state.cluster.index.nodes[offer.node]
    if tentative and tentative.state == "PLANNED":
        free, rooms = available_devices(state.settings.share, query, node, offer)
        return Decision(free=free, rooms=rooms)
    if tentative and tentative.node == offer.node:
        node = state.cluster.node_without(offer.node, {pod.uid}) or node
    free, rooms = available_devices(state.settings.share, query, node)
    score = query.score(node, offer)
    return Decision(0, query.policy.terms, score, (), free, rooms, pod.nominated == offer.node)


def settled(state: State, pod: PodView, decision: Decision) -> Decision:
    """Return the decision with the first of the next best nodes that could take the pod."""
    cluster, others = state.cluster, decision.others
    if others and FEW < decision.considered < len(cluster.nodes):
        demand = demand_of(pod)[0]
        others = tuple(
            other for other in others if other[0] in cluster.nodes and not misfit(cluster, pod, demand, other[0])
        )
    return decision if len(others) < 2 and others == decision.others else replace(decision, others=others[:1])


def _among(candidates: Candidates, names: Sequence[str], chosen: str) -> tuple[tuple[str, Code], ...]:
    """Return the best of a few names apart from the chosen one."""
    others = [(name, score) for name, score in candidates.scores(names).items() if name != chosen]
    return tuple(sorted(others, key=lambda other: (tuple(-term for term in other[1]), other[0]))[:1])
