"""What a container is given with its devices: environment, device nodes, CDI names and files of the driver.

And the reverse: the devices of a container by what it was given, by whichever plugin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.aliyun import environment as share_environment
from linkwise.dialects.registry import held_by
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.node.cdi_spec import cdi_names
from linkwise.vendors.container_needs import container_needs, device_nodes, needs_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.node.allocation import Allocated
    from linkwise.vendors.container_needs import ContainerNeeds, Mount
    from linkwise.vendors.vendor import NeedsRule

__all__ = ["HostOptions", "devices_given", "needs_of"]

_VOLUMES: Final = "/var/run/nvidia-container-devices/"
"""where NVIDIA's plugin mounts a file for each device, if it is configured to name devices by mounts"""


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


def devices_given(needs: ContainerNeeds, devices: Mapping[str, Device], vendor: str) -> tuple[str, ...]:
    """Ids of the devices that a plugin gave to a container, by its answer; empty if that does not name them clearly.

    Args:
        needs: the answer.
        devices: all devices of the node, by id.
        vendor: of the devices.
    """
    rule, environment = needs_rules().get(vendor), dict(needs.environment)
    if rule is None:
        return ()
    # The variable of the devices to use first: a container may see others of its group. It may also count them from 0.
    used = environment.get(rule.used, "").split(",")
    nodes = {node: device.id for device in devices.values() for node in _nodes(rule, device)}
    files = [mount.container_path for mount in needs.mounts if mount.container_path.startswith(_VOLUMES)]
    named = (
        tuple(name for name in used if name in devices),
        tuple(dict.fromkeys(nodes[node] for node in needs.device_nodes if node in nodes)),
        _called([name.partition("=")[2] for name in needs.cdi], rule, devices),
        _called(environment.get(rule.visible, "").split(","), rule, devices),
        _called([path.removeprefix(_VOLUMES) for path in files], rule, devices),
    )
    return next(filter(None, named), ())


def _nodes(rule: NeedsRule, device: Device) -> tuple[str, ...]:
    return device_nodes(rule, device) if device.minor is not None or rule.first is not None else device.nodes


def _called(names: Iterable[str], rule: NeedsRule, devices: Mapping[str, Device]) -> tuple[str, ...]:
    """Devices by their id or number; none if one of the names is of no device, such as `all`."""
    numbers = {
        str(device.minor if rule.named_by == "number" and device.minor is not None else device.index): device.id
        for device in devices.values()
    }
    found = [name if name in devices else numbers.get(name, "") for name in names]
    return tuple(dict.fromkeys(found)) if all(found) else ()


def _grant_of(allocated: Allocated) -> Grant:
    """The grant of the container's pod on the device that it has."""
    device, units = allocated.devices[0], len(allocated.ids)
    recorded = held_by(allocated.claim.pod).grant if allocated.claim else None
    if recorded is None:
        return Grant("", "", Offer("", (Part("", (device,), units),)), mode="share")
    parts = tuple(replace(part, devices=(device,)) for part in recorded.offer.parts)
    return replace(recorded, offer=replace(recorded.offer, parts=parts))
