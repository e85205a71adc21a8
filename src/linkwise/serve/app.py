"""All routes of the service in one application."""

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
    """What the service answers to.

    Args:
        service: answers.
        ready: names what it waits for before it does, each with a sentence.
        notes: tells what is wrong though it answers.
        token: opens /debug to other machines; empty opens it to nobody else.
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
    """The calls of kube-scheduler by their paths, for a server that answers them without the application."""
    found = Extender(service).verbs
    return {f"{prefix}/{verb.name}".encode(): verb for prefix in ("", PREFIX) for verb in found}
