"""Why a pod has its devices: judged beside other nodes as they are now, with the pod itself taken out.

How the devices of one node compare with what other nodes would give, term by term.
"""
# Joined from explaining_placed, comparing: one docstring for all.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.recorded_grants import parts_held
from linkwise.engine.drift import drift_text
from linkwise.explain.choice import why_chosen
from linkwise.explain.reports.pod import Given, OtherNode, Term
from linkwise.explain.survey import against_all, node_without, survey
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.engine.ledger import Entry, State as LedgerState
    from linkwise.explain.reports.pod import Explanation, PodState
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["explain_placed", "given", "other_node", "rank_of", "scored", "terms_of"]

_STATES: Final[Mapping[LedgerState, PodState]] = {
    "PLANNED": "planned",
    "ASSUMED": "binding",
    "ASSIGNED": "bound",
    "RELEASING": "terminating",
}


def explain_placed(state: State, pod: PodView, wish: PodRequest, entry: Entry, told: Explanation) -> Explanation:
    """What is said of a pod that was promised devices."""
    stock = state.cluster.inventories.get(entry.node)
    parts = parts_held(stock, entry) if stock else entry.grant.offer.parts
    drift = [found for found in state.cluster.drift.get(entry.node, ()) if entry.pod in found.pods]
    gone = () if stock else (f"node {entry.node} no longer exists",)
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


def _compared(state: State, pod: PodView, wanted: Query, parts: tuple[Part, ...], told: Explanation) -> Explanation:
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


def _wanted(state: State, wish: PodRequest, policy: str) -> Query | None:
    """The ask with the policy that it was granted by, which may be another than it would get now."""
    wanted = state.query_of(wish)
    return wanted._replace(policy=state.policies.get(policy, wanted.policy)) if wanted else None


def _record(entry: Entry, stock: NodeInventory | None) -> Literal["", "seen", "enforced", "expected", "unrecorded"]:
    if stock is None:
        return ""
    if entry.pod in stock.allocations:
        return "seen"
    if entry.unrecorded_ask is not None:
        return "unrecorded"
    return "enforced" if stock.enforced else "expected"


def given(parts: Iterable[Part], devices: Iterable[Device]) -> tuple[Given, ...]:
    """The parts with the indices of their devices; a device that the node does not have has none."""
    index = {device.id: device.index for device in devices}
    return tuple(
        Given(
            part.container,
            part.devices,
            tuple(index[name] for name in part.devices if name in index),
            part.share,
            part.core,
        )
        for part in parts
    )


def scored(wanted: Query, node: Node, parts: Sequence[Part]) -> Code | None:
    """The score of devices that a pod has, on its node as it is without it; None if they could not be given now."""
    offer = Offer(node.name, tuple(parts))
    ask = wanted.ask
    sound = {device.id for device in node.healthy() if shares_on(ask, device.memory, device.bytes) is not None}
    if not isinstance(wanted.policy.pick(ask, node), Offer) or not sound.issuperset(offer.devices):
        return None
    return wanted.policy.score(ask, node, offer) if len(offer.devices) == (ask.devices or 1) else None


def terms_of(wanted: Query, code: Code) -> tuple[Term, ...]:
    """The numbers of a score with their names."""
    policy = wanted.policy
    return tuple(
        Term(name, value, place < policy.leading)
        for place, (name, value) in enumerate(zip(policy.terms, code, strict=True))
    )


def rank_of(own: Code, others: Iterable[tuple[str, Code]]) -> int:
    """The place of a score among others, from 1; equal scores share a place."""
    return 1 + sum(code > own for _, code in others)


def other_node(wanted: Query, own: Code, others: Sequence[tuple[str, Code]]) -> OtherNode | None:
    """The best of the others, with the first term in which it differs; None if there is none."""
    if not others:
        return None
    name, code = others[0]
    for here, there in zip(terms_of(wanted, own), code, strict=True):
        if here.value != there:
            better = there > here.value
            return OtherNode(name, "better" if better else "worse", here.name, here.leading, there, here.value)
    return OtherNode(name, "equal")
