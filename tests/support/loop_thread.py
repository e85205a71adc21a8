"""Server with an event loop of its own in a thread, for tests that block on answers."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractAsyncContextManager

__all__ = ["LoopThread"]


class LoopThread:
    """Serves for the duration of the `with`; subclasses start and end what they serve in `serving`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready, self._end = threading.Event(), asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(100):
            raise AssertionError("the server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(100)
        if self._thread.is_alive():
            raise AssertionError("the server did not end")

    def on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Run a coroutine on the loop of the server and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(100)

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Start on entry and end on exit."""
        raise NotImplementedError

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self.serving():
            self._ready.set()
            await self._end.wait()
