"""The HTTP client of the product for tests and programs that block: its event loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from linkwise.net.http.client import Http

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping

    from linkwise.net.http.client import Answer, Origin

__all__ = ["BlockingHttp"]

T = TypeVar("T")


class BlockingHttp:
    """Calls to one server; any thread may make them."""

    def __init__(self, origin: Origin, wait: float = 60.0) -> None:
        self._http, self._wait = Http(origin), wait

    def call(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Send a request, once more if the server has just closed the idle connection; ClusterError without an answer."""
        call = self._http.call(method, path, _lines(headers), body, self._wait, repeatable=True)
        return _wait_for(call)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status of an answer, and the pieces of its body as they arrive."""
        opening = self._http.stream(path, _lines(headers), self._wait)
        exchange = _wait_for(opening.__aenter__())
        chunks = exchange.chunks()

        async def next_chunk() -> bytes:
            async with asyncio.timeout(self._wait):
                return await anext(chunks, b"")

        try:
            yield exchange.status, iter(lambda: _wait_for(next_chunk()), b"")
        finally:
            _wait_for(opening.__aexit__(None, None, None))

    def close(self) -> None:
        """Close the connections; the next call opens another."""
        _wait_for(self._http.close())


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


def _wait_for(work: Coroutine[object, object, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="blocking http", daemon=True).start()
    return loop
