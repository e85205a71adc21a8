"""Usage in DeviceInventory objects: `status.usage`, as the agent writes it and `linkwise top` reads it.

Memory is in MiB, whatever the unit of the node's shares is. Values that are not known are absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from linkwise.dialects.json_fields import Fields, Report
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage

if TYPE_CHECKING:
    from linkwise.model.verdict import Problem

__all__ = ["usage_fields", "usage_in", "with_usage"]


def usage_fields(usage: NodeUsage, time: str = "") -> dict[str, object]:
    """The field `usage`; `time` is that of the reading, empty if it is always current."""
    devices = [
        _known(
            uuid=device.id,
            memoryTotal=_mebibytes(device.total),
            memoryUsed=_mebibytes(device.used),
            utilization=device.utilization,
        )
        for device in usage.devices
    ]
    pods = [
        _known(
            podUID=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            device=pod.device,
            memoryShare=_mebibytes(pod.share),
            memoryUsed=_mebibytes(pod.used),
            utilization=pod.utilization,
        )
        for pod in usage.pods
    ]
    return {**({"time": time} if time else {}), "devices": devices, "pods": pods}


def with_usage(document: Mapping[str, object], fields: Mapping[str, object] | None) -> Mapping[str, object]:
    """The DeviceInventory with its usage; unchanged if there is none."""
    status = document.get("status")
    if fields is None:
        return document
    return {**document, "status": {**(status if isinstance(status, Mapping) else {}), "usage": dict(fields)}}


def usage_in(document: object, node: str) -> tuple[NodeUsage | None, str, tuple[Problem, ...]]:
    """The usage in a DeviceInventory with the time of its reading, and problems; None if there is none."""
    status = document.get("status") if isinstance(document, Mapping) else None
    raw = status.get("usage") if isinstance(status, Mapping) else None
    if raw is None:
        return None, "", ()
    report = Report(f"node {node}", KIND)
    root = Fields.of(raw, "status.usage", report)
    if root is None:
        return None, "", tuple(report.problems)
    devices = [_device(entry) for entry in root.objects("devices")]
    pods = [_pod(entry) for entry in root.objects("pods")]
    time = root.text("time", "") or ""
    usage = NodeUsage(
        tuple(device for device in devices if device is not None), tuple(pod for pod in pods if pod is not None)
    )
    return usage, time, tuple(report.problems)


def _device(entry: Fields) -> DeviceUsage | None:
    uuid = entry.text("uuid")
    if uuid is None:
        return None
    return DeviceUsage(uuid, _bytes(entry, "memoryTotal"), _bytes(entry, "memoryUsed"), _optional(entry, "utilization"))


def _pod(entry: Fields) -> PodUsage | None:
    uid, device = entry.text("podUID"), entry.text("device")
    if uid is None or device is None:
        return None
    return PodUsage(
        uid,
        entry.text("namespace", "") or "",
        entry.text("name", "") or "",
        device,
        _bytes(entry, "memoryUsed"),
        _optional(entry, "utilization"),
        _bytes(entry, "memoryShare"),
    )


def _known(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _mebibytes(amount: int | None) -> int | None:
    return None if amount is None else amount // MIB


def _optional(entry: Fields, name: str) -> int | None:
    return entry.number(name) if name in entry.raw else None


def _bytes(entry: Fields, name: str) -> int | None:
    number = _optional(entry, name)
    return None if number is None else number * MIB
