"""Endpoint of the extender API: calls one verb with the body of a request, and turns every error into a response."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.errors import LinkwiseError, NotNowError
from linkwise.net.http.messages import JSON, Response, text
from linkwise.net.http.server_connection import FAILED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkwise.net.http.messages import Request

__all__ = ["Endpoint", "RequestCounter"]

log: Final = logging.getLogger(__name__)


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

    def handle(self, request: Request, variables: Mapping[str, str]) -> Response | Awaitable[Response]:
        """Answer a request; counted and timed."""
        del variables
        if (kind := request.headers.get(b"content-type")) and not _is_json(kind):
            shown = kind.partition(b";")[0].strip().lower().decode("latin-1")
            return self.refuse(request, 415, f"unsupported content type {shown!r}; send {JSON}")
        try:
            result = self.work(request.body)
        except Exception as error:  # noqa: BLE001 - `_failed` logs it
            return self._count(request, self._failed(error))
        return self._count(request, Response(result)) if isinstance(result, bytes) else self._wait(request, result)

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """Answer a request that could not be read or answered; counted and timed."""
        body = self.failure(sentence) if status >= 500 else None
        return self._count(request, text(sentence, status) if body is None else Response(body))

    async def _wait(self, request: Request, result: Awaitable[bytes]) -> Response:
        try:
            response = Response(await result)
        except Exception as error:  # noqa: BLE001 - `_failed` logs it
            response = self._failed(error)
        return self._count(request, response)

    def _failed(self, error: Exception) -> Response:
        """Log an error and make its response: 503 for not now, 400 for bad input, 500 for a bug."""
        if isinstance(error, LinkwiseError):
            log.warning("%s refused reason=%r", self.name, str(error))
            sentence, status = str(error), 503 if isinstance(error, NotNowError) else 400
        else:
            log.error("%s failed", self.name, exc_info=error)
            sentence, status = FAILED, 500
        body = self.failure(sentence)
        return text(sentence, status) if body is None else Response(body)

    def _count(self, request: Request, response: Response) -> Response:
        self.counting.request(self.name, response.status, time.perf_counter() - request.started)
        return response


_JSON: Final = JSON.encode()


def _is_json(content_type: bytes) -> bool:
    return content_type == _JSON or content_type.partition(b";")[0].strip().lower() == _JSON
