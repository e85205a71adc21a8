"""Checkpoint of the kubelet's device manager: the resources of its plugins, and the answer that each container was given.

The kubelet replaces the file as a whole whenever it allocates devices, and starts containers by the answers in it.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, messages_of
from linkwise.vendors.container_needs import ContainerNeeds, Mount

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["container_answers", "registered_ids"]

FILE: Final = "kubelet_internal_checkpoint"
_ANSWER: Final = messages_of(DEVICE_PLUGIN)["ContainerAllocateResponse"]


def registered_ids(folder: Path) -> dict[str, int]:
    """The number of ids by resource; empty if the file can't be read."""
    registered = _data(folder).get("RegisteredDevices")
    if not isinstance(registered, dict):
        return {}
    return {name: len(ids) if isinstance(ids, list) else 0 for name, ids in registered.items()}


def container_answers(folder: Path, resource: str) -> dict[tuple[str, str], ContainerNeeds]:
    """The answers of device plugins by pod UID and container, as far as they can be read."""
    entries = _data(folder).get("PodDeviceEntries")
    answers = {}
    for entry in entries if isinstance(entries, list) else ():
        with suppress(DecodeError, ValueError, KeyError, TypeError):
            if entry["ResourceName"] == resource:
                message = _ANSWER.FromString(base64.b64decode(entry["AllocResp"]))
                answers[str(entry["PodUID"]), str(entry["ContainerName"])] = _needs(message)
    return answers


def _data(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        document = json.loads((folder / FILE).read_bytes())
        data = document.get("Data") if isinstance(document, dict) else None
        return data if isinstance(data, dict) else {}
    return {}


def _needs(message: Any) -> ContainerNeeds:  # noqa: ANN401 - messages are made at import
    return ContainerNeeds(
        device_nodes=tuple(each.container_path for each in message.devices),
        environment=tuple(message.envs.items()),
        cdi=tuple([each.name for each in message.cdi_devices] + _annotated(message.annotations)),
        mounts=tuple(Mount(each.host_path, each.container_path, each.read_only) for each in message.mounts),
    )


def _annotated(annotations: Any) -> list[str]:  # noqa: ANN401 - a map of a message
    """CDI names in annotations, which plugins use for runtimes that do not take them from the answer."""
    names = [text for key, text in annotations.items() if key.startswith("cdi.k8s.io/")]
    return [name for text in names for name in text.split(",")]
