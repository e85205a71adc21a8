"""Device plugin server: the gRPC service of one resource, which the kubelet calls on a unix socket."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, Message, messages_of
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from linkwise.vendors.container_needs import ContainerNeeds

__all__ = ["AllocationError", "DevicePlugin", "PluginDevice", "PluginHandler"]

log = logging.getLogger(__name__)

LONGEST_PATH: Final = 107  # bytes of the path of a unix socket
STOP_SECONDS: Final = 2.0
_MESSAGES: Final = messages_of(DEVICE_PLUGIN)


class AllocationError(LinkwiseError):
    """An allocation that is refused; the kubelet shows the sentence in an event of the pod."""


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """One id as the kubelet counts it."""

    id: str
    healthy: bool
    numa: int | None = None


class PluginHandler(Protocol):
    """Answers the kubelet's questions about devices."""

    async def preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> Sequence[str]:
        """Ids to allocate; must not fail, because the kubelet would refuse the pod."""

    async def allocate(self, ids: Sequence[str]) -> ContainerNeeds:
        """What a container with these ids is given; AllocationError if it must not start."""


class DevicePlugin:
    """Serves one resource; `start`, then register its endpoint with the kubelet."""

    def __init__(
        self,
        resource: str,
        socket: Path,
        handler: PluginHandler,
        host_path: Callable[[str], str] = str,
        answered: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        self.resource: Final = resource
        self.socket: Final = socket
        self._handler = handler
        self._host_path = host_path
        self._answered = answered
        """called with the method and the seconds of each answer"""
        self._server: aio.Server | None = None
        self._devices: tuple[PluginDevice, ...] = ()
        self._changed = asyncio.Event()
        self._unreadable: set[str] = set()
        """kinds of messages of which one could not be read"""
        self._streams = 0
        self._connection_changed = asyncio.Event()

    @property
    def serving(self) -> bool:
        """Whether the kubelet can reach the plugin: a socket alone may be that of a killed process."""
        return self._server is not None and self.socket.exists()

    @property
    def connected(self) -> bool:
        """Whether the kubelet follows the list of devices."""
        return self._streams > 0

    @property
    def devices(self) -> tuple[PluginDevice, ...]:
        """The ids as listed last."""
        return self._devices

    async def start(self) -> None:
        """Listen; a socket that an earlier process left is replaced."""
        if len(str(self.socket).encode()) > LONGEST_PATH:
            raise LinkwiseError(f"{self.socket}: the path of a unix socket has at most {LONGEST_PATH} bytes")
        with suppress(FileNotFoundError):
            self.socket.unlink()
        self._server = aio.server(options=(("grpc.so_reuseport", 0),))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        starting = asyncio.ensure_future(self._server.start())
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # it takes a moment, and a server that is starting can't be stopped
            raise

    async def stop(self) -> None:
        """End all streams and remove the socket."""
        server, self._server = self._server, None
        # gRPC does not always cancel a call that arrives while it stops: the stream has to end by itself.
        self._wake()
        if server is not None:
            await server.stop(STOP_SECONDS if self._streams == 0 else 0)
        with suppress(FileNotFoundError):
            self.socket.unlink()

    def update(self, devices: Sequence[PluginDevice]) -> None:
        """Set the ids; the kubelet is notified if they differ."""
        if tuple(devices) != self._devices:
            self._devices = tuple(devices)
            self._wake()

    async def wait_connected(self, *, connected: bool) -> None:
        """Wait until the kubelet follows the list, or until it does not."""
        while self.connected is not connected:
            self._connection_changed.clear()
            await self._connection_changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(
            answer: Callable[[Message], Awaitable[Message]], request: str
        ) -> grpc.RpcMethodHandler[bytes, Message]:
            async def handle(body: bytes, context: aio.ServicerContext[bytes, Message]) -> Message:
                began = time.perf_counter()
                try:
                    return await answer(await self._parsed(request, body, context))
                except AllocationError as error:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
                finally:
                    self._answered(request.removesuffix("Request"), time.perf_counter() - began)

            return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_encode)

        watch: grpc.RpcMethodHandler[bytes, Message] = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch, response_serializer=_encode
        )
        return grpc.method_handlers_generic_handler(
            DEVICE_PLUGIN,
            {
                "GetDevicePluginOptions": unary(self._options, "Empty"),
                "ListAndWatch": watch,
                "GetPreferredAllocation": unary(self._preferred, "PreferredAllocationRequest"),
                "Allocate": unary(self._allocate, "AllocateRequest"),
                "PreStartContainer": unary(self._pre_start, "PreStartContainerRequest"),
            },
        )

    async def _parsed(self, kind: str, body: bytes, context: aio.ServicerContext[bytes, Message]) -> Message:
        """The message of a call; a call without one is refused. gRPC would log a traceback for each, if it parsed them."""
        try:
            return _MESSAGES[kind].FromString(body)
        except DecodeError as error:
            if kind not in self._unreadable:
                self._unreadable.add(kind)
                log.warning("resource=%s a call can't be read as %s; more of them are not logged", self.resource, kind)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def _options(self, request: Message) -> Message:
        del request
        return plugin_options()

    async def _list_and_watch(
        self, body: bytes, context: aio.ServicerContext[bytes, Message]
    ) -> AsyncIterator[Message]:
        await self._parsed("Empty", body, context)
        self._streams += 1
        self._connection_changed.set()
        server = self._server
        try:
            while server is not None and self._server is server:
                changed = self._changed
                yield _MESSAGES["ListAndWatchResponse"](devices=[_device(device) for device in self._devices])
                await changed.wait()
        finally:
            self._streams -= 1
            self._connection_changed.set()

    async def _preferred(self, request: Message) -> Message:
        responses = []
        for each in request.container_requests:
            required, size = list(each.must_include_deviceIDs), each.allocation_size
            try:
                ids = await self._handler.preferred(list(each.available_deviceIDs), required, size)
            except Exception:
                # An error would make the kubelet refuse the pod, while any answer is only a preference.
                log.exception("resource=%s no preferred allocation", self.resource)
                ids = required
            responses.append(_MESSAGES["ContainerPreferredAllocationResponse"](deviceIDs=ids))
        return _MESSAGES["PreferredAllocationResponse"](container_responses=responses)

    async def _allocate(self, request: Message) -> Message:
        needs = [await self._handler.allocate(list(each.devices_ids)) for each in request.container_requests]
        return _MESSAGES["AllocateResponse"](container_responses=[self._container(each) for each in needs])

    async def _pre_start(self, request: Message) -> Message:
        del request
        return _MESSAGES["PreStartContainerResponse"]()

    def _container(self, needs: ContainerNeeds) -> Message:
        return _MESSAGES["ContainerAllocateResponse"](
            envs=dict(needs.environment),
            mounts=[
                _MESSAGES["Mount"](
                    container_path=each.container_path, host_path=each.host_path, read_only=each.read_only
                )
                for each in needs.mounts
            ],
            devices=[
                _MESSAGES["DeviceSpec"](container_path=node, host_path=self._host_path(node), permissions="rw")
                for node in needs.device_nodes
            ],
            cdi_devices=[_MESSAGES["CDIDevice"](name=name) for name in needs.cdi],
        )


def plugin_options() -> Message:
    """Options of the plugin, for its registration too."""
    return _MESSAGES["DevicePluginOptions"](get_preferred_allocation_available=True)


def _device(device: PluginDevice) -> Message:
    topology = None
    if device.numa is not None:
        topology = _MESSAGES["TopologyInfo"](nodes=[_MESSAGES["NUMANode"](ID=device.numa)])
    return _MESSAGES["Device"](ID=device.id, health="Healthy" if device.healthy else "Unhealthy", topology=topology)


def _encode(message: Message) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded
