"""State of the kubelet: the checkpoint of its device manager, its configuration, and the devices that it has allocated.

The kubelet replaces its checkpoint as a whole whenever it allocates devices, and starts containers by the answers in it.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError
from grpc import aio

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, POD_RESOURCES, Message, call_kubelet, messages_of
from linkwise.errors import ClusterError
from linkwise.model.node import SCOPES, TOPOLOGY_POLICIES, NumaAlignment
from linkwise.node.allocation import Listed
from linkwise.vendors.container_needs import ContainerNeeds, Mount

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PodResources", "alignment_in", "container_answers", "registered_ids"]

FILE: Final = "kubelet_internal_checkpoint"
_ANSWER: Final = messages_of(DEVICE_PLUGIN)["ContainerAllocateResponse"]
CONFIGURATION_FILE: Final = "config.yaml"
"""in the kubelet's folder, where kubeadm and most installers write it"""
_LINE: Final = re.compile(
    r"""(?:^|[{,])[ \t]*["']?(topologyManagerPolicy|topologyManagerScope|cpuManagerPolicy)["']?[ \t]*:[ \t]*["']?([a-z-]{1,40})""",
    re.MULTILINE,
)
TIMEOUT: Final = 5.0  # seconds
_MESSAGES: Final = messages_of(POD_RESOURCES)


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


def alignment_in(folder: Path) -> NumaAlignment | None:
    """The policies by the configuration file, in YAML or JSON; None if it can't be read.

    A kubelet that is configured by flags, or by a file elsewhere, needs the setting agent.topology_policy.
    """
    try:
        text = (folder / CONFIGURATION_FILE).read_text("utf-8", "replace")
    except OSError:
        return None
    fields = dict(_LINE.findall(text))
    policy = next((each for each in TOPOLOGY_POLICIES if each == fields.get("topologyManagerPolicy", "none")), None)
    scope = next((each for each in SCOPES if each == fields.get("topologyManagerScope", "container")), None)
    static = fields.get("cpuManagerPolicy", "none") == "static"
    return NumaAlignment(policy, scope, static_cpus=static) if policy and scope else None


class PodResources:
    """Calls on the kubelet's pod-resources socket; ClusterError if it does not answer."""

    def __init__(self, socket: Path) -> None:
        self.socket: Final = socket

    async def allocated(self, resource: str) -> tuple[Listed, ...]:
        """Ids of the resource by container; the kubelet leaves out ordinary init containers."""
        answer = await self._call("List", "ListPodResourcesRequest", "ListPodResourcesResponse")
        return tuple(
            Listed(pod.namespace, pod.name, container.name, ids)
            for pod in answer.pod_resources
            for container in pod.containers
            if (ids := _ids(container.devices, resource))
        )

    async def allocatable(self) -> dict[str, tuple[str, ...]]:
        """Healthy ids by resource, whichever plugin serves them."""
        answer = await self._call(
            "GetAllocatableResources", "AllocatableResourcesRequest", "AllocatableResourcesResponse"
        )
        names = dict.fromkeys(each.resource_name for each in answer.devices)
        return {name: _ids(answer.devices, name) for name in names}

    async def _call(self, method: str, request: str, response: str) -> Message:
        try:
            return await call_kubelet(self.socket, f"{POD_RESOURCES}/{method}", _MESSAGES[request](), response, TIMEOUT)
        except aio.AioRpcError as error:
            raise ClusterError(f"{self.socket}: {error.code().name}: {error.details()}") from error


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


def _ids(devices: Message, resource: str) -> tuple[str, ...]:
    return tuple(identifier for each in devices if each.resource_name == resource for identifier in each.device_ids)
