"""What all routes have in common: a body is read whole and in time, and nothing that goes wrong becomes a traceback."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from linkwise.errors import InputError, LinkwiseError, NotNowError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

__all__ = [
    "CLOSED",
    "FAILED",
    "JSON",
    "LARGEST",
    "SLOWEST",
    "Endpoint",
    "Reply",
    "RequestCounter",
    "late",
    "respond",
    "text",
]

log: Final = logging.getLogger(__name__)

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
LARGEST: Final = 64 << 20  # bytes
"""of a body; five thousand nodes sent whole take half of it"""
SLOWEST: Final = 10.0  # seconds
"""for a body to arrive"""
CLOSED: Final = 499
"""counted where the caller hung up before there was an answer"""
FAILED: Final = "Linkwise failed to answer; its log has the reason"
"""told of what is nobody's fault but ours"""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is told, under which status."""

    body: bytes
    code: int = 200
    kind: str = JSON

    @staticmethod
    def plain(sentence: str, code: int) -> Reply:
        """One for people."""
        return Reply(f"{sentence}\n".encode(), code, PLAIN)


class RequestCounter(Protocol):
    """Counts requests that were answered."""

    def request(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A call with a body that must be answered, whatever it is."""

    name: str
    work: Callable[[bytes], bytes | Awaitable[bytes]]
    """the answer to a body, at once or when it is there"""
    failure: Callable[[str], bytes | None]
    """what the caller is told under status 200, because it reads nothing else; None if it reads the status"""
    counting: RequestCounter

    async def reply(self, body: bytes) -> Reply:
        """The answer, or what went wrong."""
        try:
            done = self.work(body)
            return Reply(done if isinstance(done, bytes) else await done)
        except Exception as error:  # noqa: BLE001 - it is logged there
            return self.failed(error)

    def failed(self, error: Exception) -> Reply:
        """What is told of an error."""
        if isinstance(error, LinkwiseError):
            log.warning("%s refused reason=%r", self.name, str(error))
            sentence, code = str(error), 503 if isinstance(error, NotNowError) else 400
        else:
            log.error("%s failed", self.name, exc_info=error)
            sentence, code = FAILED, 500
        told = self.failure(sentence)
        return Reply.plain(sentence, code) if told is None else Reply(told)

    def count(self, code: int, begun: float) -> None:
        """It was answered."""
        self.counting.request(self.name, code, time.perf_counter() - begun)


class _BodyError(InputError):
    """A body that is not read."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def text(sentence: str, code: int = 200) -> Response:
    """An answer for people."""
    return Response(sentence + "\n", code, media_type="text/plain")


def late(slowest: float) -> str:
    """What is told whoever does not come to an end."""
    return f"the body did not arrive within {slowest:g} s"


async def respond(verb: Endpoint, request: Request, *, slowest: float = SLOWEST) -> Response:
    """The answer to a request, counted and timed."""
    begun = time.perf_counter()
    try:
        reply = await verb.reply(await _body(request, slowest))
    except _BodyError as error:
        reply = Reply.plain(str(error), error.code)
    except ClientDisconnect:
        reply = Reply(b"", CLOSED)
    verb.count(reply.code, begun)
    return Response(reply.body, reply.code, media_type=reply.kind)


async def _body(request: Request, slowest: float) -> bytes:
    """The whole body; what is too long is refused before it is read."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        raise _BodyError(415, f"the body is {kind!r}; {JSON} is expected")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > LARGEST:
        raise _BodyError(413, f"the body has {length} bytes; at most {LARGEST} are read")
    try:
        async with asyncio.timeout(slowest):
            return await _read(request)
    except TimeoutError as error:
        raise _BodyError(408, late(slowest)) from error


async def _read(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise _BodyError(413, f"the body has more than the {LARGEST} bytes that are read")
    return parts[0] if len(parts) == 1 else b"".join(parts)
