"""Rank tables: Ascend chips by name and address, as lists, details on nodes, or hccl.json of a job.

Source: contract ascend, sections 1, 3 and 5. In the annotation for rank tables ids of chips are texts; `super_pod_id`
is a number, as the operator's own type has it, and is read in both forms.

Source: contract ascend, section 5, version 1.0; all numbers are texts. Huawei's controllers write it into a ConfigMap that
the user creates with the job and mounts into its pods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_node, where_pod
from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from linkwise.model.views import NodeView, PodView

__all__ = [
    "DETAILS",
    "INITIALIZING",
    "KEY",
    "RANK_KEYS",
    "VENDOR",
    "ChipDetails",
    "Ranks",
    "Server",
    "chip_details",
    "chip_names",
    "chip_number",
    "chip_numbers",
    "config_map_name",
    "json_list",
    "json_object",
    "rank_index",
    "rank_key",
    "rank_text",
    "ranks",
    "read_ranks",
    "read_table",
    "shown",
    "table_job",
    "table_text",
]

VENDOR: Final = "huawei.com/"
DETAILS: Final = ("huawei.com/npu.base-device-infos", "baseDeviceInfos")  # the newer name first
_NAME: Final = re.compile(r"([0-9A-Za-z]+)-(0|[1-9][0-9]{0,3})")
_KEY: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
_KEYS: Final = {"huawei.com/npu": "ascend.kubectl.kubernetes.io/ascend-npu-configuration"}
RANK_KEYS: Final = (_KEY, *_KEYS.values())
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
KEY: Final = "hccl.json"
INITIALIZING: Final = '{"status":"initializing"}'
"""until all pods of the job have their chips"""
_LABEL: Final = "ring-controller.atlas"
_VERSION: Final = "1.0"
_JOB_LABELS: Final = (
    "volcano.sh/job-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_RANK: Final = "hccl/rankIndex"
_RANK_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ChipDetails:
    """Addresses of a chip."""

    ip: str
    super_device: int | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """The node as other nodes know it."""

    id: str
    """its address; for `huawei.com/npu` the vendor takes the pod's UID"""
    super_pod: int | None = None
    host: str = ""
    """address of its host network; empty if it is not known"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """One pod's entry of a rank table."""

    pod: str
    server: Server
    chips: Mapping[int, ChipDetails]


def chip_names(numbers: Iterable[int], resource: str) -> str:
    """List of chips in the format of Huawei's tools: ascending, with commas and no blanks."""
    return ",".join(f"{resource.removeprefix(VENDOR)}-{number}" for number in sorted(numbers))


def chip_numbers(text: object, resource: str) -> tuple[int, ...]:
    """The ascending numbers of a list of chips; InputError if a single item is wrong, as upstream has it."""
    word = resource.removeprefix(VENDOR)
    if not isinstance(text, str):
        raise InputError(f"{shown(text)} is not a list of chips: write {word}-0,{word}-1")
    numbers: set[int] = set()
    for item in text.split(",") if text.strip() else ():
        matches = _NAME.fullmatch(item.strip())
        if matches is None or matches[1] != word:
            raise InputError(f"{shown(item)} is not a chip of {resource}: write {word}-0,{word}-1")
        if int(matches[2]) in numbers:
            raise InputError(f"{item.strip()} is listed twice; list each chip once")
        numbers.add(int(matches[2]))
    return tuple(sorted(numbers))


def chip_number(name: object, resource: str) -> int:
    """The number of one chip; InputError if the name is that of none or several."""
    numbers = chip_numbers(name, resource)
    if len(numbers) != 1:
        raise InputError(f"{shown(name)} is not the name of one chip of {resource}")
    return numbers[0]


def chip_details(view: NodeView, resource: str) -> dict[int, ChipDetails] | Problem:
    """Details of a node's chips by number; empty if the node has none."""
    key = next((name for name in DETAILS if view.annotations.get(name)), "")
    try:
        chips = json_object(view.annotations[key]) if key else {}
        return {chip_number(name, resource): _details(name, details) for name, details in chips.items()}
    except InputError as error:
        return Problem(where_node(view), key, str(error))


def rank_key(resource: str) -> str:
    """The annotation that holds the ranks of a pod asking for the resource."""
    return _KEYS.get(resource, _KEY)


def ranks(pod: PodView, view: NodeView, resource: str, numbers: Collection[int], server: Server) -> Ranks | Problem:
    """Rank table entry of a pod with these chips of the node; a problem if the node lacks an address."""
    details = chip_details(view, resource)
    if isinstance(details, Problem):
        return details
    lost = [str(number) for number in sorted(numbers) if number not in details]
    if lost:
        missing = f"no address of chip {', '.join(lost)} is known; let the device plugin write it"
        return Problem(where_node(view), DETAILS[-1], missing)
    return Ranks(pod.name, server, {number: details[number] for number in sorted(numbers)})


def rank_text(ranks: Ranks) -> str:
    """The entry as the annotation holds it."""
    entry: dict[str, object] = {"pod_name": ranks.pod, "server_id": ranks.server.id}
    if ranks.server.host:
        entry["host_ip"] = ranks.server.host
    if ranks.server.super_pod is not None:
        entry["super_pod_id"] = ranks.server.super_pod
    entry["devices"] = [_device(number, details) for number, details in sorted(ranks.chips.items())]
    return json.dumps(entry, separators=(",", ":"))


def read_ranks(pod: PodView, resource: str) -> Ranks | Problem | None:
    """The entry in the pod's annotation; None if there is none."""
    key = rank_key(resource)
    text = pod.annotations.get(key)
    if not text:
        return None
    try:
        entry = json_object(text)
        super_pod = _number(entry.get("super_pod_id"), "super_pod_id")
        server = Server(_text(entry, "server_id"), super_pod, _text(entry, "host_ip"))
        return Ranks(_text(entry, "pod_name"), server, _chips(json_list(entry.get("devices"))))
    except InputError as error:
        return Problem(where_pod(pod), key, str(error))


def json_object(text: object) -> Mapping[str, object]:
    """The JSON object in a text; InputError if there is none."""
    value = _json(text)
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(text)} is not a JSON object; let the device plugin write it again")
    return value


def json_list(text: object) -> list[object]:
    """The JSON list in a text; InputError if there is none."""
    value = _json(text)
    if not isinstance(value, list):
        raise InputError(f"{shown(text)} is not a JSON list; let the device plugin write it again")
    return value


def shown(value: object) -> str:
    """A value for a sentence: short, and only text verbatim."""
    if not isinstance(value, str):
        return f"a value of type {type(value).__name__}"
    return repr(value if len(value) <= 60 else f"{value[:57]}...")


def table_job(pod: PodView) -> str:
    """The job of a pod that wants a rank table; empty if it wants none. A pod without a job is one of its own."""
    if not pod.labels.get(_LABEL, "").startswith("ascend-910"):
        return ""
    return next((pod.labels[label] for label in _JOB_LABELS if pod.labels.get(label)), pod.name)


def config_map_name(job: str) -> str:
    """The name of the ConfigMap with the rank table of a job."""
    return f"rings-config-{job}"


def rank_index(pod: PodView) -> int | None:
    """The rank of a pod in its job, by its annotation; None without one that can be read."""
    text = pod.annotations.get(_RANK, "")
    return int(text) if _RANK_NUMBER.fullmatch(text) else None


def table_text(entries: Sequence[Ranks]) -> str:
    """The rank table of pods in the order of their ranks; pods on one server share its entry."""
    servers: dict[str, dict[str, object]] = {}
    devices: dict[str, list[dict[str, str]]] = {}
    rank = 0
    for entry in entries:
        server = entry.server
        hosts = {"host_ip": server.host} if server.host else {}
        own = devices.setdefault(server.id, [])
        servers.setdefault(server.id, {"device": own, "server_id": server.id, **hosts})
        for number, chip in sorted(entry.chips.items()):
            own.append({"device_id": str(number), "device_ip": chip.ip, "rank_id": str(rank)})
            rank += 1
    table = {
        "status": "completed",
        "server_list": list(servers.values()),
        "server_count": str(len(servers)),
        "version": _VERSION,
    }
    return json.dumps(table, separators=(",", ":"))


def read_table(text: object) -> dict[str, object] | None:
    """The rank table in a text, complete or not; None if it is none."""
    try:
        table = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) and table.get("status") in {"initializing", "completed"} else None


def _details(name: str, value: object) -> ChipDetails:
    entry = json_object(value)
    try:
        return ChipDetails(_text(entry, "IP"), _number(entry.get("SuperDeviceID"), "SuperDeviceID"))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise InputError(f"{key} is {shown(value)}, a text is expected")
    return value


def _number(value: object, key: str) -> int | None:
    """Upstream writes a number below zero where a super pod is not known."""
    if value is None or value == "":
        return None
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    raise InputError(f"{key} is {shown(value)}, a number is expected")


def _device(number: int, details: ChipDetails) -> dict[str, str]:
    device = {"device_id": str(number), "device_ip": details.ip}
    return device if details.super_device is None else {**device, "super_device_id": str(details.super_device)}


def _chips(devices: list[object]) -> dict[int, ChipDetails]:
    chips = dict(_chip(json_object(device)) for device in devices)
    if len(chips) != len(devices):
        raise InputError("a device_id is listed twice; each chip has one entry")
    return chips


def _chip(device: Mapping[str, object]) -> tuple[int, ChipDetails]:
    number = _number(device.get("device_id"), "device_id")
    if number is None:
        raise InputError("a device has no device_id; let the device plugin write it again")
    return number, ChipDetails(_text(device, "device_ip"), _number(device.get("super_device_id"), "super_device_id"))


def _json(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise InputError(f"{shown(text)} is not valid JSON; let the device plugin write it again") from error
