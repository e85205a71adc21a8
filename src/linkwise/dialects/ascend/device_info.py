"""Chips of a node in the forms of Huawei's device plugin: lists in annotations, and the ConfigMap of its scheduler plug-in.

Source: contract ascend, sections 1 and 2. The check code of the ConfigMap is the SHA-256 of `DeviceInfo` as Go's
encoding/json writes it: keys of maps in order, no blanks, and <, > and & escaped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from linkwise.dialects.ascend.rank_table import ChipDetails, chip_names, json_object
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DATA_KEY",
    "NAMESPACE",
    "PREFIX",
    "REFRESH",
    "ChipStates",
    "DeviceInfo",
    "chip_lists",
    "config_map",
    "details_text",
    "is_current",
    "no_annotations",
    "node_annotations",
]

NAMESPACE: Final = "kube-system"
PREFIX: Final = "mindx-dl-deviceinfo-"
"""of the name of the ConfigMap; the node's name follows"""
DATA_KEY: Final = "DeviceInfoCfg"
REFRESH: Final = 300  # seconds
"""after which Huawei's device plugin writes the ConfigMap again without a change, so that readers see that it lives"""
_LABELS: Final = {"mx-consumer-cim": "true", "mx-consumer-volcano": "true"}
_UNKNOWN: Final = -1
"""super pod and server index of a machine that belongs to none"""
_DETAILS: Final = "baseDeviceInfos"
_UNHEALTHY: Final = "-Unhealthy"
_UNREACHABLE: Final = "-NetworkUnhealthy"
_SUFFIXES: Final = ("", _UNHEALTHY, _UNREACHABLE)
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True, slots=True)
class ChipStates:
    """The chips of a node under one resource, by number."""

    resource: str
    free: frozenset[int] = frozenset()
    """healthy chips that no pod has"""
    unhealthy: frozenset[int] = frozenset()
    unreachable: frozenset[int] = frozenset()
    """chips whose network port does not work"""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The content of a node's ConfigMap, without the time at which it is written."""

    node: str
    lists: Mapping[str, str]


def chip_lists(states: ChipStates) -> dict[str, str]:
    """The `DeviceList` of the ConfigMap."""
    resource = states.resource
    # rule 003.faulty: faulty chips are in the list of unhealthy ones, and in that of free ones never.
    return {
        resource: chip_names(states.free - states.unhealthy, resource),
        f"{resource}{_UNHEALTHY}": chip_names(states.unhealthy, resource),
        f"{resource}{_UNREACHABLE}": chip_names(states.unreachable, resource),
        f"{resource}-Recovering": "",
        f"{resource}-Fault": _go_json([_fault(number, resource) for number in sorted(states.unhealthy)]),
    }


def node_annotations(states: ChipStates, details: Mapping[int, ChipDetails]) -> dict[str, str | None]:
    """The annotations of the Node, for tools of the versions before the ConfigMap, and for rank tables."""
    lists = chip_lists(states)
    listed: dict[str, str | None] = {
        f"{states.resource}{suffix}": lists[f"{states.resource}{suffix}"] for suffix in _SUFFIXES
    }
    return {**listed, _DETAILS: details_text(details, states.resource) if details else None}


def no_annotations(resource: str) -> dict[str, str | None]:
    """The removal of all annotations of `node_annotations`."""
    return dict.fromkeys([*(f"{resource}{suffix}" for suffix in _SUFFIXES), _DETAILS])


def details_text(details: Mapping[int, ChipDetails], resource: str) -> str:
    """Addresses of chips as the annotation of the Node holds them."""
    return _go_json(
        {
            chip_names([number], resource): {"IP": one.ip, "SuperDeviceID": one.super_device or 0}
            for number, one in sorted(details.items())
        }
    )


def config_map(desired: DeviceInfo, now: int) -> dict[str, object]:
    """The ConfigMap of a node; `now` in seconds since the epoch."""
    info = {"DeviceList": dict(sorted(desired.lists.items())), "UpdateTime": now}
    config = {
        "DeviceInfo": info,
        "SuperPodID": _UNKNOWN,
        "ServerIndex": _UNKNOWN,
        "CheckCode": sha256(_go_json(info).encode()).hexdigest(),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{PREFIX}{desired.node}", "namespace": NAMESPACE, "labels": dict(_LABELS)},
        "data": {DATA_KEY: _go_json(config)},
    }


def is_current(document: Mapping[str, object], desired: DeviceInfo, now: float) -> bool:
    """Whether a ConfigMap shows these lists, and was written not long ago."""
    try:
        info = json_object(json_object(json_object(document.get("data")).get(DATA_KEY)).get("DeviceInfo"))
        shown = json_object(info.get("DeviceList"))
    except InputError:
        return False
    written = info.get("UpdateTime")
    return dict(shown) == dict(desired.lists) and type(written) is int and now - written < REFRESH


def _fault(number: int, resource: str) -> dict[str, object]:
    return {
        "fault_type": "CardUnhealthy",
        "npu_name": chip_names([number], resource),
        "large_model_fault_level": "SeparateNPU",
        "fault_level": "SeparateNPU",
        "fault_handling": "SeparateNPU",
        "fault_code": "",
    }


def _go_json(value: object) -> str:
    """JSON as Go's encoding/json writes it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return "".join(_ESCAPES.get(letter, letter) for letter in text)
