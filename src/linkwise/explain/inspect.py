"""Inspection of nodes device by device, with the pods on each: for inspect commands and describe pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.cluster.pods import usage_of_entry
from linkwise.broker.readers import domains_for
from linkwise.engine.reasons.phrases import OTHER_NAMESPACE, OTHER_POD
from linkwise.model.node import FREE
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry, State as LedgerState
    from linkwise.model.device import Device
    from linkwise.model.inventory import Hold, NodeInventory
    from linkwise.model.node import Mode, Node, Use

__all__ = ["Holder", "InspectedDevice", "NodeInspection", "inspect_nodes", "inspections"]

HolderState = Literal[
    "scheduling", "reserved", "planned", "claimed", "booked", "binding", "bound", "terminating", "unknown"
]
"""`bound` and `terminating` pods are observed on the node; `unknown` pods are reported by its agent only"""

_STATES: Final[Mapping[LedgerState, HolderState]] = {
    "OFFERED": "scheduling",
    "RESERVED": "reserved",
    "PLANNED": "planned",
    "CLAIMED": "claimed",
    "BOOKED": "booked",
    "ASSUMED": "binding",
    "ASSIGNED": "bound",
    "RELEASING": "terminating",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod and its share of one device, or of an unknown device."""

    uid: str
    namespace: str
    name: str
    state: HolderState
    share: int = 0
    core: int = 0
    whole: bool = False
    devices: int = 0
    """the number of complete devices, if it is not known which"""
    other: int = 0
    """tells pods apart that are not named to the reader; 0 for one that is"""

    @property
    def full_name(self) -> str:
        """Its name with its namespace, as far as they are known."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def seen(self) -> bool:
        """Whether the pod was observed on the node."""
        return self.state in {"bound", "terminating", "unknown"}


@dataclass(frozen=True, slots=True)
class InspectedDevice:
    """One device."""

    id: str
    index: int
    model: str
    memory: int  # in the unit of the node
    healthy: bool
    share: int  # taken, in the unit of the node
    core: int  # percent taken
    whole: bool
    """whether it is used exclusively"""
    room: int  # free, in the unit of the node
    namespaces: tuple[str, ...]
    pods: tuple[Holder, ...]
    claim: str = ""
    """the ResourceClaim that has it, with its namespace"""
    domains: tuple[str, ...] = ()
    """sharing domains of its pods: only pods of the same domain may join"""
    reachable: bool = True
    """whether other nodes can reach it; otherwise it serves only jobs of one pod"""
    hold: Hold | None = None
    """the hold on it by the node's agent"""
    fault: str = ""
    """why it is unhealthy, if that is known"""
    cordoned: bool = False
    """whether an administrator keeps new pods off it"""
    cordon_reason: str = ""

    @property
    def usable(self) -> bool:
        """Whether new pods may get it."""
        return self.healthy and not self.cordoned


@dataclass(frozen=True, slots=True)
class NodeInspection:
    """One node."""

    name: str
    mode: Mode
    unit: str
    """of memory and shares: MiB, GiB, %"""
    profile: str
    enforced: bool
    """whether our agent allocates the devices"""
    devices: tuple[InspectedDevice, ...]
    unattributed: tuple[Holder, ...]
    """pods whose devices are unknown"""
    memory: int
    """of all devices"""
    taken: int
    """used memory, including pods whose devices are unknown"""
    idle: int
    """usable devices without a pod, less those that pods with unknown devices may use"""
    by_claims: bool = False
    """whether ResourceClaims allocate the devices"""
    by_index: int = 0
    """pods whose records have device ids that the node does not report, so that the index identifies their devices"""


_new_device: Final = fast_constructor(InspectedDevice)


def inspect_nodes(
    broker: Broker, name: str | None, now: float, readable: frozenset[str] | None = None
) -> tuple[NodeInspection, ...]:
    """One node device by device, or every node with devices in order of their names; empty if it is unknown.

    Pods and claims are named if they are of the `readable` namespaces; None for all.
    """
    return inspections(broker.state_at(now, readable), name)


def inspections(state: State, name: str | None) -> tuple[NodeInspection, ...]:
    """The same for a caller that has the state already."""
    inventories = state.cluster.inventories
    names = (
        [name]
        if name in inventories
        else []
        if name is not None
        else sorted(key for key in inventories if inventories[key].devices)
    )
    inspected = (_inspected(state, inventories[key], state.cluster.index.nodes[key]) for key in state.pausing(names))
    return tuple(inspected if state.readable is None else (_for_reader(state, node) for node in inspected))


def _for_reader(state: State, node: NodeInspection) -> NodeInspection:
    """Return the inspection without names of what the reader may not see."""
    others: dict[str, int] = {}

    def holder(pod: Holder) -> Holder:
        if not pod.namespace or not state.hides(pod.namespace):
            return pod
        number = others.setdefault(pod.uid, len(others) + 1)
        return replace(pod, uid="", namespace="", name=OTHER_POD, other=number)

    def device(one: InspectedDevice) -> InspectedDevice:
        named = (state.pod(pod.uid) for pod in one.pods if one.domains and not state.hides(pod.namespace))
        own = {state.cluster.sharing_of(pod) for pod in named if pod}
        return replace(
            one,
            namespaces=tuple(OTHER_NAMESPACE if state.hides(name) else name for name in one.namespaces),
            pods=tuple(map(holder, one.pods)),
            claim=OTHER_NAMESPACE if one.claim and state.hides(one.claim.partition("/")[0]) else one.claim,
            domains=domains_for(state, one.domains, own),
        )

    devices = tuple(map(device, node.devices))
    return replace(node, devices=devices, unattributed=tuple(map(holder, node.unattributed)))


def _inspected(state: State, inventory: NodeInventory, node: Node) -> NodeInspection:
    holders: dict[str, list[Holder]] = {device.id: [] for device in node.devices}
    unattributed: list[Holder] = []
    by_index = 0
    for entry in state.cluster.ledger.on(inventory.name):
        alone = usage_of_entry(inventory, entry)
        for device, use in alone.used.items():
            holders[device].append(_holder(state, entry, use))
        ids = {device for device in entry.grant.offer.devices if not device.startswith("#")}
        by_index += bool(alone.used) and ids.isdisjoint(alone.used) and bool(ids)
        if alone.unattributed or alone.unattributed_share or alone.unattributed_core:
            lost = (alone.unattributed_share, alone.unattributed_core, False, alone.unattributed)
            unattributed.append(Holder(*_named(state, entry), *lost))
    for drift in state.cluster.drift.get(inventory.name, ()):
        if drift.kind == "stranger":
            for device in drift.devices:
                holders[device].append(Holder(str(drift.pods[0]), "", str(drift.pods[0]), "unknown", whole=True))
    return _summed(inventory, node, holders, unattributed, 0 if inventory.allocations else by_index)


def _summed(
    inventory: NodeInventory,
    node: Node,
    holders: Mapping[str, Sequence[Holder]],
    unattributed: Sequence[Holder],
    by_index: int,
) -> NodeInspection:
    rooms = node.room()
    devices = tuple(
        _device(inventory, node, device, rooms.get(device.id, 0), holders[device.id]) for device in node.devices
    )
    taken = sum(device.memory if device.whole else device.share for device in devices)
    return NodeInspection(
        inventory.name,
        node.mode,
        inventory.unit,
        inventory.profile,
        inventory.enforced,
        devices,
        tuple(unattributed),
        sum(device.memory for device in devices),
        taken + node.unattributed_share,
        max(0, len(node.free()) - node.unattributed),
        inventory.by_claims,
        by_index,
    )


def _device(inventory: NodeInventory, node: Node, device: Device, room: int, pods: Sequence[Holder]) -> InspectedDevice:
    claim = inventory.claims.get(device.id, "") if inventory.claims else ""
    # Without a claim, a device of such a node only stands for the number that a pod will get.
    use = FREE if inventory.by_claims and not claim else node.used.get(device.id, FREE)
    return _new_device(
        device.id,
        device.index,
        device.model,
        device.memory,
        device.id not in inventory.faults,
        use.share,
        use.core,
        use.whole,
        room,
        tuple(sorted({pod.namespace for pod in pods if pod.namespace})) if use.domains else (),
        tuple(pods),
        claim,
        tuple(sorted(use.domains)) if use.domains else (),
        device.reachable,
        next((hold for hold in inventory.holds if hold.device == device.id), None) if inventory.holds else None,
        inventory.faults.get(device.id, ""),
        device.id in inventory.cordoned,
        inventory.cordoned.get(device.id, ""),
    )


def _holder(state: State, entry: Entry, use: Use) -> Holder:
    return Holder(*_named(state, entry), use.share, use.core, use.whole)


def _named(state: State, entry: Entry) -> tuple[str, str, str, HolderState]:
    pod = state.pod(entry.pod)
    return entry.pod, entry.namespace, pod.name if pod else entry.pod, _STATES[entry.state]
