"""Explains a node: its devices, the pods that use them, and the requests that still fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of
from linkwise.engine.drift import drift_text
from linkwise.engine.feasibility import all_unfit
from linkwise.engine.index.node_index import Query
from linkwise.explain.choice.devices import why_chosen
from linkwise.explain.inspect import inspections
from linkwise.explain.reports.node import NodeExplanation, Suspect
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.demand import Demand
from linkwise.model.verdict import Offer
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.explain.reports.choice import Choice
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import AskMode, Node

__all__ = ["explain_node"]

SMALL_POD: Final = Demand(cpu=1000, memory=1 << 30)
"""the smallest realistic host request: a node with less free is full"""


def explain_node(
    broker: Broker, name: str, now: float, readable: frozenset[str] | None = None
) -> NodeExplanation | None:
    """Explain a node to a reader of these namespaces, or of all; None if it is unknown."""
    state = broker.state_at(now, readable)
    inspected = inspections(state, name)
    if not inspected:
        return None
    cluster, inventory, node = state.cluster, state.cluster.inventories[name], state.cluster.index.nodes[name]
    entries = cluster.ledger.on(name)
    by_pod = inventory.mode == "any" and bool(entries)
    served = _sizes(state, node)
    view = cluster.nodes[name]
    return NodeExplanation(
        name,
        inspected[0],
        "pod" if by_pod else "nothing" if inventory.mode == "any" else "node",
        state.name_of(entries[0].pod) if by_pod else "",
        inventory.unidentified,
        tuple(served),
        _largest(state, node, served),
        state.settings.share.within == "any",
        all_unfit(SMALL_POD, view, capacity_of(view), cluster.load(name)),
        tuple(_suspects(node)),
        _is_linked(inventory),
        tuple(drift_text(drift, state.name_of) for drift in cluster.drift.get(name, ())),
        tuple(problem.text for problem in inventory.problems),
    )


def _sizes(state: State, node: Node) -> list[int]:
    """Return the numbers of devices that one pod could get now."""
    free = max(0, len(node.free()) - node.unattributed)
    if not node.profile:
        return list(range(1, free + 1)) if node.mode != "share" and not node.unattributed_share else []
    return [size for size in range(1, free + 1) if isinstance(_offer(state, node, size), Offer)]


def _largest(state: State, node: Node, served: list[int]) -> Choice | None:
    offer = _offer(state, node, served[-1]) if served else None
    return why_chosen(_query_of(state, node, served[-1]), node, offer.devices) if isinstance(offer, Offer) else None


def _suspects(node: Node) -> Iterator[Suspect]:
    """Yield pairs with a bad bandwidth sample."""
    topology = node.topology
    if topology is None or not topology.bandwidth:
        return
    # rule 001.suspect: the report has what was measured, and what is used instead.
    fabric, samples, positions = fabric_of(topology.bandwidth, topology.links), topology.bandwidth, node.positions()
    at = {positions[device.id]: device.index for device in node.devices if device.id in positions}
    for one, other in fabric.suspects:
        if one in at and other in at:
            yield Suspect((at[one], at[other]), samples[one][other], samples[other][one], fabric.values[one][other])


def _is_linked(inventory: NodeInventory) -> bool:
    """Return whether the links of the devices are known; a profile has them, and a single device or claims need none."""
    topology = inventory.topology
    known = topology is not None and bool(topology.links or topology.bandwidth)
    return known or bool(inventory.profile) or inventory.by_claims or len(inventory.devices) < 2


def _offer(state: State, node: Node, size: int) -> Offer | None:
    query = _query_of(state, node, size)
    offer = None if query.policy.admit(query.ask) else query.pick(node)
    return offer if isinstance(offer, Offer) else None


def _query_of(state: State, node: Node, size: int) -> Query:
    mode: AskMode = "percent" if node.mode == "percent" else "whole"
    ask = Ask("", (ContainerAsk("", devices=size),), profile=node.profile, mode=mode)
    return Query(ask, "", state.policies["ring-affinity" if node.profile else "link-affinity"])
