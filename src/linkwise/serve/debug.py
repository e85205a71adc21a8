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

from linkwise.errors import NotNowError
from linkwise.explain.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.net.http.messages import JSON, Response, text
from linkwise.net.http.routes import Route
from linkwise.serve.slices import Slices
from linkwise.wire.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation
    from linkwise.net.http.messages import Request
    from linkwise.net.http.routes import Handler
    from linkwise.serve.service import Service

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation

__all__ = ["debug_routes"]

ATTEMPTS: Final = 3
_PROXY_HEADERS: Final = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
"""any of these shows that the request came through a proxy, so its peer address is not the caller's"""


def debug_routes(service: Service, token: str) -> list[Route]:
    """Snapshot and explanations; with an empty token only callers on this machine get them."""
    broker = service.broker

    slices = Slices()
    broker.pause_with(slices.pause)

    async def snapshot(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        make = broker.capture(service.clock())
        # Its values are immutable: it can be made and encoded in a thread while the loop answers calls.
        return Response(await asyncio.to_thread(lambda: encode_snapshot(make())))

    def explained(namespace: str, name: str) -> Explanation | None:
        uid = broker.find_pod(namespace, name)
        return explain_pod(broker, uid, service.clock()) if uid else None

    async def answer(request: Request, subject: str, explain: Callable[[], AnyExplanation | None]) -> Response:
        try:
            explanation = await _consistent(broker, slices, explain)
        except NotNowError as error:
            return text(str(error), 503)
        return _render(request, explanation, subject, synced=service.synced)

    def pod(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        namespace, name = variables["namespace"], variables["name"]
        return answer(request, f"pod {namespace}/{name}", lambda: explained(namespace, name))

    def group(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        key = variables["key"]

        def explain() -> AnyExplanation | None:
            return explain_group(broker, key, service.clock()) or explained("group", key)  # a namespace named "group"

        return answer(request, f"group {key}", explain)

    def node(request: Request, variables: Mapping[str, str]) -> Awaitable[Response]:
        name = variables["name"]

        def explain() -> AnyExplanation | None:
            return explain_node(broker, name, service.clock()) or explained("node", name)  # a namespace named "node"

        return answer(request, f"node {name}", explain)

    paths: dict[str, Handler] = {
        "/snapshot": snapshot,
        "/explain/node/{name}": node,
        "/explain/group/{key:path}": group,
        "/explain/{namespace}/{name}": pod,
    }
    return [Route("GET", f"/debug{path}", _guard(handler, token)) for path, handler in paths.items()]


async def _consistent(
    broker: Broker, slices: Slices, explain: Callable[[], AnyExplanation | None]
) -> AnyExplanation | None:
    """Explain in slices; again if devices changed meanwhile, because parts of the answer may contradict each other.

    A busy cluster changes all the time: the last attempt counts anyway. NotNowError if even that one failed, because
    something that it needed went away.
    """
    attempt = 0
    while True:
        attempt, changes = attempt + 1, broker.device_changes
        try:
            explanation = await slices.run(explain)
        except Exception as error:
            if attempt == ATTEMPTS and broker.device_changes == changes:
                raise
            if attempt == ATTEMPTS:
                raise NotNowError("the cluster changed while it was being explained; try again") from error
        else:
            if attempt == ATTEMPTS or broker.device_changes == changes:
                return explanation


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
    return _PROXY_HEADERS.isdisjoint(request.headers) and bool(request.client) and _is_loopback(request.client)


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
    if JSON in request.header(b"accept"):
        document: dict[str, Any] = {"lines": lines, "data": msgspec.to_builtins(asdict(explanation), str_keys=True)}
        return Response(msgspec.json.encode(document))
    return text("\n".join(lines))
