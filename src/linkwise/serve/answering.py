"""What all routes have in common: a body is read whole and in time, and nothing that goes wrong becomes a traceback."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from linkwise.errors import InputError, LinkwiseError, NotNowError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from linkwise.serve.counting import Counting

__all__ = ["JSON", "Failure", "answered", "text"]

log: Final = logging.getLogger(__name__)

JSON: Final = "application/json"
LARGEST: Final = 64 << 20  # bytes
"""of a body; five thousand nodes sent whole take half of it"""
SLOWEST: Final = 10.0  # seconds
"""for a body to arrive"""
CLOSED: Final = 499
"""counted where the caller hung up before there was an answer"""

Failure = bytes | None
"""what a caller is told under status 200, because it reads nothing else; None if it reads the status"""


class _BodyError(InputError):
    """A body that is not read."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def text(sentence: str, code: int = 200) -> Response:
    """An answer for people."""
    return Response(sentence + "\n", code, media_type="text/plain")


async def answered(  # noqa: PLR0913 - what routes have in common, and what differs
    verb: str,
    request: Request,
    counting: Counting,
    work: Callable[[bytes], Awaitable[bytes]],
    failure: Callable[[str], Failure],
    *,
    slowest: float = SLOWEST,
) -> Response:
    """The answer of `work` to the body, or what went wrong, counted and timed."""
    begun = time.perf_counter()
    try:
        response = Response(await work(await _body(request, slowest)), media_type=JSON)
    except _BodyError as error:
        response = text(str(error), error.code)
    except LinkwiseError as error:
        log.warning("%s refused reason=%r", verb, str(error))
        response = _failed(error, failure)
    except ClientDisconnect:
        response = Response(status_code=CLOSED)
    except Exception:
        log.exception("%s failed", verb)
        told = failure("Linkwise failed to answer; its log has the reason")
        response = Response(told, media_type=JSON) if told else text("internal error; the log has the reason", 500)
    counting.request(verb, response.status_code, time.perf_counter() - begun)
    return response


def _failed(error: LinkwiseError, failure: Callable[[str], Failure]) -> Response:
    told = failure(str(error))
    if told is not None:
        return Response(told, media_type=JSON)
    return text(str(error), 503 if isinstance(error, NotNowError) else 400)


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
        raise _BodyError(408, f"the body did not arrive within {slowest:g} s") from error


async def _read(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise _BodyError(413, f"the body has more than the {LARGEST} bytes that are read")
    return parts[0] if len(parts) == 1 else b"".join(parts)
