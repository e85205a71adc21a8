"""What the service knows, for people who look into it: from this machine, or with a token.

A snapshot can be replayed elsewhere. An explanation is what `linkwise explain` prints.
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

    Told = Explanation | GroupExplanation | NodeExplanation
    Endpoint = Callable[[Request], Awaitable[Response]]

__all__ = ["debug_routes"]

_PROXIED: Final = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
"""headers of which any one tells that a proxy speaks for somebody else"""


def debug_routes(service: Service, token: str) -> list[Mount]:
    """Snapshot and explanations; an empty token keeps them for this machine."""
    broker = service.broker

    async def snapshot(request: Request) -> Response:
        del request
        taken = broker.snapshot(service.clock())
        # A snapshot is a value: writing it down may take a while and nobody has to wait for it.
        return Response(await asyncio.to_thread(encode_snapshot, taken), media_type=JSON)

    def explained(namespace: str, name: str) -> Explanation | None:
        uid = broker.find_pod(namespace, name)
        return explain_pod(broker, uid, service.clock()) if uid else None

    async def pod(request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        return _told(request, explained(namespace, name), f"pod {namespace}/{name}", synced=service.synced)

    async def group(request: Request) -> Response:
        key = request.path_params["key"]
        told = explain_group(broker, key, service.clock()) or explained("group", key)  # a namespace may be called so
        return _told(request, told, f"group {key}", synced=service.synced)

    async def node(request: Request) -> Response:
        name = request.path_params["name"]
        told = explain_node(broker, name, service.clock()) or explained("node", name)  # same
        return _told(request, told, f"node {name}", synced=service.synced)

    paths: dict[str, Endpoint] = {
        "/snapshot": snapshot,
        "/explain/node/{name}": node,
        "/explain/group/{key:path}": group,
        "/explain/{namespace}/{name}": pod,
    }
    return [Mount("/debug", routes=[Route(path, _guarded(answer, token)) for path, answer in paths.items()])]


def _guarded(answer: Endpoint, token: str) -> Endpoint:
    async def guarded(request: Request) -> Response:
        if _allowed(request, token):
            return await answer(request)
        way = "send the token of the setting debug.token" if token else "ask from the machine or pod that it runs in"
        return text(f"/debug is not open to you: {way}", 401 if token else 403)

    return guarded


def _allowed(request: Request, token: str) -> bool:
    """Whoever sits behind a proxy on this machine must bring the token as well."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token and hmac.compare_digest(given.encode(), token.encode()):
        return True
    host = request.client.host if request.client else ""
    return _PROXIED.isdisjoint(request.headers) and bool(host) and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None  # where one socket listens for both
    return (mapped or address).is_loopback


def _told(request: Request, told: Told | None, what: str, *, synced: bool) -> Response:
    if told is None and not synced:
        return text(f"{what} is not known yet: the service is still reading the cluster", 503)
    if told is None:
        return text(f"{what} is not known to the service", 404)
    lines = explanation_lines(told)
    if JSON in request.headers.get("accept", ""):
        document: dict[str, Any] = {"lines": lines, "data": msgspec.to_builtins(asdict(told), str_keys=True)}
        return Response(msgspec.json.encode(document), media_type=JSON)
    return text("\n".join(lines))
