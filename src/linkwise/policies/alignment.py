"""NUMA alignment of whole devices: which of them a node's kubelet can give to each container.

The kubelet's Topology Manager rejects a pod that it can't align (TopologyAffinityError), and offers a device plugin only
devices of the NUMA nodes that it chose. Both depend on free devices and, for pods with exclusive CPUs, on free CPUs.

The locality terms of a score stand behind those of links, so that they never cost a pod or other pods bandwidth between
devices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.model.verdict import Offer, Part, Reason, Reject
from linkwise.topology.numa import MOST_NODES, Locality, aligned_nodes, devices_by_node, locality_of, numa_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node, NumaAlignment
    from linkwise.topology.numa import Demand

    Amounts = Mapping[int, int]
    """by NUMA node"""
    from collections.abc import Sequence


__all__ = ["is_aligned", "locality", "locality_terms", "may_reject", "pick_aligned", "within"]


def is_aligned(node: Node) -> bool:
    """Whether the kubelet chooses among the node's devices by their NUMA nodes."""
    if node.alignment is None or node.alignment.policy == "none":
        return False
    return 0 < len(devices_by_node(node.devices)) <= MOST_NODES


def may_reject(node: Node) -> bool:
    """Whether the kubelet rejects pods whose devices it can't align."""
    return is_aligned(node) and node.alignment is not None and node.alignment.rejects


def within(ask: Ask, node: Node) -> Node | Reject:
    """The node with only the devices on the NUMA nodes that its kubelet aligns the ask with, or a refusal."""
    if not is_aligned(node) or node.alignment is None:
        return node
    totals: Amounts = devices_by_node(node.devices)
    free: Amounts = devices_by_node(node.free())
    if node.unattributed:  # devices in use whose NUMA nodes are not known may be on any
        free = {place: max(0, count - node.unattributed) for place, count in free.items()}
    demands = _demands(ask, node.alignment, totals, free)
    places = aligned_nodes(node.alignment.policy, demands)
    if places is None:
        return _rejected(ask, node, node.alignment, totals, free)
    if sum(free.get(place, 0) for place in places) < ask.devices:
        return node  # best effort: devices whose NUMA node is not known are needed too
    return node.with_only({device.id for device in node.free() if device.numa in places})


def pick_aligned(ask: Ask, node: Node, choose: Callable[[Ask, Node], Offer | Reject]) -> Offer | Reject:
    """The choice among the devices that the kubelet can give to the pod, or to each container by the scope."""
    if not is_aligned(node) or node.alignment is None:
        return choose(ask, node)
    asks = [ask] if node.alignment.scope == "pod" or ask.required else list(_by_container(ask))
    parts, notes = list[Part](), dict[str, None]()
    for own in asks:
        there = within(own, node)
        offer = there if isinstance(there, Reject) else choose(own, there)
        if isinstance(offer, Reject):
            return offer
        parts += offer.parts
        notes |= dict.fromkeys(offer.notes)
        left = {device.id for device in node.free()}.difference(offer.devices)
        node = node.with_only(left)
    return Offer(node.name, tuple(parts), notes=tuple(notes))


def locality(node: Node, *, nics: bool) -> Locality:
    """NUMA nodes and NICs by the positions of the node's topology."""
    if node.topology is None:
        return Locality()
    return locality_of(node.devices, node.positions(), len(node.topology.devices), nics=nics)


def locality_terms(node: Node, devices: Sequence[str], *, nics: bool) -> tuple[int, int]:
    """Two terms: minus the NUMA nodes beyond the first, and the devices with a NIC; larger is better."""
    # rule 002.affinity: a set on one NUMA node goes before one on several, and NICs count if the administrator says so.
    chosen = [device for device in node.devices if device.id in devices]
    span = numa_count([device.numa for device in chosen])
    return min(0, 1 - span), sum(bool(device.nics) for device in chosen) if nics else 0


def _demands(ask: Ask, alignment: NumaAlignment, totals: Amounts, free: Amounts) -> list[Demand]:
    """What the kubelet aligns: devices, and CPUs if they are exclusive and known by NUMA node."""
    demands: list[Demand] = [(totals, free, ask.devices)]
    if ask.cpus and alignment.cpus:
        demands.append((dict(alignment.total_cpus), dict(alignment.cpus), ask.cpus))
    return demands


def _rejected(ask: Ask, node: Node, alignment: NumaAlignment, totals: Amounts, free: Amounts) -> Reject:
    """The refusal of a node whose kubelet would reject the pod; final if that does not depend on other pods."""
    # rule 002.affinity: a pod that the Topology Manager would reject is not placed.
    idle = [(total, total, size) for total, _, size in _demands(ask, alignment, totals, free)]
    final = aligned_nodes(alignment.policy, idle) is None
    by_devices = aligned_nodes(alignment.policy, [(totals, totals if final else free, ask.devices)])
    kind = alignment.policy if by_devices is None else f"{alignment.policy} cpus"
    demand = ask.devices if by_devices is None else ask.cpus
    amounts = (totals if final else free) if by_devices is None else dict(alignment.cpus)
    return Reject(node.name, Reason("002.affinity", demand, tuple(sorted(amounts.items())), kind), final=final)


def _by_container(ask: Ask) -> Iterator[Ask]:
    """The asks of the single containers, in the order in which the kubelet allocates."""
    asking = [container for container in ask.containers if container.devices]
    return (replace(ask, containers=(container,), cpus=container.cpus) for container in asking)
