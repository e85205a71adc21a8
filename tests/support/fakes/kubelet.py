"""Fake kubelet: registers device plugins, follows their lists and admits pods, over real gRPC on unix sockets.

It does what the device manager of kubelet 1.36 does: it removes sockets at its start, dials back after a registration, asks
for a preferred allocation and then allocates one container per call, lists what it has allocated, and keeps the answers in
its checkpoint. The UID of pod `a` is `uid-a`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc import aio

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, POD_RESOURCES, REGISTRATION, messages_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["PATIENCE", "AdmissionError", "Container", "FakeKubelet"]

PLUGIN: Final = messages_of(DEVICE_PLUGIN)
LISTS: Final = messages_of(POD_RESOURCES)
PATIENCE: Final = 120.0  # seconds until a test counts as hung


class AdmissionError(Exception):
    """The pod is refused, as with reason UnexpectedAdmissionError."""


@dataclass(frozen=True, slots=True)
class Container:
    """What a container was given."""

    ids: tuple[str, ...]
    environment: Mapping[str, str]
    nodes: Mapping[str, str]
    """path on the host by path in the container"""
    cdi: tuple[str, ...]
    mounts: tuple[str, ...]


@dataclass(slots=True)
class _Plugin:
    resource: str
    channel: aio.Channel
    healthy: dict[str, bool] = field(default_factory=dict)
    follower: asyncio.Task[None] | None = None
    connected: bool = False


class FakeKubelet:
    """A kubelet below a folder, which must have a short path."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self.registrations: list[str] = []
        """resource names, in the order of registrations"""
        self.seconds: dict[str, list[float]] = {}
        """times of the answers of plugins, by method"""
        self.garbage = b""
        """sent instead of every response, unless empty"""
        self._plugins: dict[str, _Plugin] = {}
        self._allocated: dict[tuple[str, str, str], tuple[str, tuple[str, ...]]] = {}
        """resource and ids by namespace, pod and container; survives a restart, as the checkpoint does"""
        self._answers: dict[tuple[str, str, str], bytes] = {}
        """of the plugin, likewise"""
        self._servers: list[aio.Server] = []
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Remove all sockets, then listen."""
        plugins, lists = self.root / "device-plugins", self.root / "pod-resources"
        for folder in (plugins, lists):
            folder.mkdir(parents=True, exist_ok=True)
        for socket in (*plugins.glob("*.sock"), *lists.glob("*.sock")):
            socket.unlink()
        registration = {"Register": self._unary(self._register, PLUGIN["RegisterRequest"])}
        listing = {
            "List": self._unary(self._list, LISTS["ListPodResourcesRequest"]),
            "GetAllocatableResources": self._unary(self._allocatable, LISTS["AllocatableResourcesRequest"]),
        }
        self._servers = [
            await _server(lists / "kubelet.sock", POD_RESOURCES, listing),
            await _server(plugins / "kubelet.sock", REGISTRATION, registration),
        ]

    async def stop(self) -> None:
        """Stop; allocations stay known."""
        for plugin in [*self._plugins.values()]:
            await self._drop(plugin)
        self._plugins.clear()
        for server in self._servers:
            await server.stop(0)
        self._servers = []
        (self.root / "device-plugins/kubelet.sock").unlink(missing_ok=True)

    def lose_checkpoint(self) -> None:
        """Forget all allocations, as after a reboot."""
        self._allocated.clear()
        self._answers.clear()
        self._checkpoint.unlink(missing_ok=True)

    def served_by_another(
        self, pod: str, resource: str, ids: Sequence[str], environment: Mapping[str, str], nodes: Sequence[str] = ()
    ) -> None:
        """Another plugin has served the container `main` of a pod with this answer, and has gone."""
        key, devices = ("default", pod, "main"), [{"container_path": node, "host_path": node} for node in nodes]
        answer = PLUGIN["ContainerAllocateResponse"](envs=dict(environment), devices=devices)
        self._allocated[key], self._answers[key] = (resource, tuple(ids)), answer.SerializeToString()
        self._write_checkpoint()

    def remove_checkpoint(self) -> None:
        """Remove the file; the kubelet writes it again with its next allocation."""
        self._checkpoint.unlink()

    async def capacity(self, resource: str, count: int) -> None:
        """Wait until that many ids of the resource are healthy."""
        await self.until(lambda: len(self.healthy(resource)) == count)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; it is looked at after every change."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(holds)

    def healthy(self, resource: str) -> list[str]:
        """Healthy ids of a resource; none once its plugin has gone."""
        plugin = self._plugins.get(resource)
        if plugin is None or not plugin.connected:
            return []
        return [identifier for identifier, healthy in plugin.healthy.items() if healthy]

    def listed(self, resource: str) -> list[str]:
        """All ids of a resource."""
        return list(self._plugins[resource].healthy)

    async def admit(
        self, pod: str, resource: str, *, namespace: str = "default", ids: Sequence[str] = (), **sizes: int
    ) -> dict[str, Container]:
        """Allocate devices for each container in turn; `ids` overrules the plugin's preference."""
        return {name: await self._admit((namespace, pod, name), resource, size, ids) for name, size in sizes.items()}

    def remove(self, pod: str, namespace: str = "default") -> None:
        """Free the devices of a pod."""
        for key in [key for key in self._allocated if key[:2] == (namespace, pod)]:
            del self._allocated[key]

    @property
    def _checkpoint(self) -> Path:
        return self.root / "device-plugins/kubelet_internal_checkpoint"

    def _write_checkpoint(self) -> None:
        entries = [
            {
                "PodUID": f"uid-{key[1]}",
                "ContainerName": key[2],
                "ResourceName": resource,
                "DeviceIDs": {"-1": list(ids)},
                "AllocResp": base64.b64encode(self._answers[key]).decode(),
            }
            for key, (resource, ids) in self._allocated.items()
        ]
        registered = {name: self.healthy(name) for name in self._plugins}
        data = {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self._checkpoint.write_text(json.dumps({"Data": data, "Checksum": 1}))

    async def _admit(self, key: tuple[str, str, str], resource: str, size: int, overruled: Sequence[str]) -> Container:
        used = {identifier for other, ids in self._allocated.values() if other == resource for identifier in ids}
        free = [identifier for identifier in self.healthy(resource) if identifier not in used]
        if len(free) < size:
            raise AdmissionError(f"requested number of devices unavailable for {resource}: {len(free)} of {size}")
        random.shuffle(free)
        ids = list(overruled) or await self._preferred(resource, free, size)
        request = PLUGIN["AllocateRequest"](container_requests=[{"devices_ids": ids}])
        answer = (await self._call(resource, "Allocate", request, "AllocateResponse")).container_responses[0]
        self._allocated[key], self._answers[key] = (resource, tuple(ids)), answer.SerializeToString()
        self._write_checkpoint()
        return Container(
            tuple(ids),
            dict(answer.envs),
            {each.container_path: each.host_path for each in answer.devices},
            tuple(each.name for each in answer.cdi_devices),
            tuple(each.container_path for each in answer.mounts),
        )

    async def _preferred(self, resource: str, free: list[str], size: int) -> list[str]:
        wanted = {"available_deviceIDs": free, "allocation_size": size}
        request = PLUGIN["PreferredAllocationRequest"](container_requests=[wanted])
        answer = await self._call(resource, "GetPreferredAllocation", request, "PreferredAllocationResponse")
        ids = [identifier for identifier in answer.container_responses[0].deviceIDs if identifier in free]
        return [*ids, *(identifier for identifier in free if identifier not in ids)][:size]

    async def _call(self, resource: str, method: str, request: Any, response: str) -> Any:  # noqa: ANN401 - messages
        call = self._plugins[resource].channel.unary_unary(
            f"/{DEVICE_PLUGIN}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=PLUGIN[response].FromString,
        )
        began = time.perf_counter()
        try:
            return await call(request, timeout=PATIENCE)
        except aio.AioRpcError as error:
            raise AdmissionError(error.details()) from error
        finally:
            self.seconds.setdefault(method, []).append(time.perf_counter() - began)

    async def _register(self, request: Any) -> Any:  # noqa: ANN401 - messages
        known = self._plugins.get(request.resource_name)
        if known is not None:
            await self._drop(known)
        channel = aio.insecure_channel(f"unix:{self.root / 'device-plugins' / request.endpoint}")
        plugin = self._plugins[request.resource_name] = _Plugin(request.resource_name, channel)
        plugin.follower = asyncio.create_task(self._follow(plugin))
        self.registrations.append(request.resource_name)
        return PLUGIN["Empty"]()

    async def _follow(self, plugin: _Plugin) -> None:
        stream = plugin.channel.unary_stream(
            f"/{DEVICE_PLUGIN}/ListAndWatch",
            request_serializer=PLUGIN["Empty"].SerializeToString,
            response_deserializer=PLUGIN["ListAndWatchResponse"].FromString,
        )(PLUGIN["Empty"]())
        try:
            async for message in stream:
                plugin.connected = True
                plugin.healthy = {device.ID: device.health == "Healthy" for device in message.devices}
                await self._notify()
        except aio.AioRpcError:
            pass
        finally:
            plugin.connected = False
        await self._notify()

    async def _drop(self, plugin: _Plugin) -> None:
        if plugin.follower is not None:
            plugin.follower.cancel()
            with suppress(asyncio.CancelledError):
                await plugin.follower
        plugin.connected = False
        await plugin.channel.close()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _list(self, request: Any) -> Any:  # noqa: ANN401 - messages
        del request
        pods: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for (namespace, pod, container), (resource, ids) in self._allocated.items():
            devices = [{"resource_name": resource, "device_ids": [each]} for each in ids]
            pods.setdefault((namespace, pod), []).append({"name": container, "devices": devices})
        rows = [{"namespace": key[0], "name": key[1], "containers": own} for key, own in pods.items()]
        return LISTS["ListPodResourcesResponse"](pod_resources=rows)

    async def _allocatable(self, request: Any) -> Any:  # noqa: ANN401 - messages
        del request
        devices = [
            {"resource_name": name, "device_ids": [each]} for name in self._plugins for each in self.healthy(name)
        ]
        return LISTS["AllocatableResourcesResponse"](devices=devices)

    def _unary(
        self,
        answer: Callable[[Any], Awaitable[Any]],
        request: Any,  # noqa: ANN401 - messages
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def handle(message: Any, context: aio.ServicerContext[Any, Any]) -> Any:  # noqa: ANN401 - messages
            del context
            return await answer(message)

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=request.FromString,
            response_serializer=lambda message: self.garbage or message.SerializeToString(),
        )


async def _server(socket: Path, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> aio.Server:
    server = aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server
