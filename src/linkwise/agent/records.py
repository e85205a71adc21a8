"""Record keeper: corrects the records of pods whose containers have other devices, and marks pods that are served."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.broker.grant_writer import GrantWriter
from linkwise.node.corrections import Addresses, assigned_annotations, corrected_annotations, correction_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.effects import Event
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocations, Correction
    from linkwise.node.writes import ListedPods, Written

__all__ = ["PodWriter", "RecordKeeper"]

log = logging.getLogger(__name__)

LATE_WATCH: Final = 5.0  # seconds
"""for the watch to show a corrected record; if it then shows another one, it was changed again"""


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
