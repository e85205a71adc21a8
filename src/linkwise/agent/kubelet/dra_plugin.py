"""DRA plugin server: the sockets by which the kubelet finds a driver of claims, prepares claims and follows their health.

The kubelet watches its folder `plugins_registry`. For each socket there it asks for the name and the address of a driver, and
says whether it uses it. It does so again after each of its starts.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from linkwise.agent.kubelet.messages import (
    DRA_PLUGIN,
    HEALTH,
    PLUGIN_REGISTRATION,
    STABLE_HEALTH,
    Message,
    messages_of,
)
from linkwise.agent.kubelet.plugin import Status
from linkwise.agent.kubelet.server import Calls, UnixServer
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from linkwise.net.timing import Timing

__all__ = ["ClaimHandler", "ClaimRef", "DeviceHealth", "DraPlugin", "GivenDevice"]

log = logging.getLogger(__name__)

VERSIONS: Final = ("v1.DRAPlugin", STABLE_HEALTH, HEALTH)
"""of which the kubelet uses those that it knows"""
POLL: Final = 0.5  # seconds between looks at the sockets
HEALTH_SECONDS: Final = 10.0
"""after which the health of devices is repeated"""
HEALTH_TIMEOUT: Final = 60
"""seconds after which the kubelet takes the health of a device for unknown"""
_LONGEST_MESSAGE: Final = 1024  # characters
_HEALTH: Final = {"unknown": 0, "healthy": 1, "unhealthy": 2}
_INFO: Final = messages_of(PLUGIN_REGISTRATION)
_CLAIMS: Final = messages_of(DRA_PLUGIN)
_STATES: Final = messages_of(HEALTH)


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device of a prepared claim."""

    request: str
    pool: str
    device: str
    cdi: tuple[str, ...]
    """names by which the container runtime adds it to a container"""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a device of the pool."""

    pool: str
    device: str
    state: Literal["unknown", "healthy", "unhealthy"]
    message: str = ""


class ClaimHandler(Protocol):
    """Prepares claims; LinkwiseError if one can't be, which the kubelet tries again."""

    async def prepare(self, claim: ClaimRef) -> Sequence[GivenDevice]:
        """The devices of a claim, which containers may use from now on; the same answer to the same call."""

    async def unprepare(self, claim: ClaimRef) -> None:
        """Take the devices back, if the claim has any."""

    def health(self) -> Sequence[DeviceHealth]:
        """The health of all devices of the pool."""


class DraPlugin:
    """Serves a driver to the kubelet; `run` it until cancelled.

    Args:
        kubelet: root folder of the kubelet.
        driver: its name.
        handler: prepares claims.
        timing: clock and sleep.
        changed: called with the last status and every new one.
        answered: called with the method and the seconds of each answer.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        kubelet: Path,
        driver: str,
        handler: ClaimHandler,
        timing: Timing,
        changed: Callable[[Status, Status], None] = lambda *_: None,
        answered: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        self.driver: Final = driver
        self.status = Status()
        self._handler = handler
        self._timing = timing
        self._changed = changed
        self._plugin = UnixServer(kubelet / "plugins" / driver / "dra.sock")
        self._registration = UnixServer(kubelet / "plugins_registry" / f"{driver}-reg.sock")
        self._claim_calls = Calls(f"driver={driver}", _CLAIMS, answered)
        self._health_calls = Calls(f"driver={driver}", _STATES)
        self._info_calls = Calls(f"driver={driver}", _INFO)
        self._health_changed = asyncio.Event()
        self._streams = 0

    def wake(self) -> None:
        """Tell the kubelet the health of devices again, since it may have changed."""
        self._health_changed.set()
        self._health_changed = asyncio.Event()

    async def run(self) -> None:
        """Listen, again if a socket is removed; without sockets the kubelet forgets the driver."""
        try:
            while True:
                try:
                    await self._listen()
                except (OSError, RuntimeError, LinkwiseError) as error:
                    self._set(Status("refused", f"the sockets of {self.driver} can't be made: {error}"))
                await self._timing.sleep(POLL)
        finally:
            self.status = Status()
            await self._stop()

    async def _listen(self) -> None:
        if self._plugin.serving and self._registration.serving:
            return
        await self._stop()
        self._set(Status("waiting", f"waiting for the kubelet to register {self.driver}"))
        for server in (self._plugin, self._registration):
            server.socket.parent.mkdir(parents=True, exist_ok=True)
        claims, health, info = self._claim_calls, self._health_calls, self._info_calls
        watch = {"NodeWatchResources": health.stream(self._watch_health, "NodeWatchResourcesRequest")}
        await self._plugin.start(
            {
                DRA_PLUGIN: {
                    "NodePrepareResources": claims.unary(self._prepare, "NodePrepareResourcesRequest"),
                    "NodeUnprepareResources": claims.unary(self._unprepare, "NodeUnprepareResourcesRequest"),
                },
                HEALTH: watch,
                STABLE_HEALTH: watch,
            }
        )
        await self._registration.start(
            {
                PLUGIN_REGISTRATION: {
                    "GetInfo": info.unary(self._get_info, "InfoRequest"),
                    "NotifyRegistrationStatus": info.unary(self._registered, "RegistrationStatus"),
                }
            }
        )

    async def _stop(self) -> None:
        await self._registration.stop(0)
        await self._plugin.stop(0 if self._streams else 2.0, self.wake)

    async def _get_info(self, request: Message) -> Message:
        del request
        return _INFO["PluginInfo"](
            type="DRAPlugin", name=self.driver, endpoint=str(self._plugin.socket), supported_versions=VERSIONS
        )

    async def _registered(self, request: Message) -> Message:
        if request.plugin_registered:
            self._set(Status("registered", f"the kubelet uses the driver {self.driver}"))
        else:
            why = request.error or "it gave no reason"
            self._set(Status("refused", f"the kubelet refused the driver {self.driver}: {why}"))
        return _INFO["RegistrationStatusResponse"]()

    async def _prepare(self, request: Message) -> Message:
        refs = _refs(request)
        answers = await asyncio.gather(*(self._answer(self._prepared(ref)) for ref in refs))
        return _CLAIMS["NodePrepareResourcesResponse"](
            claims={
                ref.uid: _CLAIMS["NodePrepareResourceResponse"](
                    devices=[_device(one) for one in devices or ()], error=error
                )
                for ref, (devices, error) in zip(refs, answers, strict=True)
            }
        )

    async def _unprepare(self, request: Message) -> Message:
        refs = _refs(request)
        answers = await asyncio.gather(*(self._answer(self._unprepared(ref)) for ref in refs))
        return _CLAIMS["NodeUnprepareResourcesResponse"](
            claims={
                ref.uid: _CLAIMS["NodeUnprepareResourceResponse"](error=error)
                for ref, (_, error) in zip(refs, answers, strict=True)
            }
        )

    async def _prepared(self, ref: ClaimRef) -> Sequence[GivenDevice]:
        return await self._handler.prepare(ref)

    async def _unprepared(self, ref: ClaimRef) -> Sequence[GivenDevice]:
        await self._handler.unprepare(ref)
        return ()

    async def _answer(self, call: Awaitable[Sequence[GivenDevice]]) -> tuple[Sequence[GivenDevice], str]:
        """The devices of a claim, or why it has none: each claim of a call has an answer of its own."""
        try:
            return await call, ""
        except LinkwiseError as error:
            log.warning("driver=%s %s", self.driver, error)
            return (), str(error)
        except Exception as error:  # a bug with one claim must not keep others from starting
            log.exception("driver=%s a claim failed", self.driver)
            return (), f"internal error of the driver {self.driver}: {error!r}"

    async def _watch_health(self, request: Message) -> AsyncIterator[Message]:
        del request
        server = self._plugin.identity
        self._streams += 1
        try:
            while server is not None and self._plugin.identity is server:
                changed, now = self._health_changed, int(self._timing.now())
                yield _STATES["NodeWatchResourcesResponse"](
                    devices=[_health(one, now) for one in self._handler.health()]
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEALTH_SECONDS):
                        await changed.wait()
        finally:
            self._streams -= 1

    def _set(self, status: Status) -> None:
        if status != self.status:
            level = logging.WARNING if status.state == "refused" else logging.INFO
            log.log(level, "kubelet: %s", status.sentence)
            before, self.status = self.status, status
            self._changed(before, status)


def _refs(request: Message) -> list[ClaimRef]:
    """The claims of a call, each once."""
    return list(dict.fromkeys(ClaimRef(each.namespace, each.name, each.uid) for each in request.claims))


def _device(device: GivenDevice) -> Message:
    return _CLAIMS["Device"](
        request_names=[device.request],
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi,
    )


def _health(one: DeviceHealth, now: int) -> Message:
    return _STATES["DeviceHealth"](
        device=_STATES["DeviceIdentifier"](pool_name=one.pool, device_name=one.device),
        health=_HEALTH[one.state],
        last_updated_time=now,
        health_check_timeout_seconds=HEALTH_TIMEOUT,
        message=one.message[:_LONGEST_MESSAGE],
    )
