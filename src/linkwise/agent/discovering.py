"""Discovery loop: reads the devices at start, once per interval and after each fault that the driver reports.

The driver is called in a thread, so that a slow one blocks nothing. It is never called by two at once.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor, Future
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from linkwise.errors import LinkwiseError
from linkwise.node.health import with_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.driver import Driver
    from linkwise.model.inventory import Discovery
    from linkwise.net.timing import Timing
    from linkwise.node.health import Recovery

__all__ = ["DRIVER_THREADS", "Discoverer"]

log = logging.getLogger(__name__)

SLOW: Final = 15.0  # seconds after which a discovery counts as stuck
WAIT: Final = 0.5  # seconds that a thread waits for faults, and so the longest delay of a shutdown
FAILURES: Final = 3
"""discoveries that fail in a row before all devices count as unhealthy"""
P = ParamSpec("P")
T = TypeVar("T")


class Discoverer:
    """Calls a driver, and a function with each discovery that differs from the one before."""

    def __init__(
        self,
        driver: Driver,
        interval: float,
        timing: Timing,
        recovery: Recovery,
        changed: Callable[[Discovery], None],
    ) -> None:
        self.rounds = 0
        """discoveries so far"""
        self.problem = ""
        """why the last discovery failed or is late"""
        self.seconds = 0.0
        """that the last discovery took"""
        self.reported = 0
        """faults that the driver reported between two discoveries"""
        self._driver = driver
        self._interval = interval
        self._timing = timing
        self._recovery = recovery
        self._changed = changed
        self._found: Discovery | None = None
        """as the driver found it last"""
        self._last: Discovery | None = None
        """as it was passed on, without devices that are held back"""
        self._failures = 0

    async def run(self) -> None:
        """Discover until cancelled."""
        while True:
            await self.look()
            await self._wait(max(0.0, self._interval - self.seconds))

    async def look(self) -> None:
        """Discover once."""
        began = self._timing.clock()
        found = await self._discover()
        self.seconds = self._timing.clock() - began
        self.rounds += found is not None
        self._failures = 0 if found is not None else self._failures + 1
        if found is None and self._failures >= FAILURES:
            found = self._unreadable()
        if found is not None:
            self._pass_on(found)

    def remember(self, faults: Mapping[str, str]) -> None:
        """Hold devices back that failed before the process started, by id, until they are found without a fault."""
        if self._recovery.remember(faults) and self._found is not None:
            self._pass_on(self._found)

    def _pass_on(self, found: Discovery) -> None:
        self._found, usable = found, self._recovery.apply(found, self._timing.clock())
        if usable != self._last:
            self._report(usable)
            self._last = usable
            self._changed(usable)

    async def _wait(self, seconds: float) -> None:
        """Wait for the next discovery: for the interval, for a device that recovers, or for a fault."""
        end = self._timing.clock() + seconds
        recovered = self._recovery.remaining(self._timing.clock())
        if recovered is not None:
            end = min(end, self._timing.clock() + recovered)
        while (left := end - self._timing.clock()) > 0:
            faults = await self._faults(min(left, WAIT))
            if faults is None:
                await self._timing.sleep(left)
                return
            if failing := self._failing(faults):
                # A discovery may be slow or stuck when a device dies, so that the fault itself is passed on first.
                self._pass_on(failing)
                return
            if faults:  # of devices that are unhealthy already: one that reports many is not read for each of them
                await self._timing.sleep(min(left, WAIT))

    def _failing(self, faults: Mapping[str, str]) -> Discovery | None:
        """The devices with these faults, by id; None if none of them is new."""
        found = self._found
        if found is None:
            return None
        new = {
            device.id: f"device {device.index} is unhealthy: {faults[device.id]}"
            for device in found.devices
            if device.healthy and device.id in faults
        }
        self.reported += len(new)
        return with_faults(found, new) if new else None

    async def _faults(self, seconds: float) -> Mapping[str, str] | None:
        """Faults that the driver reports within the time; None if it is not notified of them."""
        try:
            return await asyncio.get_running_loop().run_in_executor(DRIVER_THREADS, self._driver.wait, seconds)
        except Exception:
            log.exception("driver=%s can't wait for events", self._driver.name)
            return None

    async def _discover(self) -> Discovery | None:
        """One discovery; None if it failed. One that is stuck is waited for: a second call would be stuck as well."""
        call = asyncio.get_running_loop().run_in_executor(DRIVER_THREADS, self._driver.discover)
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
        if self._found is None or not self._found.devices:
            return None
        devices = tuple(replace(device, healthy=False) for device in self._found.devices)
        return replace(self._found, devices=devices, faults={device.id: self.problem for device in devices})

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


class _DaemonThreads(Executor):
    """Runs each call in a thread of its own, which ends with the process: Python waits for the threads of other executors."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a call."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        Thread(target=work, name="driver", daemon=True).start()
        return future


DRIVER_THREADS: Final = _DaemonThreads()
