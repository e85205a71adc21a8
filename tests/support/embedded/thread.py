"""Embedded API server in its own thread, for tests that block on answers."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self

from linkwise.embedded.apiserver.server import EmbeddedApi
from support.e2e.api_client import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["EmbeddedThread"]


class EmbeddedThread:
    """Serves for the duration of the `with`; call `server` only on its loop."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as EmbeddedApi has them
        self._settings = {"tls": False, **settings}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready, self._end = threading.Event(), asyncio.Event()
        self.server: EmbeddedApi

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

    def api(self) -> Api:
        """A connection."""
        return Api(self.server.url, self.server.token)

    def on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Run a coroutine on the loop of the server and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(100)

    def do(self, work: Callable[[EmbeddedApi], Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Call a function on the loop of the server and wait for it."""

        async def done() -> Any:  # noqa: ANN401 - same
            return work(self.server)

        return self.on_loop(done())

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with EmbeddedApi(**self._settings) as self.server:
            self._ready.set()
            await self._end.wait()
