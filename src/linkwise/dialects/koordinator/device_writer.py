"""Koordinator's Device object as the agent writes it, and whether an object of another writer is there already.

koordlet writes the same object and overwrites what others write, so the agent does so only on request, and leaves the
object of another writer alone.

Source: seed 001, "GPU topology resource reporting"; Koordinator's Device, version v1alpha1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from linkwise.dialects.koordinator.device_object import LABELS, MATRIX, TYPE
from linkwise.dialects.koordinator.quantities import CORE, MEMORY, PREFIXES, RATIO, WHOLE

if TYPE_CHECKING:
    from linkwise.model.device import Device
    from linkwise.model.discovery import Discovery

__all__ = ["API_VERSION", "KIND", "MANAGED_BY", "MANAGER", "device_object", "other_writer"]

API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
KIND: Final = "Device"
MANAGED_BY: Final = "linkwise.dev/managed-by"
MANAGER: Final = "linkwise-agent"
"""the field manager of the agent's writes, and the value of the label"""

_VENDORS: Final = {"ascend": "huawei"}
"""where Koordinator has another name"""
_MEBIBYTE: Final = 1 << 20
_UNKNOWN: Final = -1


def device_object(node: str, found: Discovery, labels: Mapping[str, str]) -> dict[str, object]:
    """The object to write; `labels` are the model and the driver by these names, as valid label values."""
    devices = sorted(found.devices, key=_minor)
    values = {**labels, "vendor": _VENDORS.get(found.vendor, found.vendor)} if found.devices else {}
    named = {key: values[word] for key, word in LABELS.items() if values.get(word)}
    matrix = _matrix(found, devices)
    # rule 001.report: as the seed has it, beside our own inventory.
    topologies = {"topologies": {TYPE: [{"name": MATRIX, "topology": matrix}]}} if matrix else {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node, "labels": {MANAGED_BY: MANAGER, **named}},
        "spec": {**topologies, "devices": [_entry(device) for device in devices]},
    }


def other_writer(document: Mapping[str, object] | None) -> str:
    """Who else writes the object: the field manager if it is known; empty if no other client does, or there is no object."""
    if document is None:
        return ""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    managers = [name for name in _spec_managers(metadata.get("managedFields")) if name != MANAGER]
    if managers:
        return managers[0]
    labels = metadata.get("labels")
    return "" if isinstance(labels, Mapping) and labels.get(MANAGED_BY) == MANAGER else "an unknown writer"


def _spec_managers(entries: object) -> list[str]:
    """The managers of fields of the spec."""
    found = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    return [
        str(entry.get("manager") or "an unknown writer")
        for entry in found
        if isinstance(fields := entry.get("fieldsV1"), Mapping) and "f:spec" in fields
    ]


def _minor(device: Device) -> int:
    return device.index if device.minor is None else device.minor


def _entry(device: Device) -> dict[str, object]:
    prefix, size = PREFIXES[0], device.bytes or device.memory * _MEBIBYTE
    amounts = {CORE: str(WHOLE), RATIO: str(WHOLE)} | ({MEMORY: str(size)} if size else {})
    entry: dict[str, object] = {
        "type": TYPE,
        "id": device.id,
        "minor": _minor(device),
        "health": device.healthy,
        "resources": {f"{prefix}{word}": amount for word, amount in amounts.items()},
    }
    if device.numa is None and not device.bus_id:
        return entry
    # The schema requires these fields; koordlet writes the same for what it does not know.
    numa = _UNKNOWN if device.numa is None else device.numa
    bus = {"busID": device.bus_id} if device.bus_id else {}
    return {**entry, "topology": {"socketID": _UNKNOWN, "nodeID": numa, "pcieID": "", **bus}}


def _matrix(found: Discovery, devices: list[Device]) -> str:
    """The bandwidth matrix as JSON, its rows in the order of the minors; empty if it is not complete."""
    topology = found.topology
    if not topology or not topology.bandwidth or {device.id for device in devices} != set(topology.devices):
        return ""
    order = [topology.devices.index(device.id) for device in devices]
    rows = [[topology.bandwidth[i][j] if i != j else _diagonal(topology.bandwidth[i][i]) for j in order] for i in order]
    return json.dumps(rows, separators=(",", ":"))


def _diagonal(value: float) -> float:
    """A device with itself may be anything, also what JSON can't hold."""
    return value if 0 <= value < float("inf") else 0
