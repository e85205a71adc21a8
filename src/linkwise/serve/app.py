"""Application of the service: one table with all of its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from linkwise.net.http.messages import Response
from linkwise.net.http.routes import Route, Routes, health_routes
from linkwise.serve.debug import debug_routes
from linkwise.serve.explanations.tenants import tenant_routes
from linkwise.serve.extender import PREFIX, Extender, gpushare_routes
from linkwise.serve.volcano import Volcano

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.net.http.messages import Request
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.page.routes import Page
    from linkwise.serve.service import Service
    from linkwise.serve.strangers import Strangers
    from linkwise.wire.volcano import PredicateReply

__all__ = ["application", "tenant_application", "volcano_application"]


def application(  # noqa: PLR0913 - what the routes need
    service: Service,
    ready: Callable[[], Mapping[str, str]],
    notes: Callable[[], Sequence[str]] = tuple,
    token: str = "",
    access: Access | None = None,
    *,
    predicate_reply: PredicateReply = "string",
    strangers: Strangers | None = None,
    tenants: bool = True,
    page: Page | None = None,
) -> Routes:
    """Build the application.

    Args:
        service: answers the calls.
        ready: what the service waits for before it is ready, by name, each with a sentence.
        notes: problems to report while the service answers.
        token: bearer token that opens /debug to other machines; empty keeps it local.
        access: checks callers of the routes for tenants; None turns these off.
        predicate_reply: the shape of Volcano's predicate reply.
        strangers: refuses callers of the schedulers' routes that have no client certificate; None: everyone may call them.
        tenants: whether the routes for tenants are among them, because they have no port of their own.
        page: the web page, where these have none of their own.
    """
    extender = Extender(service)
    scheduling = [*extender.routes(), *Volcano(service, predicate_reply).routes(), *extender.routes(PREFIX)]

    def metrics(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        return Response(generate_latest(service.counting.registry), content_type=CONTENT_TYPE_LATEST)

    return Routes(
        [
            *(map(strangers.guard, scheduling) if strangers else scheduling),
            *gpushare_routes(service, access, tls=strangers is not None),
            *health_routes(ready, notes, lambda: service.leadership().line()),
            Route("GET", "/metrics", metrics),
            *debug_routes(service, token),
            *(tenant_routes(service, access) if tenants else ()),
            *(page.routes() if page else ()),
        ]
    )


def tenant_application(service: Service, access: Access | None, page: Page | None = None) -> Routes:
    """The application of explain.port: the routes for tenants and the page, so that every user may reach the port."""
    return Routes([*tenant_routes(service, access), *(page.routes() if page else ())])


def volcano_application(
    service: Service, ready: Callable[[], Mapping[str, str]], notes: Callable[[], Sequence[str]], reply: PredicateReply
) -> Routes:
    """The application of volcano.port: the calls of Volcano's extender plugin, and the probes."""
    return Routes([*Volcano(service, reply).routes(), *health_routes(ready, notes)])
