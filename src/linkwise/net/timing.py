"""Clocks, backoff and rate limits.

Time and randomness are values, so that tests can replace them. `SteadyClock` is a wall clock that never goes backwards:
reservations expire by it, and if the machine's clock were set back by an hour, one of two seconds would last an hour more.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

__all__ = ["Backoff", "LogLimit", "RateLimit", "SteadyClock", "Timing", "boot_time"]

LOG_SECONDS: Final = 60.0
"""between two log lines about one subject"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Sources of time and randomness."""

    clock: Callable[[], float] = time.monotonic
    """monotonic seconds"""
    now: Callable[[], float] = time.time
    """seconds since the epoch"""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """random number from 0 to 1"""


def boot_time() -> float:
    """Monotonic seconds that pass while the machine is suspended, too, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Backoff:
    """Exponential backoff with jitter, up to a limit."""

    def __init__(self, timing: Timing, first: float = 0.25, most: float = 30.0) -> None:
        self._timing = timing
        self._first = first
        self._most = most
        self._delay = first

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._delay = self._first

    def next(self) -> float:
        """The next delay, in seconds."""
        delay, self._delay = self._delay, min(self._delay * 2, self._most)
        # Jitter, so that clients that lost one server do not return to it all at once.
        return delay * (0.5 + 0.5 * self._timing.chance())

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait for the next delay, or longer."""
        await self._timing.sleep(max(self.next(), at_least))


class RateLimit:
    """Token bucket."""

    def __init__(self, timing: Timing, rate: float, burst: int) -> None:
        self._timing = timing
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._filled_at = timing.clock()

    async def take(self) -> None:
        """Wait for a token and take it."""
        while not self.ready():
            await self._timing.sleep((1.0 - self._tokens) / self._rate)
        self.spend()

    def ready(self) -> bool:
        """Whether there is a token."""
        now = self._timing.clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        # Sums of floats may stay a little below a whole token; a wait for that rest is too short to pass.
        return self._tokens >= 1.0 - 1e-9

    def spend(self) -> None:
        """Take the token that is ready."""
        self._tokens -= 1.0


@dataclass(slots=True)
class _Logged:
    at: float
    """monotonic seconds"""
    since: int = 0
    """lines that were left out since then"""


class LogLimit:
    """Warnings that strangers can cause: one line per subject and minute, with the number of those left out."""

    def __init__(self, log: logging.Logger, timing: Timing | None = None) -> None:
        self._log, self._timing = log, timing or Timing()
        self._logged: dict[str, _Logged] = {}

    def warning(self, subject: str, message: str, *values: object) -> None:
        """Log a warning, unless one about the same subject was logged less than a minute ago."""
        now, last = self._timing.clock(), self._logged.get(subject)
        if last is not None and now - last.at < LOG_SECONDS:
            last.since += 1
            self._log.debug(message, *values)
            return
        self._logged[subject] = _Logged(now)
        more = f" and {last.since} more in the last {now - last.at:.0f} s" if last and last.since else ""
        self._log.warning(f"{message}%s", *values, more)


class SteadyClock:
    """A wall clock that never goes backwards; if the machine's clock is set back, it continues from where it was."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._now, self._read_at = wall(), monotonic()

    def __call__(self) -> float:
        """Seconds since the epoch."""
        reading = self._monotonic()
        self._now, self._read_at = max(self._wall(), self._now + reading - self._read_at), reading
        return self._now
