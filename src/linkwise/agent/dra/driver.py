"""Driver of claims: the devices of the node as ResourceSlices, and the ResourceClaims that have them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from linkwise.agent.dra.claims import ClaimReader, Claims
from linkwise.agent.dra.slices import SlicePublisher, SliceWriter
from linkwise.agent.kubelet.dra_plugin import DraPlugin
from linkwise.dialects.kubernetes.claims.driver import DRIVER
from linkwise.node.dra.pool import Pool, pool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.agent.container_access import ContainerAccess
    from linkwise.agent.kubelet.plugin import Status
    from linkwise.config.settings import AgentSettings
    from linkwise.model.inventory import Discovery
    from linkwise.net.timing import Timing

__all__ = ["ClaimApi", "ClaimDriver", "Service"]

Service = Literal["off", "ending", "on"]
"""`ending` while claims still have devices, and no more are to get any"""


class ClaimApi(ClaimReader, SliceWriter, Protocol):
    """The API server as the driver uses it."""


class ClaimDriver:
    """The driver of one node: `run` it, and `serve` while ResourceClaims allocate the devices.

    Args:
        node: name of the node.
        settings: of the agent.
        access: what the host has for containers.
        api: None without an API server.
        timing: clock and sleep.
        changed: called when its status or its claims have changed.
        unknown: why the health of devices is not known; empty if it is.
        answered: called with the method and the seconds of each answer to the kubelet.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        node: str,
        settings: AgentSettings,
        access: ContainerAccess,
        api: ClaimApi | None,
        timing: Timing,
        changed: Callable[[], None],
        unknown: Callable[[], str],
        answered: Callable[[str, float], None],
    ) -> None:
        kubelet = Path(settings.kubelet)
        self.claims: Final = Claims(node, kubelet, Path(settings.cdi_folder), access, api, unknown, changed)
        self.slices: Final = SlicePublisher(node, api, timing) if api else None
        self._plugin = DraPlugin(kubelet, DRIVER, self.claims, timing, lambda *_: changed(), answered)
        self._service: Service = "off"
        self._pool = Pool()
        self._changed = asyncio.Event()

    @property
    def active(self) -> bool:
        """Whether it serves the kubelet."""
        return self._service != "off"

    @property
    def status(self) -> Status:
        """Whether the kubelet uses it."""
        return self._plugin.status

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for an operator to look at, as sentences."""
        slices = (
            self.slices.problem
            if self.slices
            else ""
            if not self.active
            else "there is no API server to publish ResourceSlices to"
        )
        return tuple(filter(None, (self.claims.problem, slices)))

    def serve(self, service: Service) -> None:
        """Serve the kubelet, or no more; returns at once."""
        if service != self._service:
            self._service = service
            if self.slices:
                self.slices.publish(self._pool if service == "on" else Pool())
            self._changed.set()

    def update(self, found: Discovery, cordons: Mapping[str, str]) -> None:
        """Set the devices of the node; `cordons` are reasons of cordoned devices, by id."""
        pool = pool_of(found, cordons)
        self.claims.update(pool, {device.id: device for device in found.devices})
        if pool != self._pool:
            self._pool = pool
            if self.slices and self._service == "on":  # until then, those of the last agent stay as they are
                self.slices.publish(pool)
            self._plugin.wake()

    def observe_slice(self, name: str, document: object) -> None:
        """Take a slice from the watch, None if it does not exist; an empty name after a complete list."""
        if self.slices:
            self.slices.observe(name, document)

    async def run(self) -> None:
        """Publish slices and serve the kubelet, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.slices:
                tasks.create_task(self.slices.run(), name="slices")
            tasks.create_task(self._serve(), name="driver of claims")

    async def _serve(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.active:
                self.claims.restore()
                await self._serve_until_off()

    async def _serve_until_off(self) -> None:
        serving = asyncio.create_task(self._plugin.run())
        serving.add_done_callback(lambda _: self._changed.set())  # it ends only with an error
        try:
            while self.active and not serving.done():
                await self._changed.wait()
                self._changed.clear()
        finally:
            serving.cancel()
            (ended,) = await asyncio.gather(serving, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
