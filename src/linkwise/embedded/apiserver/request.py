"""One request and its answer, as ASGI has them."""

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

__all__ = ["ABORT", "Answer", "Exchange", "Listed", "Whole"]

ABORT: Final = "linkwise.abort"
"""where the scope holds what ends the connection at once"""
SLICE: Final = 200
"""objects of a list that are sent before others get their turn"""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Exchange:
    """A request, and the way back."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client: str = (scope.get("client") or ("",))[0]
        found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self.query: dict[str, str] = {key: values[-1] for key, values in found.items()}
        self.headers: dict[str, str] = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        self.receive, self.send = receive, send
        self._abort: Callable[[], None] | None = scope.get(ABORT)

    @property
    def watching(self) -> bool:
        """Whether it is a watch."""
        return self.method == "GET" and self.flag("watch")

    @property
    def verb(self) -> str:
        """The method, or WATCH."""
        return "WATCH" if self.watching else self.method

    @property
    def content(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        """Whether a parameter is set to yes."""
        return self.query.get(name, "") in {"1", "true", "True", "TRUE", "t", "T"}

    async def body(self) -> bytes:
        """All of it."""
        return await read_body(self.receive, self.headers.get("content-length", ""))

    async def gone(self) -> None:
        """Wait until the client is."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        """End the connection at once, without a word."""
        if self._abort is not None:
            self._abort()
            await self.gone()

    async def begin(self, code: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of the answer."""
        await self.send({"type": "http.response.start", "status": code, "headers": headers})

    async def more(self, data: bytes, *, last: bool = False) -> None:
        """Send a piece of the answer."""
        await self.send({"type": "http.response.body", "body": data, "more_body": not last})


class Answer:
    """What is said."""

    async def tell(self, exchange: Exchange) -> None:
        """Say it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Whole(Answer):
    """An answer that is ready."""

    data: bytes
    code: int = 200
    kind: str = JSON
    retry_after: int = 0

    @classmethod
    def of(cls, document: object, code: int = 200, kind: str = JSON, retry_after: int = 0) -> Whole:
        """A document."""
        return cls(encode(document), code, kind, retry_after)

    async def tell(self, exchange: Exchange) -> None:
        """In one piece."""
        headers = [(b"content-type", self.kind.encode()), (b"content-length", str(len(self.data)).encode())]
        if self.retry_after:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        await exchange.begin(self.code, headers)
        await exchange.more(self.data if exchange.method != "HEAD" else b"", last=True)


@dataclass(frozen=True, slots=True)
class Listed(Answer):
    """Objects as they are kept, between a beginning and an end; sent slice by slice, so that nobody waits for a long list."""

    begin: bytes
    items: list[Stored]
    shown: Callable[[list[Stored]], bytes]
    """some objects, with commas between them"""

    async def tell(self, exchange: Exchange) -> None:
        """In pieces."""
        if len(self.items) <= SLICE:
            await Whole(self.begin + self.shown(self.items) + b"]}\n").tell(exchange)
            return
        await exchange.begin(200, [(b"content-type", JSON.encode())])
        joint = self.begin
        for part in self._slices():
            await exchange.more(joint + self.shown(part))
            await asyncio.sleep(0)
            joint = b","
        await exchange.more(b"]}\n", last=True)

    def _slices(self) -> Iterator[list[Stored]]:
        for start in range(0, len(self.items), SLICE):
            yield self.items[start : start + SLICE]
