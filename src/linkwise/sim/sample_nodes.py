"""Nodes of known machine profiles, as watch events; used by fleets, plans and tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.aliyun import COUNT, MEMORY
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_object
from linkwise.dialects.nvidia import RESOURCE as NVIDIA, TOPOLOGY, matrix_annotation
from linkwise.dialects.registry import whole_device_dialect
from linkwise.errors import InputError
from linkwise.model.inventory import NodeFacts
from linkwise.model.topology import Topology
from linkwise.model.views import NodeView
from linkwise.vendors.machine import machine_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.dialects.dialect import Advertised
    from linkwise.model.node import Mode
    from linkwise.vendors.machines import MachineProfile

__all__ = ["fleet_node"]

PERCENT: Final = "koordinator.sh/gpu"
PODS: Final = "110"
GIB: Final = 1024  # MiB


@dataclass(frozen=True, slots=True)
class _Offered:
    """Sharing mode of a node."""

    mode: Mode
    unit: str
    memory: int
    """of one device, in the unit"""
    resources: Mapping[str, str]


def fleet_node(  # noqa: PLR0913 - a builder: every field has a default
    machine: MachineProfile,
    name: str,
    *,
    mode: Mode = "any",
    unhealthy: Collection[int] = (),
    inventory: bool = True,
    labels: Mapping[str, str] | None = None,
) -> tuple[WatchEvent, ...]:
    """A node of this machine; with its inventory as our agent writes it, or as a vendor's plugin alone reports it."""
    offered = _offered(machine, mode)
    devices = machine_devices(machine, name, offered.memory, unhealthy)
    view = NodeView(
        name,
        labels={"kubernetes.io/hostname": name, **_labels(machine, offered), **(labels or {})},
        annotations=_annotations(machine),
        capacity={**_host(machine), **offered.resources},
        allocatable={**_host(machine), **offered.resources},
    )
    if not inventory:
        return (view,)
    topology = machine.topology
    facts = NodeFacts(
        SOURCE,
        devices,
        replace(topology, devices=tuple(device.id for device in devices)),
        machine.hardware,
        offered.mode,
        offered.unit,
        {"model": machine.model, **({"memory": f"{machine.memory}Mi"} if offered.unit == "%" else {})},
    )
    return (view, NodeObject(name, KIND, inventory_object(name, facts, enforced=True)))


def _offered(machine: MachineProfile, mode: Mode) -> _Offered:
    count = machine.devices
    if machine.shared or mode == "share":
        each = machine.memory // GIB
        return _Offered("share", "GiB", each, {MEMORY: str(each * count), COUNT: str(count)})
    if mode == "percent":
        return _Offered("percent", "%", 100, {PERCENT: str(100 * count), NVIDIA: str(count)})
    return _Offered("whole", "MiB", machine.memory, _advertised(machine).resources)


def _labels(machine: MachineProfile, offered: _Offered) -> dict[str, str]:
    if offered.mode == "share":
        return {"gpushare": "true"}
    return dict(_advertised(machine).labels)


def _advertised(machine: MachineProfile) -> Advertised:
    """Resources and labels of a node that allocates whole devices."""
    dialect = whole_device_dialect(machine.vendor)
    if dialect is None:
        raise InputError(f"machine {machine.name}: no dialect requests whole devices of the vendor {machine.vendor}")
    return dialect.advertised(machine.devices, machine.model, machine.hardware)


def _annotations(machine: MachineProfile) -> dict[str, str]:
    links = machine.topology.links
    return {TOPOLOGY: matrix_annotation(Topology(machine.topology.devices, links))} if links else {}


def _host(machine: MachineProfile) -> dict[str, str]:
    return {"cpu": str(machine.cpus), "memory": f"{machine.host_memory}Gi", "pods": PODS}
