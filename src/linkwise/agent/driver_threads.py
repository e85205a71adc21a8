"""Threads for calls of the driver: one that is stuck in the hardware's library does not keep the agent from ending."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from threading import Thread
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DRIVER_THREADS"]

P = ParamSpec("P")
T = TypeVar("T")


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
