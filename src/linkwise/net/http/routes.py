"""Routes and endpoints: the handler of a request by path and method, calls of one verb, and health probes."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.errors import LinkwiseError, NotNowError
from linkwise.net.http.messages import JSON, Request, Response, text
from linkwise.net.http.server_connection import FAILED
from linkwise.net.timing import LogLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Endpoint", "Handler", "RequestCounter", "Route", "Routes", "health_routes"]

log: Final = logging.getLogger(__name__)

Handler = Callable[[Request, Mapping[str, str]], Response | Awaitable[Response]]
"""answers a request, with the variables of its path"""
Refusal = Callable[[Request, int, str], Response]
Guard = Callable[[Request], Response | None]
"""the refusal of a request by its head; None if it may pass"""
_NO_VARIABLES: Final[Mapping[str, str]] = {}
_JSON: Final = JSON.encode()


def _refuse_plainly(request: Request, status: int, sentence: str) -> Response:
    del request
    return text(sentence, status)


@dataclass(frozen=True, slots=True)
class Route:
    """A path and its handler; GET includes HEAD."""

    method: str
    path: str
    """`{name}` stands for one segment, `{name:path}` for the rest of the path"""
    handler: Handler
    refuse: Refusal = _refuse_plainly
    """answers a request that could not be read"""
    guard: Guard | None = None
    """decides by the head who may call it"""

    def allows(self, method: str) -> bool:
        """Whether requests with this method are answered."""
        return method == self.method or (method == "HEAD" and self.method == "GET")


class Routes:
    """The application of a server: every route of the service, one method per path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._by_target = {route.path.encode(): route for route in routes if "{" not in route.path}
        self._patterns = [(_pattern(route.path), route) for route in routes if "{" in route.path]

    def admit(self, request: Request) -> Response | None:
        """The refusal of a request with a body, by its head: what `handle` refuses, and a body that would not be read."""
        route, _ = self._route(request)
        if isinstance(route, Response):
            return route
        return text(f"{request.method} {request.path} takes no request body", 413) if route.method == "GET" else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request; 404 without a route, 405 for another method."""
        route, variables = self._route(request)
        return route if isinstance(route, Response) else route.handler(request, variables)

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """Answer a request that could not be read or answered."""
        route, _ = self._find(request.path)
        if route is None or not route.allows(request.method):
            return text(sentence, status)
        return route.refuse(request, status, sentence)

    def _route(self, request: Request) -> tuple[Route | Response, Mapping[str, str]]:
        """The route of a request with the variables of its path, or the refusal of the request."""
        # Requests of schedulers have no query and no escapes: their target is the path.
        route, variables = self._by_target.get(request.target), _NO_VARIABLES
        if route is None:
            route, variables = self._find(request.path)
        if route is None:
            return text(f"{request.path} not found", 404), variables
        if not route.allows(request.method):
            allowed = "GET, HEAD" if route.method == "GET" else route.method
            refusal = text(f"{request.method} is not allowed; use {route.method}", 405, (("allow", allowed),))
            return refusal, variables
        return (route.guard(request) if route.guard else None) or route, variables

    def _find(self, path: str) -> tuple[Route | None, Mapping[str, str]]:
        if route := self._by_target.get(path.encode()):
            return route, _NO_VARIABLES
        for pattern, route in self._patterns:
            if match := pattern.fullmatch(path):
                return route, match.groupdict()
        return None, _NO_VARIABLES


class RequestCounter(Protocol):
    """Counts requests that were answered."""

    def request(self, verb: str, code: int, seconds: float) -> None:
        """Count one request."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call of the extender API: calls a verb with the body of the request, and turns every error into a response."""

    name: str
    work: Callable[[bytes], bytes | Awaitable[bytes]]
    """maps the request body to the response body, directly or as an awaitable"""
    failure: Callable[[str], bytes | None]
    """the body that reports an error under status 200, for callers that read no other; None: the status reports it"""
    counting: RequestCounter
    refusals: LogLimit = field(default_factory=lambda: LogLimit(log))
    """logs the calls that are refused"""

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
        """Log an error and make its response: 503 for not now, 400 for bad input, 500 for a bug.

        After "not now" the connection ends: a client that keeps it alive would ask this replica for ever, and another one may
        decide by now. The next connection leads where the Service does.
        """
        if isinstance(error, LinkwiseError):
            sentence, status = str(error), 503 if isinstance(error, NotNowError) else 400
            self.refusals.warning(f"{self.name} {status}", "%s refused reason=%r", self.name, sentence)
        else:
            log.error("%s failed", self.name, exc_info=error)
            sentence, status = FAILED, 500
        body = self.failure(sentence)
        response = text(sentence, status) if body is None else Response(body)
        return replace(response, ends=True) if isinstance(error, NotNowError) else response

    def _count(self, request: Request, response: Response) -> Response:
        self.counting.request(self.name, response.status, time.perf_counter() - request.started)
        return response


def health_routes(
    ready: Callable[[], Mapping[str, str]], notes: Callable[[], Sequence[str]], role: Callable[[], str] = str
) -> list[Route]:
    """Build the probes.

    Args:
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
        role: which of several replicas this one is, for people; empty if there is only one.
    """

    def livez(request: Request, variables: Mapping[str, str]) -> Response:
        """Succeeds as long as the event loop runs."""
        del request, variables
        return text("ok")

    def readyz(request: Request, variables: Mapping[str, str]) -> Response:
        """Fails until the initial lists are complete; notes do not make it fail."""
        del request, variables
        blockers = [f"{name}: {sentence}" for name, sentence in ready().items()]
        lines = [f"not ready: {blocker}" for blocker in blockers] or ["ok"]
        lines += filter(None, [role()])
        lines += [f"note: {note}" for note in notes() if note not in blockers]
        return text("\n".join(lines), 503 if blockers else 200)

    return [Route("GET", "/livez", livez), Route("GET", "/readyz", readyz), Route("GET", "/healthz", livez)]


def _pattern(path: str) -> re.Pattern[str]:
    named = re.sub(r"\\\{(\w+):path\\\}", r"(?P<\1>.+)", re.escape(path))
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", named), re.DOTALL)


def _is_json(content_type: bytes) -> bool:
    return content_type == _JSON or content_type.partition(b";")[0].strip().lower() == _JSON
