"""Cordoned devices: the annotation of a Node by which an administrator keeps new pods off single devices.

Like `spec.unschedulable`, it is written with the permission to patch nodes, which tenants do not have. It is on the Node
and not in the DeviceInventory, which the agent owns: a cordon must outlive agents, and hold on nodes without one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_node
from linkwise.dialects.json_fields import json_value, shown
from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.device import Device
    from linkwise.model.views import NodeView

__all__ = ["CORDONED", "LONGEST_REASON", "cordon_annotation", "cordoned_devices", "cordons_of"]

CORDONED: Final = "linkwise.dev/cordoned-devices"
LONGEST_REASON: Final = 256  # characters
_LONGEST_ID: Final = 253  # characters
_NONE: Final[Mapping[str, str]] = {}


def cordons_of(view: NodeView) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """Reasons by device: its id, or `#` and its index where ids are not known. Invalid entries are ignored, with a problem."""
    text = view.annotations.get(CORDONED)
    if not text:
        return _NONE, ()
    try:
        value = json_value(text)
    except InputError as error:
        return _NONE, (_problem(view, str(error)),)
    if not isinstance(value, dict):
        return _NONE, (_problem(view, f"it is {shown(value)}; an object of reasons by device is expected"),)
    cordons, problems = {}, []
    for device, reason in value.items():
        if not _is_line(device, _LONGEST_ID) or not device:
            problems.append(_problem(view, f"{shown(device)} is not the id of a device"))
        elif not isinstance(reason, str) or not _is_line(reason, LONGEST_REASON):
            problems.append(
                _problem(view, f"the reason of device {device} is {shown(reason)}; it is cordoned without one")
            )
            cordons[device] = ""
        else:
            cordons[device] = reason
    return cordons, tuple(problems)


def cordoned_devices(devices: Iterable[Device], cordons: Mapping[str, str]) -> dict[str, str]:
    """The reason of each cordoned device, by its id; devices that are not there are left out."""
    if not cordons:
        return {}
    keys = {device.id: device.id if device.id in cordons else f"#{device.index}" for device in devices}
    return {id_: cordons[key] for id_, key in keys.items() if key in cordons}


def cordon_annotation(cordons: Mapping[str, str]) -> str | None:
    """The value of the annotation; None removes it."""
    return json.dumps(dict(sorted(cordons.items())), ensure_ascii=False) if cordons else None


def _is_line(text: str, longest: int) -> bool:
    return len(text) <= longest and text.isprintable()


def _problem(view: NodeView, sentence: str) -> Problem:
    return Problem(where_node(view), CORDONED, f"{sentence}; use `linkwise cordon` and `linkwise uncordon`")
