"""Visibility of the devices of a group's other members, for communication without copies through the host.

Isolation between members is by environment variables only; a pod must request it, and only members of one owner share.
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

__all__ = ["visibility_events", "visible_to"]


def visible_to(state: State, pod: PodView, entry: Entry) -> tuple[str, ...]:
    """Return the devices of the owner's members on the node, planned ones and its own included."""
    ledger = state.cluster.ledger
    others = (ledger.get(sibling.uid) for sibling in _siblings(state, pod))
    there = [other.grant.offer for other in others if other and other.node == entry.node]
    return tuple(dict.fromkeys(device for offer in (entry.grant.offer, *there) for device in offer.devices))


def visibility_events(state: State, pod: PodView, entry: Entry) -> list[Event]:
    """Return a warning if members that started earlier can't see this pod's devices: their environment is fixed."""
    node = state.cluster.index.nodes.get(entry.node)
    indices = {device.id: device.index for device in node.devices} if node else {}
    own = {indices[device] for device in entry.grant.offer.devices if device in indices}
    unaware = [
        sibling.name
        for sibling in _siblings(state, pod)
        if sibling.node == entry.node and wants_siblings(sibling) and not own <= visible(sibling)
    ]
    if not unaware:
        return []
    sentence = f"{', '.join(unaware)} started earlier and can't see its devices"
    return [Event("Warning", "VisibilityReduced", sentence, pod.namespace, pod.name, pod.uid, entry.node)]


def _siblings(state: State, pod: PodView) -> list[PodView]:
    """Return the other members of the same owner; none if the pod does not request visibility."""
    view = state.groups.view(state.groups.key_of(pod.uid))
    if view is None or pod.owner is None or not wants_siblings(pod):
        return []
    members = (*view.bound, *view.waiting)
    return [other for other in members if other.uid != pod.uid and other.owner and other.owner.uid == pod.owner.uid]
