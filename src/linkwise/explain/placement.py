"""Explains the placement of a pod: by the record of the decision, and by what would be chosen if it were placed again now.

The record has the facts of the moment: which devices were free, how the node scored, which one came next. A pod that
another scheduler placed has no such record, and gets no reason. Nodes are compared term by term of the policy's score.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.pods import allocated_parts
from linkwise.dialects.linkwise.dialect import GRANT, recorded_decision
from linkwise.dialects.linkwise.inventory import SOURCE
from linkwise.dialects.registry import BY_NAME
from linkwise.engine.usage import drift_text
from linkwise.explain.choice.devices import why_chosen
from linkwise.explain.reports import ContainerDevices, OtherNode, PlacedBecause, Term
from linkwise.explain.survey import against_all, survey
from linkwise.model.node import Node, Use
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import WHOLE_CORE, shares_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.engine.ledger import Entry, State as LedgerState
    from linkwise.explain.reports import Explanation, PodState
    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.verdict import Decision, Part
    from linkwise.model.views import PodView

__all__ = ["container_devices", "explain_placed", "other_node", "rank_of", "scored", "terms_of"]

_STATES: Final[Mapping[LedgerState, PodState]] = {
    "OFFERED": "scheduling",
    "PLANNED": "planned",
    "CLAIMED": "claimed",
    "BOOKED": "booked",
    "ASSUMED": "binding",
    "ASSIGNED": "bound",
    "RELEASING": "terminating",
}


def explain_placed(state: State, pod: PodView, request: PodRequest, entry: Entry, report: Explanation) -> Explanation:
    """Explain a pod that has devices, or for which some are assumed or reserved."""
    inventory = state.cluster.inventories.get(entry.node)
    parts = allocated_parts(inventory, entry) if inventory else entry.grant.offer.parts
    drift = [each for each in state.cluster.drift.get(entry.node, ()) if entry.key in each.pods]
    gone = () if inventory else (f"node {entry.node} no longer exists",)
    foreign = _is_foreign(state, pod, entry)
    report = replace(
        report,
        state=_STATES[entry.state],
        node=entry.node,
        foreign=foreign,
        policy="" if foreign else entry.grant.policy or report.policy,
        devices=container_devices(parts, inventory.devices if inventory else ()),
        unit=inventory.unit if inventory else "",
        outcome=entry.outcome,
        record=_record(entry, inventory),
        notes=(*(drift_text(each, state.name_of) for each in drift), *gone, *report.notes),
    )
    query = _query_of(state, pod, request, report.policy)
    if foreign or entry.state == "RELEASING" or query is None or not parts or query.policy.admit(query.ask):
        return report
    decision = _decision_of(pod, entry)
    if decision and inventory:
        report = replace(report, because=_because(query, inventory, parts, decision))
    report = _compared(state, pod, query, parts, report)
    # A plan is decided once its members are bound: until then what holds now is the reason.
    return replace(report, because=PlacedBecause(0, choice=report.choice)) if entry.state == "PLANNED" else report


def _decision_of(pod: PodView, entry: Entry) -> Decision | None:
    """Return the decision of the bind in flight, or that of the record, unless the record was changed since."""
    if entry.decision or BY_NAME[SOURCE].held(pod).grant != entry.grant:
        return entry.decision
    return recorded_decision(pod, GRANT)


def _is_foreign(state: State, pod: PodView, entry: Entry) -> bool:
    """Return whether another scheduler bound the pod: it is observed on its node and has no grant of ours."""
    if pod.uid in state.cluster.unwritten and entry.unrecorded_ask is None:
        return False  # its grant is being written
    observed = entry.state in {"ASSIGNED", "RELEASING"} and not entry.serial
    return observed and BY_NAME[SOURCE].held(pod).grant is None


def _because(query: Query, inventory: NodeInventory, parts: Sequence[Part], decision: Decision) -> PlacedBecause:
    """Word the record of a decision, with the node as it was then."""
    own = tuple(Term(name, value, leading=False) for name, value in zip(decision.terms, decision.score, strict=True))
    others = [(name, score) for name, score in decision.others if len(score) == len(own)]
    devices = list(dict.fromkeys(device for part in parts for device in part.devices))
    return PlacedBecause(
        decision.considered,
        own,
        why_chosen(query, _node_then(query, inventory, decision), devices),
        _compare(own, *others[0]) if others else None,
        decision.nominated,
    )


def _node_then(query: Query, inventory: NodeInventory, decision: Decision) -> Node:
    """Return the node as it was for the pod when its devices were chosen: all other devices count as used."""
    rooms = {index: (memory, core) for index, memory, core in decision.rooms}
    used: dict[str, Use] = {}
    for device in inventory.devices:
        memory, core = rooms.get(device.index, (0, 0))
        if device.index in rooms and (memory < device.memory or core < WHOLE_CORE):
            share = max(0, device.memory - memory)
            used[device.id] = Use(share, WHOLE_CORE - core, domains=frozenset({query.ask.domain}))
        elif device.index not in rooms and device.index not in decision.free:
            used[device.id] = Use(whole=True)
    devices = tuple(replace(device, healthy=True) for device in inventory.devices)
    return Node(inventory.name, devices, used, inventory.topology, inventory.profile, unit=inventory.unit)


def _compared(state: State, pod: PodView, query: Query, parts: tuple[Part, ...], report: Explanation) -> Explanation:
    node = state.cluster.node_without(report.node, {report.uid})
    if node is None:
        return report
    others = survey(state, pod, query, but=report.node)
    own = scored(query, node, parts)
    report = replace(report, against=against_all(state, query, others), fitting=len(others.fitting) + (own is not None))
    if own is None:
        return report
    devices = list(dict.fromkeys(device for part in parts for device in part.devices))
    return replace(
        report,
        terms=terms_of(query, own),
        rank=rank_of(own, others.fitting),
        choice=why_chosen(query, node, devices),
        other=other_node(query, own, others.fitting),
    )


def _query_of(state: State, pod: PodView, request: PodRequest, policy: str) -> Query | None:
    """Return the query with the policy of the grant, which may differ from the one used now."""
    query = state.query_of(request, pod)
    return query._replace(policy=state.policies.get(policy, query.policy)) if query else None


def _record(
    entry: Entry, inventory: NodeInventory | None
) -> Literal["", "seen", "claimed", "enforced", "expected", "unrecorded"]:
    if inventory is None:
        return ""
    if inventory.by_claims:
        return "claimed"
    if entry.pod in inventory.allocations:
        return "seen"
    if entry.unrecorded_ask is not None:
        return "unrecorded"
    return "enforced" if inventory.enforced else "expected"


def container_devices(parts: Iterable[Part], devices: Iterable[Device]) -> tuple[ContainerDevices, ...]:
    """Return devices by container with their indices; devices that the node lacks have no index."""
    index = {device.id: device.index for device in devices}
    return tuple(
        ContainerDevices(
            part.container,
            part.devices,
            tuple(index[name] for name in part.devices if name in index),
            part.share,
            part.core,
        )
        for part in parts
    )


def scored(query: Query, node: Node, parts: Sequence[Part]) -> Code | None:
    """Return the score of a pod's devices on its node without the pod; None if they could not be allocated now."""
    offer = Offer(node.name, tuple(parts))
    ask = query.ask
    healthy = {device.id for device in node.healthy() if shares_on(ask, device.memory, device.bytes) is not None}
    if not isinstance(query.pick(node), Offer) or not healthy.issuperset(offer.devices):
        return None
    return query.score(node, offer) if len(offer.devices) == (ask.devices or 1) else None


def terms_of(query: Query, code: Code) -> tuple[Term, ...]:
    """Return the named terms of a score."""
    policy = query.policy
    return tuple(
        Term(name, value, place < policy.leading)
        for place, (name, value) in enumerate(zip(policy.terms, code, strict=True))
    )


def rank_of(own: Code, others: Iterable[tuple[str, Code]]) -> int:
    """Return the rank of a score among others, from 1; equal scores share a rank."""
    return 1 + sum(code > own for _, code in others)


def other_node(query: Query, own: Code, others: Sequence[tuple[str, Code]]) -> OtherNode | None:
    """Return the best other node and the first term in which it differs; None if there is no other."""
    if not others:
        return None
    return _compare(terms_of(query, own), *others[0])


def _compare(own: Sequence[Term], name: str, code: Code) -> OtherNode:
    """Compare another node with the terms of the chosen one: the first in which they differ."""
    terms = list(zip(own, code, strict=True))
    for here, there in terms:
        if here.value != there:
            verdict: Literal["better", "worse"] = "better" if there > here.value else "worse"
            # Link scores are shown themselves, not as the classes by which they are compared.
            exact = [pair for pair in terms if pair[0].name == "score"] if here.name == "links" else []
            shown, value = exact[0] if exact else (here, there)
            return OtherNode(name, verdict, shown.name, here.leading, value, shown.value)
    return OtherNode(name, "equal")
