"""Service proxy: forwards requests below /api/v1/namespaces/NAMESPACE/services/NAME:PORT/proxy to the address of a Service.

The address comes from the Endpoints of the Service. Credentials of the client are not forwarded, as by kube-apiserver.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.embedded.api_errors import ApiError, not_found
from linkwise.embedded.service_addresses import NoAddressError, service_address
from linkwise.errors import ClusterError
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import TEXT, HangUpError, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from linkwise.embedded.apiserver.request import ApiRequest
    from linkwise.embedded.storage.database import Database
    from linkwise.net.http.client import Exchange

__all__ = ["ProxyTarget", "ServiceProxy", "proxy_target"]

_PATH: Final = re.compile(r"/api/v1/namespaces/([^/]+)/services/((?:(https?):)?([^/:]+)(?::([^/]*))?)/proxy(/.*)?")
_NOT_FORWARDED: Final = frozenset(
    {b"authorization", b"host", b"connection", b"content-length", b"transfer-encoding", b"upgrade", b"expect"}
)
_WAIT: Final = 30.0  # seconds
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """A Service and the path to request from it."""

    namespace: str
    name: str
    """as in the path, with scheme and port: RBAC compares it with resourceNames"""
    service: str
    port: str
    """name or number; empty if there is only one"""
    tls: bool
    path: str


def proxy_target(path: str) -> ProxyTarget | None:
    """The target of a path; None if it is not one of the service proxy."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    namespace, name, scheme, service, port, rest = match.groups()
    return ProxyTarget(namespace, name, service, port or "", scheme == "https", rest or "/")


class ServiceProxy:
    """Forwards requests to Services."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def forward(self, request: ApiRequest, target: ProxyTarget) -> Response:
        """The response of the Service; ApiError if it does not exist (404) or can't be reached (503)."""
        services = self._database.kinds.by_name("services")
        if self._database.find(services, (target.namespace, target.service)) is None:
            raise not_found(services, target.service)
        try:
            host, port = service_address(self._database, target.namespace, target.service, target.port)
        except NoAddressError as error:
            raise _unavailable(str(error)) from error
        http = Http(Origin(host, port, tls=_unverified() if target.tls else None))
        headers = b"".join(
            b"%b: %b\r\n" % (name, value) for name, value in request.headers.items() if name not in _NOT_FORWARDED
        )
        path = quote(target.path, safe="/:@!$&'()*+,;=~") + (f"?{request.raw_query}" if request.raw_query else "")
        headers += b"x-forwarded-host: %b\r\n" % request.headers.get(b"host", b"")  # as by kube-apiserver
        try:
            if request.method in {"GET", "HEAD"}:
                return await _read(http, path, headers)
            answer = await http.call(request.method, path, headers, request.body, _WAIT)
            return Response(answer.body, answer.status, answer.content_type or TEXT)
        except ClusterError as error:
            raise _unavailable(f"error trying to reach service: {error}") from error


async def _read(http: Http, path: str, headers: bytes) -> Response:
    """The response to a GET; a stream of events is passed on as it comes."""
    async with contextlib.AsyncExitStack() as stack:
        exchange = await stack.enter_async_context(http.stream(path, headers, _WAIT))
        kind = exchange.content_type or TEXT
        if not kind.startswith(EVENTS):
            async with asyncio.timeout(_WAIT):
                return Response(b"".join([part async for part in exchange.chunks()]), exchange.status, kind)
        return Response(b"", exchange.status, kind, stream=_passed_on(exchange, stack.pop_all()))


async def _passed_on(exchange: Exchange, stack: contextlib.AsyncExitStack) -> AsyncGenerator[bytes, None]:
    async with stack:
        try:
            async for part in exchange.chunks():
                yield part
        except ClusterError as error:
            raise HangUpError from error


def _unverified() -> ssl.SSLContext:
    """TLS without verification: as kube-apiserver, the proxy has no authority to check certificates of Services with."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)
