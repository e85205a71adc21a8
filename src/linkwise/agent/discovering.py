"""Discovery loop: reads the devices at start and once per interval, in a thread, so that a slow driver blocks nothing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.discovery import Discovery
    from linkwise.net.timing import Timing

__all__ = ["Discoverer", "Driver"]

log = logging.getLogger(__name__)

SLOW: Final = 15.0  # seconds after which a discovery counts as stuck
FAILURES: Final = 3
"""discoveries that fail in a row before all devices count as unhealthy"""


class Driver(Protocol):
    """Reads the devices of this machine."""

    name: str

    def discover(self) -> Discovery:
        """Read all devices; blocks. DriverError if nothing can be read."""
        ...

    def close(self) -> None:
        """Release the hardware."""
        ...


class Discoverer:
    """Calls a driver, and a function with each discovery that differs from the one before."""

    def __init__(self, driver: Driver, interval: float, timing: Timing, changed: Callable[[Discovery], None]) -> None:
        self.rounds = 0
        """discoveries so far"""
        self.problem = ""
        """why the last discovery failed or is late"""
        self.seconds = 0.0
        """that the last discovery took"""
        self._driver = driver
        self._interval = interval
        self._timing = timing
        self._changed = changed
        self._last: Discovery | None = None
        self._failures = 0

    async def run(self) -> None:
        """Discover until cancelled."""
        while True:
            began = self._timing.clock()
            found = await self._discover()
            self.seconds = self._timing.clock() - began
            self.rounds += found is not None
            self._failures = 0 if found is not None else self._failures + 1
            if found is None and self._failures >= FAILURES:
                found = self._unreadable()
            if found is not None and found != self._last:
                self._report(found)
                self._last = found
                self._changed(found)
            await self._timing.sleep(max(0.0, self._interval - self.seconds))

    async def _discover(self) -> Discovery | None:
        """One discovery; None if it failed. One that is stuck is waited for: a second call would be stuck as well."""
        call = asyncio.create_task(asyncio.to_thread(self._driver.discover))
        done, _ = await asyncio.wait({call}, timeout=SLOW)
        if not done:
            self._fail(f"driver {self._driver.name}: no answer for {SLOW:.0f} s")
        try:
            found = await call
        except LinkwiseError as error:
            self._fail(str(error))
            return None
        except Exception:
            log.exception("driver=%s discovery failed", self._driver.name)
            self._fail(f"driver {self._driver.name}: internal error; see the log")
            return None
        if self.problem:
            log.info("driver=%s recovered", self._driver.name)
        self.problem = ""
        return found

    def _unreadable(self) -> Discovery | None:
        """The last known devices, all unhealthy; None if there are none."""
        if self._last is None or not self._last.devices:
            return None
        devices = tuple(replace(device, healthy=False) for device in self._last.devices)
        return replace(self._last, devices=devices, faults={device.id: self.problem for device in devices})

    def _fail(self, sentence: str) -> None:
        if sentence != self.problem:
            log.warning("driver=%s %s", self._driver.name, sentence)
        self.problem = sentence

    def _report(self, found: Discovery) -> None:
        healthy = sum(device.healthy for device in found.devices)
        log.info("driver=%s devices=%d healthy=%d", self._driver.name, len(found.devices), healthy)
        for device, sentence in found.faults.items():
            if self._last is None or self._last.faults.get(device) != sentence:
                log.warning("driver=%s device=%s %s", self._driver.name, device, sentence)
        for sentence in found.problems:
            if self._last is None or sentence not in self._last.problems:
                log.warning("driver=%s %s", self._driver.name, sentence)
