"""Each member of a group with its place, and the nodes that they share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.recorded_grants import parts_held
from linkwise.broker.state import pod_name
from linkwise.engine.planning.seating__pairs import slowest_pair
from linkwise.explain.placement__comparing import given
from linkwise.explain.reports.group import GroupNode, ToldMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.groups.registry import Gathered
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["hosts_of", "told_members"]


def told_members(state: State, found: Gathered, plan: Plan | None, *, held: bool) -> tuple[ToldMember, ...]:
    """Bound ones first, then those that wait by rank, then those that leave or are too many."""
    extra = [pod for uid in found.extra if (pod := state.pod(uid))]
    return (
        *(_bound(state, pod) for pod in found.bound),
        *(_waiting(state, pod, plan, held=held) for pod in found.waiting),
        *(_bound(state, pod) for pod in found.leaving),
        *(replace(_nowhere(state, pod), state="extra") for pod in extra),
    )


def hosts_of(state: State, members: Iterable[ToldMember]) -> tuple[GroupNode, ...]:
    """The nodes of the members that have a place, in the order of these."""
    homes: dict[str, list[ToldMember]] = {}
    for member in members:
        if member.node:
            homes.setdefault(member.node, []).append(member)
    return tuple(_host(state, name, there) for name, there in homes.items())


def _host(state: State, name: str, members: Sequence[ToldMember]) -> GroupNode:
    node = state.cluster.index.nodes.get(name)
    devices = {device for member in members for part in member.devices for device in part.devices}
    indices = tuple(sorted({index for member in members for index in member.indices}))
    if node is None:
        return GroupNode(name, len(members), indices, 0)
    idle = sum(device.id not in devices for device in node.free()) - node.unattributed
    return GroupNode(name, len(members), indices, max(0, idle), slowest_pair(node, devices))


def _bound(state: State, pod: PodView) -> ToldMember:
    entry = state.cluster.ledger.get(pod.uid)
    stock = state.cluster.stocks.get(entry.node) if entry else None
    parts = parts_held(stock, entry) if stock and entry else entry.grant.offer.parts if entry else ()
    told = _placed(state, _nowhere(state, pod), pod.node, parts)
    under_way = entry is not None and entry.state == "ASSUMED"
    return replace(told, state="leaving" if pod.deleting else "promised" if under_way else "bound")


def _waiting(state: State, pod: PodView, plan: Plan | None, *, held: bool) -> ToldMember:
    told = _nowhere(state, pod)
    if pod.gates:
        return replace(told, state="gated")
    if plan is None:
        return told
    placement = plan.placements.get(pod.uid)
    if placement is None:
        return replace(told, state="left out") if told.asks else told
    told = _placed(state, told, placement.node, placement.offer.parts if placement.offer else ())
    return replace(told, state="planned" if held else "fits")


def _placed(state: State, told: ToldMember, name: str, parts: tuple[Part, ...]) -> ToldMember:
    node = state.cluster.index.nodes.get(name)
    devices = dict.fromkeys(device for part in parts for device in part.devices)
    return replace(
        told,
        node=name,
        devices=given(parts, node.devices if node else ()),
        bottleneck=slowest_pair(node, list(devices)) if node else None,
    )


def _nowhere(state: State, pod: PodView) -> ToldMember:
    ask = state.wish(pod).ask
    return ToldMember(pod.uid, pod_name(pod), "waiting", ask.devices if ask else 0)
