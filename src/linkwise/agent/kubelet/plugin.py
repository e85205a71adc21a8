"""Device plugin server: the gRPC service of one resource, which the kubelet calls, and its registration with the kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from grpc import aio

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, REGISTRATION, Message, call_kubelet, messages_of
from linkwise.agent.kubelet.server import STOP_SECONDS, CallError, Calls, UnixServer
from linkwise.errors import ClusterError
from linkwise.net.timing import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
    from pathlib import Path

    from linkwise.agent.kubelet.state import PodResources
    from linkwise.net.timing import Timing
    from linkwise.vendors.container_needs import ContainerNeeds

__all__ = ["KUBELET_SOCKET", "AllocationError", "DevicePlugin", "PluginDevice", "PluginHandler", "Registrar", "Status"]

log = logging.getLogger(__name__)

_MESSAGES: Final = messages_of(DEVICE_PLUGIN)
KUBELET_SOCKET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
POLL: Final = 0.25  # seconds between looks at the sockets
CONNECT_SECONDS: Final = 10.0  # for the kubelet to follow the list after a registration
FOREIGN_POLL: Final = 5.0  # seconds between looks whether another plugin has gone
USED_POLL: Final = 5.0  # seconds between looks whether the kubelet still has our devices
UNUSED_LOOKS: Final = 2
"""after which it does not use the plugin: a list may be older than the devices"""
_REGISTRATION: Final = messages_of(REGISTRATION)


class AllocationError(CallError):
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
        self._calls = Calls(f"resource={resource}", _MESSAGES, answered)
        self._server = UnixServer(socket)
        self._devices: tuple[PluginDevice, ...] = ()
        self._changed = asyncio.Event()
        self._streams = 0
        self._connection_changed = asyncio.Event()

    @property
    def serving(self) -> bool:
        """Whether the kubelet can reach the plugin."""
        return self._server.serving

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
        calls = self._calls
        methods = {
            "GetDevicePluginOptions": calls.unary(self._options, "Empty"),
            "ListAndWatch": calls.stream(self._list_and_watch, "Empty"),
            "GetPreferredAllocation": calls.unary(self._preferred, "PreferredAllocationRequest"),
            "Allocate": calls.unary(self._allocate, "AllocateRequest"),
            "PreStartContainer": calls.unary(self._pre_start, "PreStartContainerRequest"),
        }
        await self._server.start({DEVICE_PLUGIN: methods})

    async def stop(self) -> None:
        """End all streams and remove the socket."""
        await self._server.stop(STOP_SECONDS if self._streams == 0 else 0, self._wake)

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

    async def _options(self, request: Message) -> Message:
        del request
        return plugin_options()

    async def _list_and_watch(self, request: Message) -> AsyncIterator[Message]:
        del request
        self._streams += 1
        self._connection_changed.set()
        server = self._server.identity
        try:
            while server is not None and self._server.identity is server:
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


@dataclass(frozen=True, slots=True)
class Status:
    """Whether the kubelet uses the plugin."""

    state: Literal["waiting", "registered", "foreign", "refused"] = "waiting"
    """`waiting` for the kubelet; `foreign` while another plugin serves the devices; `refused` by the kubelet"""
    sentence: str = "waiting for the kubelet"

    @property
    def enforced(self) -> bool:
        """Whether containers get exactly the devices that were chosen."""
        return self.state == "registered"


class Registrar:
    """Keeps a plugin registered; `run` it until cancelled.

    Args:
        folder: the kubelet's folder of device plugins.
        pod_resources: reports which devices the kubelet can allocate, through whichever plugin.
        timing: clock and sleep.
        changed: called with the last status and every new one.
        prepare: called before each registration; the kubelet may allocate devices at once after it.
    """

    def __init__(
        self,
        folder: Path,
        pod_resources: PodResources,
        timing: Timing,
        changed: Callable[[Status, Status], None],
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self.status = Status()
        self._socket = folder / KUBELET_SOCKET
        self._pod_resources = pod_resources
        self._timing = timing
        self._changed = changed
        self._prepare = prepare

    async def run(self, plugin: DevicePlugin, names: Collection[str]) -> None:
        """Register the plugin as often as needed; `names` are all resources of the same devices."""
        backoff = Backoff(self._timing, first=0.25, most=5.0)
        try:
            while True:
                identity = await self._wait_for_kubelet()
                if owner := await self._other_plugin(names):
                    self._set(Status("foreign", f"another device plugin serves {owner}"))
                    await self._timing.sleep(FOREIGN_POLL)
                    continue
                await self._prepare()
                if not await self._register(plugin):
                    await backoff.wait()
                    continue
                backoff.reset()
                self._set(Status("registered", f"the kubelet uses this plugin for {plugin.resource}"))
                await self._until_gone(plugin, identity)
                self._set(Status("waiting", "the kubelet has closed the connection"))
        finally:
            self.status = Status()
            await plugin.stop()

    async def _wait_for_kubelet(self) -> tuple[int, int]:
        while (identity := self._identity()) is None:
            self._set(Status("waiting", f"waiting for the kubelet: {self._socket} does not exist"))
            await self._timing.sleep(POLL)
        return identity

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._socket.stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def _other_plugin(self, names: Collection[str]) -> str:
        """The resource that another plugin serves: the kubelet has healthy devices of it while ours is not connected."""
        for attempt in range(2):
            try:
                found = await self._pod_resources.allocatable()
            except ClusterError as error:
                log.debug("kubelet: %s", error)
                return ""  # before its first pod, or an old kubelet: registering is the best there is
            owned = sorted(name for name in names if found.get(name))
            if not owned:
                return ""
            if attempt == 0:  # an earlier process of ours may have ended this moment
                await self._timing.sleep(1.0)
        return owned[0]

    async def _register(self, plugin: DevicePlugin) -> bool:
        try:
            if not plugin.serving:  # a kubelet that starts removes the sockets of all plugins
                await plugin.stop()
                await plugin.start()
            await self._send(plugin)
            await self._until_connected(plugin)
        except aio.AioRpcError as error:
            self._set(
                Status("refused", f"the kubelet refused {plugin.resource}: {error.code().name}: {error.details()}")
            )
        except (TimeoutError, OSError, RuntimeError, ClusterError) as error:
            why = str(error) or "the kubelet did not connect to the plugin"
            self._set(Status("refused", f"registering {plugin.resource} failed: {why}"))
        else:
            log.info("kubelet: registered resource=%s devices=%d", plugin.resource, len(plugin.devices))
            return True
        # The kubelet may follow the list all the same; its devices would look like those of another plugin.
        await plugin.stop()
        return False

    async def _send(self, plugin: DevicePlugin) -> None:
        request = _REGISTRATION["RegisterRequest"](
            version=VERSION, endpoint=plugin.socket.name, resource_name=plugin.resource, options=plugin_options()
        )
        await call_kubelet(self._socket, f"{REGISTRATION}/Register", request, "Empty", CONNECT_SECONDS)

    async def _until_connected(self, plugin: DevicePlugin) -> None:
        """Wait for the kubelet to follow the list; TimeoutError at once if it removed our socket in the meantime."""
        deadline = self._timing.clock() + CONNECT_SECONDS
        while not plugin.connected:
            if self._timing.clock() > deadline or not plugin.socket.exists():
                raise TimeoutError
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await plugin.wait_connected(connected=True)

    async def _until_gone(self, plugin: DevicePlugin, identity: tuple[int, int]) -> None:
        """Return once the kubelet has closed the stream, was replaced by another one, or does not use the plugin."""
        closed = asyncio.create_task(plugin.wait_connected(connected=False))
        looked, unused = self._timing.clock(), 0
        try:
            while not closed.done() and self._identity() == identity and plugin.socket.exists():
                await asyncio.wait({closed}, timeout=POLL)
                if self._timing.clock() - looked >= USED_POLL:
                    unused = 0 if await self._uses(plugin) else unused + 1
                    looked = self._timing.clock()
                if unused >= UNUSED_LOOKS:
                    log.warning("kubelet: %s is not allocatable any more; registering again", plugin.resource)
                    await plugin.stop()
                    return
        finally:
            closed.cancel()

    async def _uses(self, plugin: DevicePlugin) -> bool:
        """Whether the kubelet has one of the healthy devices.

        Another plugin that registers the same resource replaces ours, and takes all devices with it when it goes. The
        kubelet leaves our stream open all the while.
        """
        healthy = {device.id for device in plugin.devices if device.healthy}
        try:
            found = await self._pod_resources.allocatable()
        except ClusterError as error:
            log.debug("kubelet: %s", error)
            return True  # not known
        return not healthy or not healthy.isdisjoint(found.get(plugin.resource, ()))

    def _set(self, status: Status) -> None:
        if status != self.status:
            level = logging.WARNING if status.state in {"foreign", "refused"} else logging.INFO
            log.log(level, "kubelet: %s", status.sentence)
            before, self.status = self.status, status
            self._changed(before, status)


def _device(device: PluginDevice) -> Message:
    topology = None
    if device.numa is not None:
        topology = _MESSAGES["TopologyInfo"](nodes=[_MESSAGES["NUMANode"](ID=device.numa)])
    return _MESSAGES["Device"](ID=device.id, health="Healthy" if device.healthy else "Unhealthy", topology=topology)
