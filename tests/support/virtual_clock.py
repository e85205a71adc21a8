"""Event loop with a virtual clock, and the seams of time that run on it.

The clock of the loop stands still while there is work, and runs a hundred times as fast as the machine's while there is
none: a slow or paused machine makes nothing late, a timeout expires after its set time, and a test waits for neither.
Everything that a test waits for must run on this loop, in its threads, or behind a socket.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack

from linkwise.embedded.runtime import Clock
from linkwise.net.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

__all__ = ["IdleLoop", "loop_clock", "loop_time", "loop_timing", "run_idle", "wall_time"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK: Final = 1e-5  # seconds per poll, so that timeouts of busy loops expire too
_SPEED: Final = 100.0
"""virtual seconds per idle second: the kernel delivers bytes on the loopback later than at once if it is busy"""
_SHORTEST: Final = 0.001  # seconds; selectors round up to milliseconds


class _Idle(selectors.DefaultSelector):
    """Selector that counts virtual seconds in which nothing was ready."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.working = 0
        """threads whose result the loop waits for: the clock runs no faster than the machine's"""
        self.processes: list[asyncio.SubprocessTransport] = []
        """the same for processes"""
        self._owed = 0.0
        """idle seconds that were counted and not waited for, too short to wait for each"""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Poll; if nothing is ready, the timeout has passed."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            self.seconds += _LOOK
            return found
        if timeout is None:
            return super().select()
        self.processes = [process for process in self.processes if process.get_returncode() is None]
        self._owed += timeout if self.working or self.processes else timeout / _SPEED
        if self._owed >= _SHORTEST:
            found, self._owed = super().select(self._owed), 0.0
        self.seconds += _LOOK if found else timeout
        return found


class IdleLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock stands still while there is work."""

    def __init__(self) -> None:
        self._idle = _Idle()
        self.started: Final = time.time()
        super().__init__(self._idle)

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._idle.seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; the clock waits for it."""
        self._idle.working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        return future

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the base class
        """Run a program; the clock waits for it."""
        transport, protocol = await super().subprocess_exec(*args, **kwargs)
        self._idle.processes.append(transport)
        return transport, protocol

    def _worked(self, _: asyncio.Future[Any]) -> None:
        self._idle.working -= 1


def run_idle(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on such a loop."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        return runner.run(story)


def loop_time() -> float:
    """Seconds that the clock of the running loop shows."""
    return asyncio.get_running_loop().time()


def wall_time() -> float:
    """Seconds since the epoch by the clock of the running loop."""
    loop = asyncio.get_running_loop()
    return loop.started + loop.time() if isinstance(loop, IdleLoop) else time.time()


def loop_timing() -> Timing:
    """Time of the running loop for what takes a `Timing`."""
    return Timing(clock=loop_time, now=wall_time)


def loop_clock() -> Clock:
    """The same for the components of an embedded cluster."""
    return Clock(now=loop_time)
