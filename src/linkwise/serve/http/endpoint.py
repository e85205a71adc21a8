"""Endpoint: reads a request body within limits, calls one verb, and turns every error into a reply."""

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
    "BODY_SECONDS",
    "CLIENT_CLOSED",
    "FAILED",
    "JSON",
    "MAX_BODY_BYTES",
    "Endpoint",
    "Reply",
    "RequestCounter",
    "body_timeout",
    "respond",
    "text",
]

log: Final = logging.getLogger(__name__)

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
MAX_BODY_BYTES: Final = 64 << 20
"""five thousand full Node objects take half of it"""
BODY_SECONDS: Final = 10.0
"""for a body to arrive"""
CLIENT_CLOSED: Final = 499
"""status counted for a client that disconnected before it got a reply"""
FAILED: Final = "internal error; see the log of the Linkwise service"
"""shown for internal errors"""


@dataclass(frozen=True, slots=True)
class Reply:
    """Body, status code and content type of a reply."""

    body: bytes
    code: int = 200
    kind: str = JSON

    @staticmethod
    def plain(sentence: str, code: int) -> Reply:
        """A reply in plain text."""
        return Reply(f"{sentence}\n".encode(), code, PLAIN)


class RequestCounter(Protocol):
    """Counts requests that were answered."""

    def request(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call of the API."""

    name: str
    work: Callable[[bytes], bytes | Awaitable[bytes]]
    """maps the request body to the response body, directly or as an awaitable"""
    failure: Callable[[str], bytes | None]
    """the body that reports an error under status 200, for callers that read no other; None: the status reports it"""
    counting: RequestCounter

    async def reply(self, body: bytes) -> Reply:
        """The reply to a body; never raises an ordinary exception."""
        try:
            result = self.work(body)
            return Reply(result if isinstance(result, bytes) else await result)
        except Exception as error:  # noqa: BLE001 - `failed` logs it
            return self.failed(error)

    def failed(self, error: Exception) -> Reply:
        """Log an error and make its reply: 503 for not now, 400 for bad input, 500 for a bug."""
        if isinstance(error, LinkwiseError):
            log.warning("%s refused reason=%r", self.name, str(error))
            sentence, code = str(error), 503 if isinstance(error, NotNowError) else 400
        else:
            log.error("%s failed", self.name, exc_info=error)
            sentence, code = FAILED, 500
        body = self.failure(sentence)
        return Reply.plain(sentence, code) if body is None else Reply(body)

    def count(self, code: int, started: float) -> None:
        """Count a request that ended with this status."""
        self.counting.request(self.name, code, time.perf_counter() - started)


class _BodyError(InputError):
    """A body that was rejected before the endpoint saw it."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def text(sentence: str, code: int = 200) -> Response:
    """A response in plain text."""
    return Response(sentence + "\n", code, media_type="text/plain")


def body_timeout(seconds: float) -> str:
    """The message for a body that timed out."""
    return f"the request body did not arrive within {seconds:g} s"


async def respond(verb: Endpoint, request: Request, *, body_seconds: float = BODY_SECONDS) -> Response:
    """Answer a request that goes through the application; counted and timed."""
    started = time.perf_counter()
    try:
        reply = await verb.reply(await _body(request, body_seconds))
    except _BodyError as error:
        reply = Reply.plain(str(error), error.code)
    except ClientDisconnect:
        reply = Reply(b"", CLIENT_CLOSED)
    verb.count(reply.code, started)
    return Response(reply.body, reply.code, media_type=reply.kind)


async def _body(request: Request, seconds: float) -> bytes:
    """The complete body; one that declares too many bytes is rejected unread."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        raise _BodyError(415, f"unsupported content type {kind!r}; send {JSON}")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _BodyError(413, f"the request body has {length} bytes; the limit is {MAX_BODY_BYTES}")
    try:
        async with asyncio.timeout(seconds):
            return await _read(request)
    except TimeoutError as error:
        raise _BodyError(408, body_timeout(seconds)) from error


async def _read(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _BodyError(413, f"the request body exceeds the limit of {MAX_BODY_BYTES} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)
