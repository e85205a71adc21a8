"""What a container is given with its devices: environment, device nodes, CDI names and files of the driver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkwise.dialects.aliyun import environment as share_environment
from linkwise.dialects.registry import held_by
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.node.cdi_spec import cdi_names
from linkwise.vendors.container_needs import container_needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.node.allocation import Allocated
    from linkwise.vendors.container_needs import ContainerNeeds, Mount

__all__ = ["HostOptions", "needs_of"]


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What the node has for containers."""

    vendor: str
    exists: Callable[[str], bool]
    """whether the host has a device node"""
    cdi: bool = False
    """whether the container runtime reads our CDI specification, which has the device nodes and mounts"""
    mounts: tuple[Mount, ...] = ()
    """files of the driver, where no vendor's toolkit adds them"""
    runtime: bool = False
    """whether the vendor's container runtime adds device nodes and files of the driver, by the environment"""
    isolated: bool = True
    """false where the node's label disables cGPU"""


def needs_of(
    allocated: Allocated, devices: Mapping[str, Device], siblings: Sequence[Device], host: HostOptions, *, shared: bool
) -> ContainerNeeds:
    """What the container of one call is given.

    Args:
        allocated: the ids of the call, and the container they are for, if that is known.
        devices: all devices of the node, by id.
        siblings: devices of other members of the pod's group that it may see.
        host: what the node has.
        shared: whether an id is a unit of memory.
    """
    own = [devices[device] for device in allocated.devices]
    needs = container_needs(host.vendor, own, siblings=siblings)
    environment = needs.environment
    if shared:
        # rule 004.environment: the variables of GPU share, for each container.
        grant = _grant_of(allocated)
        added = share_environment(grant, len(allocated.ids), devices, isolated=host.isolated)
        environment = (*environment, *added.items())
    if host.runtime:
        return replace(
            needs,
            device_nodes=(),
            optional_nodes=(),
            environment=(*environment, *needs.runtime_options),
            cdi=(),
            runtime_options=(),
        )
    needs = replace(needs, runtime_options=())
    if host.cdi:
        visible = dict.fromkeys((*own, *siblings))
        return replace(
            needs, device_nodes=(), optional_nodes=(), environment=environment, cdi=cdi_names(host.vendor, visible)
        )
    # rule 002.nodes: every device is a list of nodes, its own and those of the driver.
    optional = tuple(node for node in needs.optional_nodes if host.exists(node))
    nodes = (*needs.device_nodes, *optional)
    return replace(needs, device_nodes=nodes, optional_nodes=(), environment=environment, cdi=(), mounts=host.mounts)


def _grant_of(allocated: Allocated) -> Grant:
    """The grant of the container's pod on the device that it has."""
    device, units = allocated.devices[0], len(allocated.ids)
    recorded = held_by(allocated.claim.pod).grant if allocated.claim else None
    if recorded is None:
        return Grant("", "", Offer("", (Part("", (device,), units),)), mode="share")
    parts = tuple(replace(part, devices=(device,)) for part in recorded.offer.parts)
    return replace(recorded, offer=replace(recorded.offer, parts=parts))
