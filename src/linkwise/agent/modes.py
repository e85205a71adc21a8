"""Sharing mode of a node's devices: whole devices or shares of their memory, one at a time.

The same device under two resource names would be counted twice, by the kubelet and by the scheduler.
Source: seed 004, whose nodes have the label `gpushare=true`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.agent.kubelet.state import registered_ids
from linkwise.dialects.aliyun import MEMORY
from linkwise.dialects.registry import BY_NAME, owners, whole_device_dialect
from linkwise.node.allocation import id_problem
from linkwise.node.publishing import memory_in

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.config.settings import AgentSettings
    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery
    from linkwise.model.views import NodeView

__all__ = ["ResourceMode", "checkpoint_mode", "resource_mode", "resources_of_vendor", "wanted_mode"]

SharingMode = Literal["whole", "share"]
WantedMode = Literal["whole", "share", "dra"]

SHARE_LABEL: Final = "gpushare"


@dataclass(frozen=True, slots=True)
class ResourceMode:
    """The resource under which the kubelet counts the node's devices."""

    resource: str
    mode: SharingMode
    unit: str
    """of memory"""
    problem: str = ""
    """why the resource can't be served, and what to set"""

    @property
    def shared(self) -> bool:
        """Whether an id is a unit of memory."""
        return self.mode == "share"

    def devices(self, found: Discovery) -> tuple[Device, ...]:
        """The devices, with their memory in the unit."""
        return tuple(replace(device, memory=memory_in(self.unit, device.memory)) for device in found.devices)


def wanted_mode(settings: AgentSettings, view: NodeView | None) -> WantedMode:
    """The mode by the setting, else by the label of the node."""
    if settings.mode != "auto":
        return settings.mode
    return "share" if view is not None and view.labels.get(SHARE_LABEL) == "true" else "whole"


def checkpoint_mode(folder: Path) -> SharingMode | None:
    """The mode of the last run by the kubelet's checkpoint, for starts without an API server; None if it is not known."""
    registered = registered_ids(folder)
    if registered.get(MEMORY):
        return "share"
    return "whole" if any(owners(name) for name, ids in registered.items() if ids) else None


def resource_mode(found: Discovery, mode: SharingMode, unit: str) -> ResourceMode | None:
    """The resource of the discovered devices; None if no dialect has one for their vendor."""
    dialect, names = whole_device_dialect(found.vendor), [device.id for device in found.devices]
    if mode == "share" and found.vendor == BY_NAME["aliyun"].vendor:
        shared = ResourceMode(MEMORY, "share", unit)
        return replace(shared, problem=id_problem(shared.devices(found), unit))
    return ResourceMode(dialect.resource_for(names), "whole", "MiB") if dialect else None


def resources_of_vendor(vendor: str) -> frozenset[str]:
    """All resources by which a plugin may serve devices of the vendor."""
    return frozenset(name for dialect in BY_NAME.values() if dialect.vendor == vendor for name in dialect.resources)
