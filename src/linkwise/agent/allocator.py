"""Allocator: answers the kubelet's calls for one resource, from the pods of the node and their records."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.agent.kubelet.plugin import AllocationError, PluginDevice
from linkwise.errors import InputError
from linkwise.node.allocation import Refused
from linkwise.node.container import needs_of
from linkwise.node.device_ids import device_of, share_ids
from linkwise.node.visibility import siblings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.agent.measuring.holds import Holds
    from linkwise.agent.records import PodWriter
    from linkwise.model.device import Device
    from linkwise.model.settings import Visibility
    from linkwise.node.allocation import Allocated, Allocations
    from linkwise.node.container import HostOptions
    from linkwise.vendors.container_needs import ContainerNeeds

__all__ = ["Allocator"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Allocator:
    """The plugin's handler: matches a call to a container that waits, and says what that container is given."""

    allocations: Allocations
    host: HostOptions
    visibility: Visibility
    reader: PodWriter | None
    """None while no API server is configured"""
    clock: Callable[[], float]
    allocated: Callable[[], None] = lambda: None
    """called after each allocation"""
    holds: Holds | None = None
    """devices that a measurement uses"""

    def plugin_devices(self, devices: Sequence[Device]) -> list[PluginDevice]:
        """The ids to list: one per device, or one per unit of its memory."""
        if not self.allocations.shared:
            return [PluginDevice(device.id, device.healthy, device.numa) for device in devices]
        return [
            # Without NUMA nodes: the kubelet would align units, of several devices if need be, and reject the pod.
            PluginDevice(identifier, device.healthy)
            for device in devices
            for identifier in share_ids(device)
        ]

    async def preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> Sequence[str]:
        """Ids to allocate: the recorded ones, else those that the scheduler would pick."""
        await self._expect(size)
        ids = self.allocations.preferred(self._without_held(available, required, size), required, size)
        log.debug("preferred resource=%s size=%d ids=%s", self.allocations.resource, size, ",".join(ids))
        return ids

    async def allocate(self, ids: Sequence[str]) -> ContainerNeeds:
        """What the container of a call is given; AllocationError if it must not start with these ids."""
        await self._expect(len(ids))
        if self.holds and (sentence := await self.holds.vacate(set(map(device_of, ids)))):
            raise AllocationError(sentence)
        answer = self.allocations.allocate(ids, self.clock())
        if isinstance(answer, Refused):
            log.warning("allocate resource=%s refused: %s", self.allocations.resource, answer.sentence)
            raise AllocationError(answer.sentence)
        devices, shared = self.allocations.devices, self.allocations.shared
        try:
            needs = needs_of(answer, devices, siblings_of(answer, devices, self.visibility), self.host, shared=shared)
        except InputError as error:
            raise AllocationError(str(error)) from error
        self._log(answer)
        self.allocated()
        return needs

    def _without_held(self, available: Sequence[str], required: Sequence[str], size: int) -> Sequence[str]:
        """The ids that end no measurement, if they are enough; those on record are always available."""
        held = self.holds.devices - self.allocations.recorded() if self.holds else frozenset()
        rest = [one for one in available if device_of(one) not in held or one in required] if held else available
        return rest if len(rest) >= size else available

    async def _expect(self, size: int) -> None:
        """Read the pods if none is known that waits for that number of ids: the kubelet may be ahead of our watch."""
        if self.reader is None or self.allocations.expects(size):
            return
        for pod in (await self.reader.pods()).pods:
            self.allocations.observe(pod)

    def _log(self, answer: Allocated) -> None:
        claim = answer.claim
        pod = f"{claim.pod.namespace}/{claim.pod.name} container={claim.container}" if claim else "unknown"
        log.info(
            "allocate resource=%s pod=%s devices=%s (%s)",
            self.allocations.resource,
            pod,
            ",".join(answer.devices),
            answer.how,
        )
