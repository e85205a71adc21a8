"""Allocator: answers the kubelet's calls for one resource, and corrects records that name other devices than a pod has."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.agent.kubelet.plugin import AllocationError, PluginDevice
from linkwise.broker.grant_writer import GrantWriter
from linkwise.errors import InputError
from linkwise.node.allocation import Refused, device_of, share_ids
from linkwise.node.container import needs_of, siblings_of
from linkwise.node.corrections import Addresses, assigned_annotations, corrected_annotations, correction_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.agent.holds import Holds
    from linkwise.broker.effects import Event
    from linkwise.model.device import Device
    from linkwise.model.settings import Visibility
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocated, Allocations, Correction
    from linkwise.node.container import HostOptions
    from linkwise.node.writes import ListedPods, Written
    from linkwise.vendors.container_needs import ContainerNeeds

__all__ = ["Allocator", "PodWriter", "RecordKeeper"]

log = logging.getLogger(__name__)
LATE_WATCH: Final = 5.0  # seconds
"""for the watch to show a corrected record; if it then shows another one, it was changed again"""


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


class PodWriter(Protocol):
    """Reads and annotates the pods of one node, and reports events; no failure of the API server raises."""

    async def pods(self) -> ListedPods:
        """The pods of the node, as the API server has them at this moment."""
        ...

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str]) -> Written:
        """Set annotations of a pod of that UID."""
        ...

    def tell(self, effects: Iterable[Event]) -> None:
        """Report events."""
        ...


class RecordKeeper:
    """Writes corrected records; a write that fails is repeated with the next comparison.

    Args:
        node: the name of the node.
        writer: writes to the API server; None without one.
        now: seconds since the epoch, for the records.
        clock: monotonic seconds: whether the watch is late must not depend on a clock that may be set back.
    """

    def __init__(
        self, node: str, writer: PodWriter | None, now: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self.corrected: Final = Counter[str]()
        """records by kind of correction"""
        self.addresses = Addresses()
        """for the records of pods that need them"""
        self._node = node
        self._writer = writer
        self._now, self._clock = now, clock
        self._grants = GrantWriter()
        self._written: dict[str, tuple[tuple[str, ...], float]] = {}
        """by pod UID: the devices written last and when, until the watch shows them"""
        self._problem = ""

    @property
    def problems(self) -> tuple[str, ...]:
        """Why records could not be written."""
        return (self._problem,) if self._problem else ()

    async def correct(self, allocations: Allocations, corrections: Sequence[Correction]) -> None:
        """Write the corrections, and mark the pods all of whose containers are served."""
        if self._writer is None:
            return
        self._problem = ""
        wrong = {correction.pod.uid for correction in corrections}
        self._written = {uid: last for uid, last in self._written.items() if uid in wrong}
        for correction in corrections:
            await self._correct(self._writer, allocations, correction)
        for pod in allocations.complete():
            keys = assigned_annotations(pod, allocations.devices_of(pod.uid), self.addresses)
            if keys and pod.uid not in wrong:
                await self._write(self._writer, pod, keys)

    async def _correct(self, writer: PodWriter, allocations: Allocations, correction: Correction) -> None:
        pod, devices, moment = correction.pod, correction.grant.offer.devices, self._clock()
        written, at = self._written.get(pod.uid, ((), 0.0))
        if written == devices and moment - at < LATE_WATCH:
            return
        keys = corrected_annotations(correction, allocations.devices, self._grants, self._now())
        if not await self._write(writer, pod, keys):
            return
        self._written[pod.uid] = devices, moment
        kind = "swapped" if correction.swapped else "corrected"
        self.corrected[kind] += 1
        log.warning("pod=%s/%s record %s to devices=%s", pod.namespace, pod.name, kind, ",".join(devices))
        writer.tell([correction_event(correction, self._node)])

    async def _write(self, writer: PodWriter, pod: PodView, keys: Mapping[str, str]) -> bool:
        written = await writer.annotate_pod(pod.namespace, pod.name, pod.uid, keys)
        if written.outcome != "done":
            self._problem = f"pod {pod.namespace}/{pod.name} can't be annotated: {written.sentence}"
        return written.outcome == "done"
