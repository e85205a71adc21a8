"""Container needs: device nodes, environment and CDI names that give a container its devices.

Device nodes, environment and CDI names are three ways to the same devices; the agent's settings choose among them.
The rules are the vendors' (`Vendor.container_needs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.errors import InputError
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.device import Device
    from linkwise.model.verdict import Part
    from linkwise.vendors.vendor import NeedsRule

__all__ = [
    "NO_ISOLATION",
    "ContainerNeeds",
    "Isolation",
    "IsolationProvider",
    "Mount",
    "NoIsolation",
    "Variables",
    "container_needs",
    "device_nodes",
    "needs_rules",
    "runtime_variables",
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
    """Device nodes, environment, CDI names and mounts of one container."""

    device_nodes: tuple[str, ...] = ()
    environment: Variables = ()
    cdi: tuple[str, ...] = ()
    """qualified names: `vendor.com/class=name`"""
    optional_nodes: tuple[str, ...] = ()
    """device nodes to give where the host has them"""
    runtime_options: Variables = ()
    """variables to give where the vendor's container runtime adds the device nodes"""
    mounts: tuple[Mount, ...] = ()
    """from an isolation provider"""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Environment and mounts that keep a container within its share."""

    environment: Variables = ()
    mounts: tuple[Mount, ...] = ()


class IsolationProvider(Protocol):
    """Hook for software that limits a container to its share of a device."""

    def limit(self, part: Part) -> Isolation:
        """Environment and mounts to add for the container of this part."""


class NoIsolation:
    """Adds nothing: the container is trusted to stay within its share."""

    def limit(self, part: Part) -> Isolation:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return Isolation()


NO_ISOLATION: Final = NoIsolation()


def runtime_variables() -> tuple[str, ...]:
    """The variables by which vendors' container runtimes select the devices of a container.

    Those that a program reads to use fewer of its devices, such as CUDA_VISIBLE_DEVICES, are not among them.
    """
    named = [vendor.container_needs.visible for vendor in VENDORS.values() if vendor.container_needs]
    return tuple(dict.fromkeys(filter(None, [*named, *(vendor.runtime_variable for vendor in VENDORS.values())])))


def needs_rules() -> dict[str, NeedsRule]:
    """The rules of the vendors that have one, by vendor."""
    return {name: vendor.container_needs for name, vendor in VENDORS.items() if vendor.container_needs is not None}


def container_needs(
    vendor: str,
    devices: Iterable[Device],
    part: Part | None = None,
    isolation: IsolationProvider = NO_ISOLATION,
    siblings: Iterable[Device] = (),
) -> ContainerNeeds:
    """Needs of a container with these devices, with the provider's additions where it has a share (`part`).

    Devices of `siblings` are visible to the container, and not used by it.
    """
    rules = needs_rules()
    if vendor not in rules:
        raise InputError(f"vendor {vendor!r} is not known: {', '.join(rules)}")
    own = tuple(dict.fromkeys(devices))
    # Where no variable tells a program which of the visible devices are its own, it sees only those.
    visible = (*own, *siblings) if own and rules[vendor].used else own
    needs = _of_devices(rules[vendor], own, tuple(dict.fromkeys(visible)))
    if part is None or not (part.share or part.core):
        return needs
    extra = isolation.limit(part)
    if clash := sorted(dict(needs.environment).keys() & dict(extra.environment).keys()):
        raise InputError(f"the isolation provider would change {', '.join(clash)}")
    return replace(needs, environment=needs.environment + extra.environment, mounts=extra.mounts)


def device_nodes(rule: NeedsRule, device: Device) -> tuple[str, ...]:
    """The device's own nodes; InputError if its number is not known."""
    return rule.node.format(number=_number(rule, device)), *device.nodes


def _of_devices(rule: NeedsRule, own: tuple[Device, ...], visible: tuple[Device, ...]) -> ContainerNeeds:
    if not own:
        return ContainerNeeds()
    names = _names(rule, visible)
    # rule 001.environment: all visible devices in one variable, those to use in another.
    variables = ((rule.visible, names), (rule.used, _names(rule, own)))
    return ContainerNeeds(
        device_nodes=(*(node for device in visible for node in device_nodes(rule, device)), *rule.control),
        environment=tuple((variable, ",".join(named)) for variable, named in variables if variable),
        cdi=tuple(f"{rule.cdi}={name}" for name in names),
        optional_nodes=rule.optional,
        runtime_options=rule.runtime_options,
    )


def _names(rule: NeedsRule, devices: tuple[Device, ...]) -> list[str]:
    if rule.named_by == "index":
        return [str(index) for index in sorted(device.index for device in devices)]
    if rule.named_by == "number":
        return [str(number) for number in sorted(_number(rule, device) for device in devices)]
    for device in devices:
        if device.id.startswith("#") or "," in device.id:
            raise InputError(f"device {device.id!r} has no UUID to name it by")
    return [device.id for device in devices]


def _number(rule: NeedsRule, device: Device) -> int:
    if device.minor is not None:
        return device.minor
    if rule.first is None:
        raise InputError(f"the minor number of device {device.id!r} is not known: its node can't be named")
    return rule.first + device.index
