"""What a container must be given to use its devices, per vendor, as data.

Device nodes, environment and CDI names are three ways to the same devices; which of them an agent hands over is its
setting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Protocol

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.device import Device
    from linkwise.model.verdict import Part

__all__ = [
    "NEEDS",
    "NO_ISOLATION",
    "ContainerNeeds",
    "Isolation",
    "IsolationProvider",
    "Mount",
    "NeedsRule",
    "NoIsolation",
    "Variables",
    "container_needs",
]

Variables = tuple[tuple[str, str], ...]
"""names and values of environment variables"""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host inside a container."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class ContainerNeeds:
    """What one container must be given."""

    device_nodes: tuple[str, ...] = ()
    environment: Variables = ()
    cdi: tuple[str, ...] = ()
    """qualified names: `vendor.com/class=name`"""
    optional_nodes: tuple[str, ...] = ()
    """device nodes to give where the host has them"""
    mounts: tuple[Mount, ...] = ()
    """from an isolation provider"""


@dataclass(frozen=True, slots=True)
class NeedsRule:
    """One vendor's rule: what every container needs, and what each device adds."""

    node: str
    """the device's own node; `{number}` is its number"""
    control: tuple[str, ...]
    """nodes that every container needs once"""
    cdi: str
    """kind of the CDI names"""
    optional: tuple[str, ...] = ()
    visible: str = ""
    """the variable that names the devices; empty: there is none"""
    named_by: Literal["uuid", "number"] = "number"
    """how the variable and the CDI names call a device"""
    first: int | None = 0
    """number of the device with index 0, where its minor is not known; None: it can't be told from the index"""


NEEDS: Final[Mapping[str, NeedsRule]] = MappingProxyType(
    {
        # rule 002.nodes: each device maps to a list of nodes, its own and those of the driver.
        "nvidia": NeedsRule(
            node="/dev/nvidia{number}",
            control=("/dev/nvidiactl", "/dev/nvidia-uvm"),
            optional=("/dev/nvidia-uvm-tools",),
            visible="NVIDIA_VISIBLE_DEVICES",
            named_by="uuid",
            cdi="nvidia.com/gpu",
            # NVML's index differs from the minor on some hosts; a guess would open another device.
            first=None,
        ),
        "ascend": NeedsRule(
            node="/dev/davinci{number}",
            control=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
            optional=("/dev/dvpp_cmdlist",),
            visible="ASCEND_VISIBLE_DEVICES",
            cdi="huawei.com/npu",
        ),
        "amd": NeedsRule(
            node="/dev/dri/renderD{number}",
            control=("/dev/kfd",),
            cdi="amd.com/gpu",
            first=128,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a container is given besides, so that it stays within its share."""

    environment: Variables = ()
    mounts: tuple[Mount, ...] = ()


class IsolationProvider(Protocol):
    """A hook for software that holds a container to its share of a device."""

    def limit(self, part: Part) -> Isolation:
        """What the container of this part must be given besides."""


class NoIsolation:
    """Adds nothing: the container is trusted to stay within its share."""

    def limit(self, part: Part) -> Isolation:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return Isolation()


NO_ISOLATION: Final = NoIsolation()


def container_needs(
    vendor: str,
    devices: Iterable[Device],
    part: Part | None = None,
    isolation: IsolationProvider = NO_ISOLATION,
) -> ContainerNeeds:
    """What a container with these devices needs, and what the provider adds where it has a share (`part`)."""
    if vendor not in NEEDS:
        raise InputError(f"vendor {vendor!r} is not known: {', '.join(NEEDS)}")
    needs = _of_devices(NEEDS[vendor], tuple(dict.fromkeys(devices)))
    if part is None or not (part.share or part.core):
        return needs
    extra = isolation.limit(part)
    if clash := sorted(dict(needs.environment).keys() & dict(extra.environment).keys()):
        raise InputError(f"the isolation provider would change {', '.join(clash)}")
    return replace(needs, environment=needs.environment + extra.environment, mounts=extra.mounts)


def _of_devices(rule: NeedsRule, devices: tuple[Device, ...]) -> ContainerNeeds:
    if not devices:
        return ContainerNeeds()
    names = _names(rule, devices)
    return ContainerNeeds(
        device_nodes=(*(rule.node.format(number=_number(rule, device)) for device in devices), *rule.control),
        environment=((rule.visible, ",".join(names)),) if rule.visible else (),
        cdi=tuple(f"{rule.cdi}={name}" for name in names),
        optional_nodes=rule.optional,
    )


def _names(rule: NeedsRule, devices: tuple[Device, ...]) -> list[str]:
    if rule.named_by == "number":
        return [str(number) for number in sorted(_own_id(device, rule) for device in devices)]
    for device in devices:
        if device.id.startswith("#") or "," in device.id:
            raise InputError(f"device {device.id!r} has no UUID to name it by")
    return [device.id for device in devices]


def _own_id(device: Device, rule: NeedsRule) -> int:
    """The id that a vendor's tools use: the number of the node where it counts from 0, the index elsewhere."""
    return device.index if rule.first else _number(rule, device)


def _number(rule: NeedsRule, device: Device) -> int:
    if device.minor is not None:
        return device.minor
    if rule.first is None:
        raise InputError(f"the minor number of device {device.id!r} is not known: its node can't be named")
    return rule.first + device.index
