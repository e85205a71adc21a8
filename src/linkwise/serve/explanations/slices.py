"""Slices: a long computation on the loop in small pieces, between which calls of the scheduler are answered.

The computation runs in a thread of its own, and never at the same time as the loop: the loop waits while a slice lasts,
and the thread waits while the loop has its turn. So nothing needs a lock, and the computation may pause at any depth of
its calls. The state may change in a pause.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SLICE_SECONDS", "Slices"]

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
"""after which a computation pauses; a pause comes at the end of the piece of work in progress"""


class _AbandonedError(BaseException):
    """Ends a computation whose caller is gone."""


class _Computation(Generic[T]):
    """One computation in its thread; `advance` runs a slice of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Final = work
        self._turn: Final = threading.Semaphore(0)
        self._back: Final = threading.Semaphore(0)
        self._abandoned = False
        self._end = 0.0
        self.results: Final[list[T]] = []
        self.error: Exception | None = None
        self.done = False
        self.thread: Final = threading.Thread(target=self._run, name="linkwise-explain", daemon=True)
        self.thread.start()

    def advance(self, seconds: float) -> None:
        """Run until the next pause, or to the end."""
        self._end = time.perf_counter() + seconds
        self._turn.release()
        self._back.acquire()

    def pause(self) -> None:
        """Wait for the next slice if this one is over."""
        if time.perf_counter() < self._end:
            return
        self._back.release()
        self._turn.acquire()
        if self._abandoned:
            raise _AbandonedError

    def abandon(self) -> None:
        """End the thread."""
        self._abandoned = True
        self._turn.release()
        self.thread.join()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._abandoned:
                self.results.append(self._work())
        except _AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            self.error = error
        finally:
            self.done = True
            self._back.release()


class Slices:
    """Runs computations one after the other, each in slices."""

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds: Final = seconds
        self._one_at_a_time: Final = asyncio.Lock()
        self._running: _Computation[Any] | None = None

    def pause(self) -> None:
        """Let others run if the slice is over; does nothing outside of a computation."""
        running = self._running
        if running is not None and threading.get_ident() == running.thread.ident:
            running.pause()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of the computation, which calls `pause` between small pieces of work."""
        async with self._one_at_a_time:
            computation, collecting = _Computation(work), gc.isenabled()
            gc.disable()  # one collection of a large explanation's values would take longer than many slices
            try:
                while not computation.done:
                    self._running = computation
                    computation.advance(self._seconds)
                    self._running = None
                    await asyncio.sleep(0)
            finally:
                if not computation.done:
                    computation.abandon()
                if collecting:
                    gc.enable()
        if computation.error:
            raise computation.error
        return computation.results[0]
