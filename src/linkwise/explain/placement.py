"""Why a pod has its devices: judged beside other nodes as they are now, with the pod itself taken out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.recorded_grants import parts_held
from linkwise.engine.drift import drift_text
from linkwise.explain.choice import why_chosen
from linkwise.explain.placement__comparing import given, other_node, rank_of, scored, terms_of
from linkwise.explain.survey import against_all, node_without, survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.cluster.pod_request import Wish
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Wanted
    from linkwise.engine.ledger import Entry, State as LedgerState
    from linkwise.explain.reports.pod import Explanation, PodState
    from linkwise.model.inventory import Stock
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["explain_placed"]

_STATES: Final[Mapping[LedgerState, PodState]] = {
    "PLANNED": "planned",
    "ASSUMED": "promised",
    "ASSIGNED": "bound",
    "RELEASING": "leaving",
}


def explain_placed(state: State, pod: PodView, wish: Wish, entry: Entry, told: Explanation) -> Explanation:
    """What is said of a pod that was promised devices."""
    stock = state.cluster.stocks.get(entry.node)
    parts = parts_held(stock, entry) if stock else entry.grant.offer.parts
    drift = [found for found in state.cluster.drift.get(entry.node, ()) if entry.pod in found.pods]
    gone = () if stock else (f"node {entry.node} is not known any more",)
    told = replace(
        told,
        state=_STATES[entry.state],
        node=entry.node,
        policy=entry.grant.policy or told.policy,
        devices=given(parts, stock.devices if stock else ()),
        unit=stock.unit if stock else "",
        outcome=entry.outcome,
        record=_record(entry, stock),
        notes=(*(drift_text(found, state.name_of) for found in drift), *gone, *told.notes),
    )
    wanted = _wanted(state, wish, told.policy)
    if entry.state == "RELEASING" or wanted is None or not parts or wanted.policy.admit(wanted.ask):
        return told
    return _compared(state, pod, wanted, parts, told)


def _compared(state: State, pod: PodView, wanted: Wanted, parts: tuple[Part, ...], told: Explanation) -> Explanation:
    node = node_without(state, told.node, told.uid)
    if node is None:
        return told
    found = survey(state, pod, wanted, but=told.node)
    own = scored(wanted, node, parts)
    told = replace(told, against=against_all(state, wanted, found), fitting=len(found.fitting) + (own is not None))
    if own is None:
        return told
    devices = list(dict.fromkeys(device for part in parts for device in part.devices))
    return replace(
        told,
        terms=terms_of(wanted, own),
        rank=rank_of(own, found.fitting),
        choice=why_chosen(wanted, node, devices),
        other=other_node(wanted, own, found.fitting),
    )


def _wanted(state: State, wish: Wish, policy: str) -> Wanted | None:
    """The ask with the policy that it was granted by, which may be another than it would get now."""
    wanted = state.wanted(wish)
    return wanted._replace(policy=state.policies.get(policy, wanted.policy)) if wanted else None


def _record(entry: Entry, stock: Stock | None) -> Literal["", "seen", "enforced", "expected", "untold"]:
    if stock is None:
        return ""
    if entry.pod in stock.allocations:
        return "seen"
    if entry.untold is not None:
        return "untold"
    return "enforced" if stock.enforced else "expected"
