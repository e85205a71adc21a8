"""What a container is given with its devices: environment, device nodes, CDI names and files of the driver.

And the reverse: the devices of a container by what it was given, by whichever plugin. The kind of the CDI specification is our
own, so that specifications which the vendor's toolkit generates do not conflict with it.

NCCL copies between two containers of a node without a detour through the host only if each sees the devices of the
other. The record of a member lists them by index (`visibleGPUs`); the administrator's setting decides whether its
containers see them.

Source: seed 001, "Container environment variable assignment".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.aliyun import environment as share_environment
from linkwise.dialects.koordinator.allocation import visible
from linkwise.dialects.koordinator.dialect import wants_siblings
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.dialects.registry import held_by
from linkwise.engine.ledger import is_whole
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.vendors.container_needs import container_needs, device_nodes, needs_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.settings import Visibility
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocated
    from linkwise.vendors.container_needs import ContainerNeeds, Mount
    from linkwise.vendors.vendor import NeedsRule

__all__ = [
    "HostOptions",
    "cdi_file",
    "cdi_names",
    "cdi_spec",
    "claim_cdi_file",
    "claim_cdi_names",
    "claim_cdi_spec",
    "devices_given",
    "needs_of",
    "siblings_of",
    "visible_devices",
]

_VOLUMES: Final = "/var/run/nvidia-container-devices/"
"""where NVIDIA's plugin mounts a file for each device, if it is configured to name devices by mounts"""
VERSION: Final = "0.5.0"
"""the first version with paths on the host"""
_DOMAIN: Final = "linkwise.dev"
CLAIM_KIND: Final = f"{_DOMAIN}/claim"
"""of the CDI specifications of ResourceClaims"""


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


def visible_devices(
    pod: PodView, own: Sequence[str], devices: Iterable[Device], visibility: Visibility
) -> tuple[str, ...]:
    """Return the ids of the devices that a container sees, in index order; only its own where it may not see others.

    Args:
        pod: as bound, with its record in the annotations.
        own: ids of the container's devices.
        devices: all devices of the node.
        visibility: the administrator's setting.
    """
    # rule 001.environment: members see their group's devices on the node, unless the administrator or the pod says no.
    if visibility == "never" or not wants_siblings(pod, by_default=visibility == "group"):
        return tuple(own)
    by_index = {device.index: device for device in devices}
    if not _lists_whole_devices(pod, by_index):
        return tuple(own)
    seen = [by_index[index] for index in sorted(visible(pod)) if index in by_index]
    # A container does not start if a device that it should see has failed, so those of others must be healthy.
    ids = tuple(device.id for device in seen if device.healthy or device.id in own)
    return ids if set(own) <= set(ids) else tuple(own)  # kubelet allocated others than recorded


def siblings_of(answer: Allocated, devices: Mapping[str, Device], visibility: Visibility) -> list[Device]:
    """Return the devices that the container of a call sees beside its own; `devices` are all of the node, by id."""
    if answer.claim is None:
        return []
    seen = visible_devices(answer.claim.pod, answer.devices, devices.values(), visibility)
    return [devices[device] for device in seen if device not in answer.devices]


def cdi_kind(vendor: str) -> str:
    """Vendor and class of the names."""
    return f"{_DOMAIN}/{vendor}"


def cdi_file(vendor: str) -> str:
    """Name of the file, as the CDI specification recommends it."""
    return f"linkwise.dev-{vendor}.json"


def cdi_names(vendor: str, devices: Iterable[Device]) -> tuple[str, ...]:
    """Qualified names of devices."""
    return tuple(f"{cdi_kind(vendor)}={device.id}" for device in devices)


def cdi_spec(
    vendor: str,
    devices: Iterable[Device],
    host_path: Callable[[str], str] = str,
    exists: Callable[[str], bool] = lambda _: True,
    mounts: Sequence[Mount] = (),
) -> dict[str, Any]:
    """The specification.

    Args:
        vendor: name of the vendor.
        devices: those whose node is known; containers can't be given others.
        host_path: where the host has a device node.
        exists: whether the host has it.
        mounts: files of the driver, where no vendor's toolkit adds them.
    """
    rule = needs_rules()[vendor]
    # rule 002.libraries, 002.nodes
    shared = [node for node in (*rule.control, *rule.optional) if exists(node)]
    edits: dict[str, Any] = {"deviceNodes": [_node(node, host_path) for node in shared]}
    if mounts:
        edits["mounts"] = [_mount(mount) for mount in mounts]
    return {
        "cdiVersion": VERSION,
        "kind": cdi_kind(vendor),
        "devices": [
            {
                "name": device.id,
                "containerEdits": {"deviceNodes": [_node(node, host_path) for node in device_nodes(rule, device)]},
            }
            for device in devices
            if device.minor is not None or rule.first is not None
        ],
        "containerEdits": edits,
    }


def claim_cdi_file(uid: str) -> str:
    """Name of the file for a ResourceClaim, by its UID."""
    return f"linkwise.dev-claim-{uid}.json"


def claim_cdi_names(uid: str, request: str) -> tuple[str, ...]:
    """Qualified names by which a container gets the devices of one request of a claim."""
    return (f"{CLAIM_KIND}={_claim_device(uid, request)}",)


def claim_cdi_spec(
    uid: str,
    requests: Mapping[str, Sequence[Device]],
    host: HostOptions,
    host_path: Callable[[str], str] = str,
) -> dict[str, Any]:
    """The specification of a ResourceClaim, with one CDI device per request; InputError if a device's node is not known.

    A container may use all requests of a claim, and then has the variables of the last one. So the variable of the devices to
    use is set only where there is one request: without it a program uses all of which the container has the device nodes.
    """
    rule = needs_rules()[host.vendor]
    shared = [node for node in (*rule.control, *rule.optional) if host.exists(node)]
    edits: dict[str, Any] = {"deviceNodes": [_node(node, host_path) for node in shared]}
    if host.mounts:
        edits["mounts"] = [_mount(mount) for mount in host.mounts]
    entries = []
    for request, devices in requests.items():
        variables = dict(container_needs(host.vendor, devices).environment)
        if len(requests) > 1:
            variables.pop(rule.used, None)
        nodes = [_node(node, host_path) for device in devices for node in device_nodes(rule, device)]
        environment = [f"{name}={value}" for name, value in variables.items()]
        entries.append(
            {"name": _claim_device(uid, request), "containerEdits": {"deviceNodes": nodes, "env": environment}}
        )
    return {"cdiVersion": VERSION, "kind": CLAIM_KIND, "devices": entries, "containerEdits": edits}


def _claim_device(uid: str, request: str) -> str:
    return f"{uid}-{request.replace('/', '.')}"


def _grant_of(allocated: Allocated) -> Grant:
    """The grant of the container's pod on the device that it has."""
    device, units = allocated.devices[0], len(allocated.ids)
    recorded = held_by(allocated.claim.pod).grant if allocated.claim else None
    if recorded is None:
        return Grant("", "", Offer("", (Part("", (device,), units),)), mode="share")
    parts = tuple(replace(part, devices=(device,)) for part in recorded.offer.parts)
    return replace(recorded, offer=replace(recorded.offer, parts=parts))


def _nodes(rule: NeedsRule, device: Device) -> tuple[str, ...]:
    return device_nodes(rule, device) if device.minor is not None or rule.first is not None else device.nodes


def _called(names: Iterable[str], rule: NeedsRule, devices: Mapping[str, Device]) -> tuple[str, ...]:
    """Devices by their id or number; none if one of the names is of no device, such as `all`."""
    numbers = {
        str(device.minor if rule.named_by == "number" and device.minor is not None else device.index): device.id
        for device in devices.values()
    }
    ids = [name if name in devices else numbers.get(name, "") for name in names]
    return tuple(dict.fromkeys(ids)) if all(ids) else ()


def _lists_whole_devices(pod: PodView, by_index: Mapping[int, Device]) -> bool:
    """Return whether the pod was granted whole devices, and their indices are still those of the grant.

    Devices of which a member has a part are used by pods of other groups too. Indices change if a device is lost.
    """
    grant = Linkwise().held(pod).grant
    parts = grant.offer.parts if grant else ()
    recorded = [(index, device) for part in parts for index, device in zip(part.indices, part.devices, strict=False)]
    same = all(index in by_index and by_index[index].id == device for index, device in recorded)
    return bool(parts) and same and all(map(is_whole, parts))


def _node(path: str, host_path: Callable[[str], str]) -> dict[str, str]:
    there = host_path(path)
    return {"path": path, "permissions": "rw"} | ({"hostPath": there} if there != path else {})


def _mount(mount: Mount) -> dict[str, Any]:
    options = ["ro", "nosuid", "nodev", "bind"] if mount.read_only else ["nosuid", "nodev", "bind"]
    return {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": options}
