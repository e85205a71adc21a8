"""Debug routes: snapshot and explanations, for callers on this machine or with a token.

`linkwise replay` reads the snapshot; an explanation is the output of `linkwise explain`.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import asdict
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Mount, Route

from linkwise.explain.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.serve.http.endpoint import JSON, text
from linkwise.wire.snapshot.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation
    from linkwise.serve.service import Service

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation
    Handler = Callable[[Request], Awaitable[Response]]

__all__ = ["debug_routes"]

_PROXY_HEADERS: Final = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
"""any of these shows that the request came through a proxy, so its peer address is not the caller's"""


def debug_routes(service: Service, token: str) -> list[Mount]:
    """Snapshot and explanations; with an empty token only callers on this machine get them."""
    broker = service.broker

    async def snapshot(request: Request) -> Response:
        del request
        taken = broker.snapshot(service.clock())
        # A snapshot is an immutable value: it can be encoded in a thread while the loop answers calls.
        return Response(await asyncio.to_thread(encode_snapshot, taken), media_type=JSON)

    def explained(namespace: str, name: str) -> Explanation | None:
        uid = broker.find_pod(namespace, name)
        return explain_pod(broker, uid, service.clock()) if uid else None

    async def pod(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        return _render(request, explained(namespace, name), f"pod {namespace}/{name}", synced=service.synced)

    async def group(request: Request) -> Response:
        key = request.path_params["key"]
        explanation = explain_group(broker, key, service.clock()) or explained(
            "group", key
        )  # a namespace named "group"
        return _render(request, explanation, f"group {key}", synced=service.synced)

    async def node(request: Request) -> Response:
        name = request.path_params["name"]
        explanation = explain_node(broker, name, service.clock()) or explained("node", name)  # a namespace named "node"
        return _render(request, explanation, f"node {name}", synced=service.synced)

    paths: dict[str, Handler] = {
        "/snapshot": snapshot,
        "/explain/node/{name}": node,
        "/explain/group/{key:path}": group,
        "/explain/{namespace}/{name}": pod,
    }
    return [Mount("/debug", routes=[Route(path, _guard(handler, token)) for path, handler in paths.items()])]


def _guard(handler: Handler, token: str) -> Handler:
    async def guarded(request: Request) -> Response:
        if _is_allowed(request, token):
            return await handler(request)
        remedy = "send the bearer token of the setting debug.token" if token else "call it from the service's own host"
        return text(f"access to /debug denied: {remedy}", 401 if token else 403)

    return guarded


def _is_allowed(request: Request, token: str) -> bool:
    """Whether the caller has the token or is on this machine; requests through a proxy always need the token."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token and hmac.compare_digest(bearer.encode(), token.encode()):
        return True
    host = request.client.host if request.client else ""
    return _PROXY_HEADERS.isdisjoint(request.headers) and bool(host) and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None  # IPv4 peers of a dual-stack socket
    return (mapped or address).is_loopback


def _render(request: Request, explanation: AnyExplanation | None, subject: str, *, synced: bool) -> Response:
    if explanation is None and not synced:
        return text(f"{subject} is not known yet: the service is still listing the cluster", 503)
    if explanation is None:
        return text(f"{subject} not found", 404)
    lines = explanation_lines(explanation)
    if JSON in request.headers.get("accept", ""):
        document: dict[str, Any] = {"lines": lines, "data": msgspec.to_builtins(asdict(explanation), str_keys=True)}
        return Response(msgspec.json.encode(document), media_type=JSON)
    return text("\n".join(lines))
