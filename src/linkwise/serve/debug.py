"""Debug routes: snapshot, leadership and explanations, for callers on this machine or with a token.

`linkwise replay` reads the snapshot; an explanation is the output of `linkwise explain`.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING

import msgspec

from linkwise.errors import NotNowError
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route
from linkwise.serve.explanations.access import is_local
from linkwise.serve.explanations.explainer import render_explanation
from linkwise.wire.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkwise.net.http.messages import Request
    from linkwise.net.http.routes import Handler
    from linkwise.serve.service import Service
    from linkwise.views.explanations import AnyExplanation

__all__ = ["debug_routes"]


def debug_routes(service: Service, token: str) -> list[Route]:
    """Snapshot, leadership and explanations; with an empty token only callers on this machine get them."""
    broker, explainer = service.broker, service.explainer

    async def snapshot(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        make = broker.capture(service.clock())
        # Its values are immutable: it can be made and encoded in a thread while the loop answers calls.
        return Response(await asyncio.to_thread(lambda: encode_snapshot(make())))

    async def answer(request: Request, subject: str, explain: Callable[[], AnyExplanation | None]) -> Response:
        try:
            explanation = await explainer.consistent(explain)
        except NotNowError as error:
            return text(str(error), 503)
        return render_explanation(request, explanation) if explanation else _unknown(subject, synced=service.synced)

    def pod(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        namespace, name = variables["namespace"], variables["name"]
        return answer(request, f"pod {namespace}/{name}", lambda: explainer.pod(namespace, name))

    def group(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        key = variables["key"]

        # or a pod of a namespace named "group"
        return answer(request, f"group {key}", lambda: explainer.group(key) or explainer.pod("group", key))

    def node(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        name = variables["name"]

        # or a pod of a namespace named "node"
        return answer(request, f"node {name}", lambda: explainer.node(name) or explainer.pod("node", name))

    def leader(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        return Response(msgspec.json.encode(service.leadership()))

    paths: dict[str, Handler] = {
        "/snapshot": snapshot,
        "/leader": leader,
        "/explain/node/{name}": node,
        "/explain/group/{key:path}": group,
        "/explain/{namespace}/{name}": pod,
    }
    return [Route("GET", f"/debug{path}", _guard(handler, token)) for path, handler in paths.items()]


def _guard(handler: Handler, token: str) -> Handler:
    def guarded(request: Request, variables: Mapping[str, str]) -> Response | Awaitable[Response]:
        if _is_allowed(request, token):
            return handler(request, variables)
        remedy = "send the bearer token of the setting debug.token" if token else "call it from the service's own host"
        return text(f"access to /debug denied: {remedy}", 401 if token else 403)

    return guarded


def _is_allowed(request: Request, token: str) -> bool:
    """Whether the caller has the token or is on this machine; requests through a proxy always need the token."""
    bearer = request.header(b"authorization").removeprefix("Bearer ")
    if token and hmac.compare_digest(bearer.encode(), token.encode()):
        return True
    return is_local(request)


def _unknown(subject: str, *, synced: bool) -> Response:
    if synced:
        return text(f"{subject} not found", 404)
    return text(f"{subject} is not known yet: the service is still listing the cluster", 503)
