"""Devices of a pod's group that its containers may see, so that they reach each other without copies through the host.

Isolation between members is by environment alone; a pod has to ask for it, and only members of one owner share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.dialects.koordinator.allocation import visible
from linkwise.dialects.koordinator.dialect import wants_siblings

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import PodView

__all__ = ["blind_siblings", "visible_to"]


def visible_to(state: State, pod: PodView, entry: Entry) -> tuple[str, ...]:
    """What members of one owner have or will have on the node, by the plan as it is at the bind; its own included."""
    ledger = state.cluster.ledger
    others = (ledger.get(sibling.uid) for sibling in _siblings(state, pod))
    there = [other.grant.offer for other in others if other and other.node == entry.node]
    return tuple(dict.fromkeys(device for offer in (entry.grant.offer, *there) for device in offer.devices))


def blind_siblings(state: State, pod: PodView, entry: Entry) -> list[Event]:
    """Members that started before and can't see what this one gets: their environment is fixed."""
    node = state.cluster.index.nodes.get(entry.node)
    indices = {device.id: device.index for device in node.devices} if node else {}
    own = {indices[device] for device in entry.grant.offer.devices if device in indices}
    blind = [
        sibling.name
        for sibling in _siblings(state, pod)
        if sibling.node == entry.node and wants_siblings(sibling) and not own <= visible(sibling)
    ]
    if not blind:
        return []
    sentence = f"{', '.join(blind)} started earlier and can't see its devices"
    return [Event("Warning", "VisibilityReduced", sentence, pod.namespace, pod.name, pod.uid, entry.node)]


def _siblings(state: State, pod: PodView) -> list[PodView]:
    """The other members that the same owner made; nobody's where the pod does not wish to see them."""
    found = state.groups.gather(state.groups.key_of(pod.uid))
    if found is None or pod.owner is None or not wants_siblings(pod):
        return []
    members = (*found.bound, *found.waiting)
    return [other for other in members if other.uid != pod.uid and other.owner and other.owner.uid == pod.owner.uid]
