"""One HTTP request and its response, on top of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from linkwise.embedded.apiserver.bodies import JSON, read_body
from linkwise.embedded.storage.collection import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Stored

__all__ = ["ABORT", "Exchange", "FullResponse", "ListResponse", "Response"]

ABORT: Final = "linkwise.abort"
"""scope key of the function that closes the connection immediately"""
CHUNK_SIZE: Final = 200
"""objects of a list sent before other tasks get the event loop"""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Exchange:
    """A request and the means to respond to it."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client: str = (scope.get("client") or ("",))[0]
        parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self.query: dict[str, str] = {key: values[-1] for key, values in parameters.items()}
        self.headers: dict[str, str] = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        self.receive, self.send = receive, send
        self._abort: Callable[[], None] | None = scope.get(ABORT)

    @property
    def is_watch(self) -> bool:
        """Whether the request is a watch."""
        return self.method == "GET" and self.flag("watch")

    @property
    def verb(self) -> str:
        """The method, or WATCH."""
        return "WATCH" if self.is_watch else self.method

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is true."""
        return self.query.get(name, "") in {"1", "true", "True", "TRUE", "t", "T"}

    async def body(self) -> bytes:
        """The complete body."""
        return await read_body(self.receive, self.headers.get("content-length", ""))

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def abort(self) -> None:
        """Close the connection without a response."""
        if self._abort is not None:
            self._abort()
            await self.wait_for_disconnect()

    async def start(self, code: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        await self.send({"type": "http.response.start", "status": code, "headers": headers})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send a part of the response body."""
        await self.send({"type": "http.response.body", "body": data, "more_body": not last})


class Response:
    """A response."""

    async def send_to(self, exchange: Exchange) -> None:
        """Send the response."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FullResponse(Response):
    """A response with a complete body."""

    data: bytes
    status: int = 200
    media_type: str = JSON
    retry_after: int = 0

    @classmethod
    def of(cls, document: object, status: int = 200, media_type: str = JSON, retry_after: int = 0) -> FullResponse:
        """A JSON response."""
        return cls(encode(document), status, media_type, retry_after)

    async def send_to(self, exchange: Exchange) -> None:
        """Send it in one piece."""
        headers = [(b"content-type", self.media_type.encode()), (b"content-length", str(len(self.data)).encode())]
        if self.retry_after:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        await exchange.start(self.status, headers)
        await exchange.write(self.data if exchange.method != "HEAD" else b"", last=True)


@dataclass(frozen=True, slots=True)
class ListResponse(Response):
    """A list of stored objects, sent in chunks so that a long list does not block other requests."""

    prefix: bytes
    items: list[Stored]
    encode_items: Callable[[list[Stored]], bytes]
    """encodes objects, separated by commas"""

    async def send_to(self, exchange: Exchange) -> None:
        """Send it in chunks."""
        if len(self.items) <= CHUNK_SIZE:
            await FullResponse(self.prefix + self.encode_items(self.items) + b"]}\n").send_to(exchange)
            return
        await exchange.start(200, [(b"content-type", JSON.encode())])
        separator = self.prefix
        for chunk in self._chunks():
            await exchange.write(separator + self.encode_items(chunk))
            await asyncio.sleep(0)
            separator = b","
        await exchange.write(b"]}\n", last=True)

    def _chunks(self) -> Iterator[list[Stored]]:
        for start in range(0, len(self.items), CHUNK_SIZE):
            yield self.items[start : start + CHUNK_SIZE]
