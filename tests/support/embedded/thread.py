"""Embedded API server in its own thread, for tests that block on answers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from linkwise.embedded.apiserver.server import EmbeddedApi
from support.e2e.api_client import Api
from support.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["EmbeddedThread"]


class EmbeddedThread(LoopThread):
    """An embedded cluster; call `server` only on its loop."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as EmbeddedApi has them
        super().__init__()
        self._settings = {"tls": False, **settings}
        self.server: EmbeddedApi

    def api(self) -> Api:
        """A connection."""
        return Api(self.server.url, self.server.token)

    def do(self, work: Callable[[EmbeddedApi], Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Call a function on the loop of the server and wait for it."""

        async def done() -> Any:  # noqa: ANN401 - same
            return work(self.server)

        return self.on_loop(done())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the API."""
        async with EmbeddedApi(**self._settings) as self.server:
            yield
