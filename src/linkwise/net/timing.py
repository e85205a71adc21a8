"""Time and chance, as values that tests replace; and what is built of them: waiting longer each time, and rates.

The time of day as decisions need it: it may leap ahead, but it never goes back.

Promises end by it. Were it set back by an hour, what is held for two seconds would be held for an hour and two seconds.
"""
# Joined from timing, steady: one docstring for all.

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Backoff", "RateLimit", "SteadyClock", "Timing"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Where time and chance come from."""

    clock: Callable[[], float] = time.monotonic
    """seconds that never go back"""
    now: Callable[[], float] = time.time
    """seconds since the epoch"""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """from 0 to 1"""


class Backoff:
    """Waits that double up to a limit; each is shortened by chance, so that many clients do not come back at once."""

    def __init__(self, timing: Timing, first: float = 0.25, most: float = 30.0) -> None:
        self._timing = timing
        self._first = first
        self._most = most
        self._delay = first

    def reset(self) -> None:
        """What failed works again."""
        self._delay = self._first

    def next(self) -> float:
        """How long to wait now."""
        delay, self._delay = self._delay, min(self._delay * 2, self._most)
        return delay * (0.5 + 0.5 * self._timing.chance())

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait that long."""
        await self._timing.sleep(max(self.next(), at_least))


class RateLimit:
    """A rate: so many at once, and so many a second after that."""

    def __init__(self, timing: Timing, rate: float, burst: int) -> None:
        self._timing = timing
        self._rate = rate
        self._burst = float(burst)
        self._left = self._burst
        self._at = timing.clock()

    async def take(self) -> None:
        """Wait until one more is allowed."""
        while True:
            now = self._timing.clock()
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left >= 1.0 - 1e-9:
                self._left -= 1.0
                return
            await self._timing.sleep((1.0 - self._left) / self._rate)


class SteadyClock:
    """Seconds since the epoch; when the clock of the machine is set back, time passes on from where it was."""

    def __init__(self, day: Callable[[], float] = time.time, passing: Callable[[], float] = time.monotonic) -> None:
        self._day = day
        self._passing = passing
        self._now, self._at = day(), passing()

    def __call__(self) -> float:
        """Now."""
        at = self._passing()
        self._now, self._at = max(self._day(), self._now + at - self._at), at
        return self._now
