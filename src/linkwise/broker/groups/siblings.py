"""Devices of a group on one node, which its members may see for communication without copies through the host.

The record always lists them; whether containers see them is a setting of the node agent (`linkwise.node.visibility`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.recorded_grants import allocated_parts
from linkwise.broker.effects import Event
from linkwise.dialects.koordinator.allocation import TOPOLOGY, visible

if TYPE_CHECKING:
    from linkwise.broker.effects import Bind
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry

__all__ = ["visibility_events", "visible_to"]

MEMBERS: Final = {"PLANNED", "BOOKED", "ASSUMED", "ASSIGNED"}
"""entries of members that are bound or planned; a member that is being deleted leaves its group"""


def visible_to(state: State, uid: str, node: str) -> tuple[str, ...]:
    """Return the devices on the node of the pod's other members, bound or planned; none without a group."""
    members = _siblings(state, uid, node)
    if not members:
        return ()
    # rule 001.record: the group's devices on the node are listed, whatever its containers really see.
    inventory = state.cluster.inventories[node]
    known = {device.id for device in inventory.devices}  # members may have devices that the node lost
    parts = (part for member in members for part in allocated_parts(inventory, member))
    return tuple(dict.fromkeys(device for part in parts for device in part.devices if device in known))


def visibility_events(state: State, bound: Bind) -> list[Event]:
    """Return a warning if the records of members that were bound earlier do not list this pod's devices.

    A container's environment can't be changed, so they do not see devices of a later plan.
    """
    if TOPOLOGY not in bound.annotations or bound.grant is None:
        return []
    indices = {device.id: device.index for device in state.cluster.inventories[bound.node].devices}
    own = {indices[device] for device in bound.grant.offer.devices if device in indices}
    entries = _siblings(state, bound.uid, bound.node)
    unaware = [name for entry in entries if (name := _unaware(state, entry, bound.grant.generation, own))]
    if not unaware:
        return []
    sentence = f"its devices are not listed as visible to {', '.join(unaware)}, which started earlier"
    return [Event("Warning", "VisibilityReduced", sentence, bound.namespace, bound.name, bound.uid, bound.node)]


def _unaware(state: State, entry: Entry, generation: int, own: set[int]) -> str:
    """Return the name of a bound member whose record does not list the devices; empty if it lists them."""
    pod = state.pod(entry.pod)
    if pod is None or entry.state == "PLANNED":
        return ""
    if not pod.node:  # its record is not observed yet; it lists what its own plan has
        return pod.name if entry.grant.generation != generation else ""
    return pod.name if TOPOLOGY in pod.annotations and not own <= visible(pod) else ""


def _siblings(state: State, uid: str, node: str) -> list[Entry]:
    """Return the ledger entries of the other members on the node; none for a pod beyond the number of members."""
    key = state.groups.key_of(uid)
    view = state.groups.view(key) if key else None
    if view is None or uid in view.extra:
        return []
    entries = state.cluster.ledger.on(node)
    members = [entry for entry in entries if entry.state in MEMBERS and state.groups.key_of(entry.pod) == key]
    return [entry for entry in members if entry.pod not in {uid, *view.extra}]
