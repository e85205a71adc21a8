"""Publisher of slices: keeps the ResourceSlices of the node equal to its pool, also when others change or remove them.

A change of the content gets the next generation, in all slices of the pool, and consumers ignore a pool until it is complete. The
kubelet removes all slices of the node at its start, and those of a driver that it has not heard of for 30 seconds: they are
written again with the same generation.

API servers drop fields whose feature is off. Without counters a device could be allocated twice, on its own and in a set, so
counters are written first, and if they are dropped, sets are not published.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.agent.publisher import object_version, parsed_document
from linkwise.dialects.kubernetes.claims.driver import (
    generation_of,
    slice_name,
    slice_object,
    slice_part,
    with_known_times,
)
from linkwise.net.timing import Backoff
from linkwise.node.dra.pool import Pool
from linkwise.node.writes import Written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.kubernetes.claims.driver import Part
    from linkwise.net.timing import Timing

__all__ = ["SlicePublisher", "SliceWriter"]

log = logging.getLogger(__name__)

FIRST_RETRY: Final = 0.25  # s
LAST_RETRY: Final = 30.0  # s
_UNCHANGED: Final = Written("done")


class SliceWriter(Protocol):
    """Writes slices of the node; repeating a write is harmless, and no failure of the API server raises."""

    async def write_slice(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create a slice, or replace the known one if it has not changed since."""
        ...

    async def delete_slice(self, name: str) -> Written:
        """Delete a slice, if there is one."""
        ...


class SlicePublisher:
    """Writes the pool of one node; `run` it until cancelled."""

    def __init__(self, node: str, writer: SliceWriter, timing: Timing) -> None:
        self.problem = ""
        """why the pool is not published as it is"""
        self.writes: Final = Counter[tuple[str, str]]()
        """by kind and outcome"""
        self._node = node
        self._writer = writer
        self._timing = timing
        self._pool: Pool | None = None
        self._known: dict[str, Mapping[str, object]] = {}
        """slices as the API server has them, by name"""
        self._listed = False
        self._generation = 0
        self._written: tuple[Part, ...] = ()
        """the content of the last generation that was written"""
        self._dropped = ""
        """the field that the API server drops"""
        self._changed = asyncio.Event()

    @property
    def settled(self) -> bool:
        """Whether the API server has the pool, as far as it stores it."""
        return self._pool is not None and self._listed and not self._is_due()

    def publish(self, pool: Pool) -> None:
        """Set the pool; returns at once. An empty one has no slices."""
        if pool != self._pool:
            self._pool = pool
            self._changed.set()

    def observe(self, name: str, document: object) -> None:
        """Take a slice from the watch, None if it does not exist; an empty name after a complete list."""
        if not name:
            self._listed = True
        elif (found := parsed_document(document)) is None:
            self._known.pop(name, None)
        elif self._is_newer(name, found):
            self._known[name] = found
        self._changed.set()

    async def run(self) -> None:
        """Write what differs, until cancelled."""
        backoff = Backoff(self._timing, FIRST_RETRY, LAST_RETRY)
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                wait = await self._publish()
            except Exception as error:  # a bug must not keep the node from serving the kubelet
                log.exception("slices are not published")
                self._report(f"slices are not published (a bug in Linkwise): {error!r}")
                wait = 0.0
            if wait is None:
                backoff.reset()
                continue
            await backoff.wait(wait)
            self._changed.set()

    async def _publish(self) -> float | None:
        """Write all that is due; the seconds until it is tried again, or None if it is done."""
        while self._is_due():
            parts = self._parts()
            generation = self._next_generation(parts)
            for number, part in enumerate(parts):
                if not (written := await self._write(number, part, generation, len(parts))):
                    break
                if written.outcome != "done":
                    self._report(f"ResourceSlices are not published: {written.sentence}")
                    return written.wait
            else:
                self._generation, self._written = generation, parts
                for name in self._known.keys() - self._names(parts):
                    written = await self._writer.delete_slice(name)
                    self.writes["slice", written.outcome] += 1
                    if written.outcome != "done":
                        self._report(f"ResourceSlice {name} can't be deleted: {written.sentence}")
                        return written.wait
                    self._known.pop(name, None)
        if self._known and self._pool is not None and self._listed:  # the last agent may have written them
            self._generation, self._written = generation_of(next(iter(self._known.values())))[0], self._parts()
        self._report(self._dropped)
        return None

    async def _write(self, number: int, part: Part, generation: int, total: int) -> Written | None:
        """Write one slice; None if the API server has dropped a field of it, so that another pool is to be written."""
        name = slice_name(self._node, number)
        known = self._known.get(name)
        if known is not None and self._is_current(known, part, generation, total):
            return _UNCHANGED
        document = slice_object(self._node, number, with_known_times(part, known or {}), generation, total)
        written = await self._writer.write_slice(document, known)
        self.writes["slice", written.outcome] += 1
        if written.document is not None:
            self._known[name] = written.document
        if written.outcome == "done" and written.document is not None and slice_part(written.document) != part:
            self._drop()
            return None
        return written

    def _drop(self) -> None:
        if self._dropped:
            raise RuntimeError("the API server stores other slices than it is sent")
        self._dropped = (
            "the API server drops counters or taints of ResourceSlices, so neither sets nor devices with a fault are published;"
            " turn on the feature gates DRAPartitionableDevices and DRADeviceTaints"
        )
        log.warning("%s", self._dropped)

    def _parts(self) -> tuple[Part, ...]:
        pool = self._pool or Pool()
        return pool.plain if self._dropped else pool.parts

    def _names(self, parts: tuple[Part, ...]) -> set[str]:
        return {slice_name(self._node, number) for number in range(len(parts))}

    def _is_due(self) -> bool:
        if self._pool is None or not self._listed:
            return False
        parts = self._parts()
        if self._known.keys() != self._names(parts):
            return True
        generations = {generation_of(document)[0] for document in self._known.values()}
        return len(generations) > 1 or not all(
            self._is_current(self._known[slice_name(self._node, number)], part, max(generations), len(parts))
            for number, part in enumerate(parts)
        )

    def _is_current(self, known: Mapping[str, object], part: Part, generation: int, total: int) -> bool:
        return generation_of(known) == (generation, total) and slice_part(known) == part

    def _next_generation(self, parts: tuple[Part, ...]) -> int:
        """That of the slices if they are the same, and some are only missing; else the next one."""
        newest = max((generation_of(document)[0] for document in self._known.values()), default=0)
        newest = max(newest, self._generation)
        same = parts == self._written if self._written else not self._known
        intact = all(
            self._is_current(document, parts[number], newest, len(parts))
            for number in range(len(parts))
            if (document := self._known.get(slice_name(self._node, number))) is not None
        )
        return newest if newest and same and intact else newest + 1

    def _is_newer(self, name: str, found: Mapping[str, object]) -> bool:
        """Whether a slice of the watch is not older than the response to the last write."""
        known = self._known.get(name)
        return known is None or _identity(known) != _identity(found) or object_version(found) >= object_version(known)

    def _report(self, sentence: str) -> None:
        if sentence and sentence != self.problem:
            log.warning("%s", sentence)
        self.problem = sentence


def _metadata(document: Mapping[str, object]) -> Mapping[str, object]:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _identity(document: Mapping[str, object]) -> object:
    return _metadata(document).get("uid")
