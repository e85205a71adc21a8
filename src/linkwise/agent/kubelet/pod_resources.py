"""Pod resources client: what the kubelet has allocated, and which devices it could allocate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc import aio

from linkwise.agent.kubelet.calls import call_kubelet
from linkwise.agent.kubelet.messages import POD_RESOURCES, Message, messages_of
from linkwise.errors import ClusterError
from linkwise.node.allocation import Listed

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PodResources"]

TIMEOUT: Final = 5.0  # seconds
_MESSAGES: Final = messages_of(POD_RESOURCES)


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


def _ids(devices: Message, resource: str) -> tuple[str, ...]:
    return tuple(identifier for each in devices if each.resource_name == resource for identifier in each.device_ids)
