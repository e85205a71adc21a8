"""Route table: finds the handler of a request by its path and method."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.net.http.messages import Request, Response, text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Handler", "Route", "Routes"]

Handler = Callable[[Request, Mapping[str, str]], Response | Awaitable[Response]]
"""answers a request, with the variables of its path"""
Refusal = Callable[[Request, int, str], Response]


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

    def allows(self, method: str) -> bool:
        """Whether requests with this method are answered."""
        return method == self.method or (method == "HEAD" and self.method == "GET")


class Routes:
    """The application of a server: every route of the service, one method per path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._by_target = {route.path.encode(): route for route in routes if "{" not in route.path}
        self._patterns = [(_pattern(route.path), route) for route in routes if "{" in route.path]

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request; 404 without a route, 405 for another method."""
        # Requests of schedulers have no query and no escapes: their target is the path.
        route, variables = self._by_target.get(request.target), _NO_VARIABLES
        if route is None:
            route, variables = self._find(request.path)
        if route is None:
            return text(f"{request.path} not found", 404)
        if not route.allows(request.method):
            allowed = "GET, HEAD" if route.method == "GET" else route.method
            return text(f"{request.method} is not allowed; use {route.method}", 405, (("allow", allowed),))
        return route.handler(request, variables)

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """Answer a request that could not be read or answered."""
        route, _ = self._find(request.path)
        if route is None or not route.allows(request.method):
            return text(sentence, status)
        return route.refuse(request, status, sentence)

    def _find(self, path: str) -> tuple[Route | None, Mapping[str, str]]:
        if route := self._by_target.get(path.encode()):
            return route, _NO_VARIABLES
        for pattern, route in self._patterns:
            if match := pattern.fullmatch(path):
                return route, match.groupdict()
        return None, _NO_VARIABLES


_NO_VARIABLES: Final[Mapping[str, str]] = {}


def _pattern(path: str) -> re.Pattern[str]:
    named = re.sub(r"\\\{(\w+):path\\\}", r"(?P<\1>.+)", re.escape(path))
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", named), re.DOTALL)
