"""ASGI application with all routes of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from linkwise.serve.debug import debug_routes
from linkwise.serve.extender import Extender
from linkwise.serve.gpushare import PREFIX, gpushare_routes
from linkwise.serve.health import health_routes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from linkwise.serve.http.endpoint import Endpoint
    from linkwise.serve.service import Service

__all__ = ["application", "verbs"]


def application(
    service: Service,
    ready: Callable[[], Mapping[str, str]],
    notes: Callable[[], Sequence[str]] = tuple,
    token: str = "",
) -> Starlette:
    """Build the application.

    Args:
        service: answers the calls.
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
        token: bearer token that opens /debug to other machines; empty keeps it local.
    """
    calls = Extender(service).routes()

    async def metrics(request: Request) -> Response:
        del request
        return Response(generate_latest(service.counting.registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            *calls,
            *gpushare_routes(service, calls),
            *health_routes(ready, notes),
            Route("/metrics", metrics),
            *debug_routes(service, token),
        ]
    )


def verbs(service: Service) -> dict[bytes, Endpoint]:
    """The extender endpoints by request path, for the fast path of the server."""
    endpoints = Extender(service).verbs
    return {f"{prefix}/{verb.name}".encode(): verb for prefix in ("", PREFIX) for verb in endpoints}
