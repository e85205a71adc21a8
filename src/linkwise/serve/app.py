"""Application of the service: one table with all of its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from linkwise.net.http.health import health_routes
from linkwise.net.http.messages import Response
from linkwise.net.http.routes import Route, Routes
from linkwise.serve.debug import debug_routes
from linkwise.serve.extender import Extender
from linkwise.serve.gpushare import PREFIX, gpushare_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.net.http.messages import Request
    from linkwise.serve.service import Service

__all__ = ["application"]


def application(
    service: Service,
    ready: Callable[[], Mapping[str, str]],
    notes: Callable[[], Sequence[str]] = tuple,
    token: str = "",
) -> Routes:
    """Build the application.

    Args:
        service: answers the calls.
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
        token: bearer token that opens /debug to other machines; empty keeps it local.
    """
    extender = Extender(service)

    def metrics(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        return Response(generate_latest(service.counting.registry), content_type=CONTENT_TYPE_LATEST)

    return Routes(
        [
            *extender.routes(),
            *gpushare_routes(service, extender.routes(PREFIX)),
            *health_routes(ready, notes),
            Route("GET", "/metrics", metrics),
            *debug_routes(service, token),
        ]
    )
