"""HTTPS server of the embedded API server: `async with EmbeddedApi() as api`, with a kubeconfig for its clients.

Its application checks access, injects faults and serves health, version, discovery, objects and the proxy to Services. The
address of a Service comes from its Endpoints. Credentials of the client are not forwarded, as by kube-apiserver.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import re
import secrets
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from linkwise.embedded.admission import Admission
from linkwise.embedded.api_errors import ApiError, no_such_path, not_allowed, not_found, too_large
from linkwise.embedded.apiserver.access import ApiAccess
from linkwise.embedded.apiserver.faults import Faults, fault_response
from linkwise.embedded.apiserver.request import (
    MAX_BODY_BYTES,
    ApiRequest,
    decode_document,
    json_response,
    parse_path,
    with_warnings,
)
from linkwise.embedded.apiserver.routes import BOOKMARK_INTERVAL, Objects
from linkwise.embedded.kubectl import discovery
from linkwise.embedded.service_addresses import NoAddressError, service_address
from linkwise.embedded.store import Store
from linkwise.embedded.users import ADMIN, Tokens
from linkwise.errors import ClusterError
from linkwise.net.certificates import self_signed
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import JSON, TEXT, HangUpError, Response, passed_on
from linkwise.net.http.server import Limits, Server, listen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.apiserver.faults import Fault
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.database import Database
    from linkwise.net.http import messages
    from linkwise.net.http.messages import Request

__all__ = ["Application", "EmbeddedApi", "ProxyTarget", "ServiceProxy", "proxy_target"]

_LIMITS: Final = Limits(max_body=MAX_BODY_BYTES, max_connections=4096)
log = logging.getLogger(__name__)
_PUBLIC_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_OPENAPI_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ROOT_PATHS: Final = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
_REASONS: Final = {400: "BadRequest", 408: "Timeout", 500: "InternalError", 503: "ServiceUnavailable"}
_ACCEPTED_TYPES: Final = (JSON, "*/*", "application/*")
_PATH: Final = re.compile(r"/api/v1/namespaces/([^/]+)/services/((?:(https?):)?([^/:]+)(?::([^/]*))?)/proxy(/.*)?")
_NOT_FORWARDED: Final = frozenset(
    {b"authorization", b"host", b"connection", b"content-length", b"transfer-encoding", b"upgrade", b"expect"}
)
_WAIT: Final = 30.0  # seconds
_EVENTS: Final = "text/event-stream"


class EmbeddedApi:
    """An in-memory API server; it listens while the `async with` lasts."""

    def __init__(  # noqa: PLR0913 - a builder: everything has a default
        self,
        *,
        token: str = "",
        port: int = 0,
        host: str = "127.0.0.1",
        tls: bool = True,
        store: Store | None = None,
        faults: Faults | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        middleware: Callable[[Application], messages.Application] | None = None,
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            token: bearer token of clients; generated if empty.
            port: 0 for any free port.
            host: address to listen on.
            tls: kubectl sends its token only over TLS; without TLS, tests start faster.
            store: the objects to serve; by default a new, empty cluster.
            faults: injected faults.
            bookmark_interval: seconds between watch bookmarks.
            middleware: wraps the application, for example to record requests.
        """
        self.token: Final = token or secrets.token_urlsafe(24)
        self.store: Final = store or Store()
        self.faults: Final = faults or Faults()
        self.host, self.port = host, port
        self._certificate = self_signed(dict.fromkeys(["localhost", "127.0.0.1", "::1", host])) if tls else None
        self._context: ssl.SSLContext | None = self._certificate.context() if self._certificate else None
        self.tokens: Final = Tokens({self.token: ADMIN})
        """accepted tokens; add one for each further user"""
        self.admission: Final = Admission(self.store)
        self._access = ApiAccess(self.store.database, self.tokens, self.admission)
        self._bookmark_interval, self._middleware = bookmark_interval, middleware
        self._application = self._create_application()
        self._server: Server | None = None
        self._gc_task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The server's URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._certificate else 'http'}://{host}:{self.port}"

    @property
    def certificate(self) -> str:
        """The CA certificate as PEM; empty without TLS."""
        return self._certificate.text if self._certificate else ""

    def kubeconfig(self, namespace: str = "default", *, token: str = "", user: str = "admin") -> str:
        """A kubeconfig for kubectl and Linkwise, of the administrator or of another user with this token."""
        trust = {"certificate-authority-data": _base64(self.certificate)} if self._certificate else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "linkwise", "cluster": {"server": self.url, **trust}}],
            "users": [{"name": user, "user": {"token": token or self.token}}],
            "contexts": [
                {"name": "linkwise", "context": {"cluster": "linkwise", "user": user, "namespace": namespace}}
            ],
            "current-context": "linkwise",
        }
        return json.dumps(document, indent=1) + "\n"

    async def __aenter__(self) -> Self:
        await self._listen()
        self._gc_task = asyncio.create_task(self.store.garbage_collector.run(), name="collector")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._gc_task is not None:
            self._gc_task.cancel()
            await asyncio.gather(self._gc_task, return_exceptions=True)
        await self._stop(abruptly=False)
        await self.admission.close()

    async def restart(self, *, lose_history: bool = False, downtime: float = 0.0) -> None:
        """Close all connections and listen again at the same address; without history, watches get 410 Expired."""
        await self._stop(abruptly=True)
        if lose_history:
            self.store.database.forget_history()
        await asyncio.sleep(downtime)
        self._application = self._create_application()
        await self._listen()

    def abort_connections(self) -> None:
        """Close all connections without a response; new ones are accepted."""
        if self._server is not None:
            self._server.abort_connections()

    def _create_application(self) -> Application:
        async def restart(lose_history: bool) -> None:  # noqa: FBT001 - one flag
            await self.restart(lose_history=lose_history)

        return Application(self.store, self._access, self.faults, restart, self._bookmark_interval)

    async def _listen(self) -> None:
        application = self._middleware(self._application) if self._middleware else self._application
        self._server = Server(application, _LIMITS, self._context)
        listener = listen(self.host, self.port, hint="choose another port")
        self.port = listener.getsockname()[1]
        await self._server.start(listener)

    async def _stop(self, *, abruptly: bool) -> None:
        if self._server is None:
            return
        server, self._server = self._server, None
        self._application.objects.end_watches()
        if not abruptly:
            await server.drain()
        await server.close()


class Application:
    """The application."""

    def __init__(
        self,
        store: Store,
        access: ApiAccess,
        faults: Faults,
        restart: Callable[[bool], Awaitable[None]] | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
    ) -> None:
        self.objects = Objects(store, access, faults, bookmark_interval)
        self._store, self._access, self._faults, self._restart = store, access, faults, restart
        self._proxy = ServiceProxy(store.database)
        self._restarts: set[asyncio.Future[None]] = set()

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        api_request = ApiRequest(request)
        if api_request.path.startswith("/faults"):
            return await self._respond(api_request)
        faults = self._faults.on_request(api_request.verb, api_request.path)
        if faults and (response := await self._inject(api_request, faults, landed=False)):
            return response
        response = await self._respond(api_request)
        return (faults and await self._inject(api_request, faults, landed=True)) or response

    def admit(self, request: Request) -> None:
        """Every body is received."""
        del request

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        """The Status of a request that the server could not read or answer."""
        del request
        error = too_large(MAX_BODY_BYTES) if status == 413 else ApiError(status, _REASONS.get(status, ""), sentence)
        return _error_response(error)

    async def _inject(self, request: ApiRequest, faults: list[Fault], *, landed: bool) -> Response | None:
        """Inject faults; the response if that is what they do."""
        for fault in faults:
            if fault.do == "delay":
                if not landed:
                    await asyncio.sleep(fault.seconds)
            elif fault.landed is landed:
                if fault.do == "answer":
                    return _error_response(fault_response(fault))
                if fault.do == "hang":
                    await request.wait_for_disconnect()
                raise HangUpError
        return None

    async def _respond(self, request: ApiRequest) -> Response:
        try:
            return with_warnings(await self._route(request), request.warnings)
        except ApiError as error:
            return with_warnings(_error_response(error), request.warnings)
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return _error_response(ApiError(500, "InternalError", message))

    async def _route(self, request: ApiRequest) -> Response:
        path = request.path.rstrip("/") or "/"
        if path not in _PUBLIC_PATHS:
            request.requester = self._access.authenticate(request)
        if path.startswith("/faults"):
            return await self._handle_faults(request, path)
        segments = path.split("/")[1:]
        if segments[0] in {"api", "apis"} and len(segments) > (2 if segments[0] == "api" else 3):
            if (target := proxy_target(request.path)) is not None:
                self._access.authorize_proxy(request, target.namespace, target.name)
                return await self._proxy.forward(request, target)
            _check_accept(request)
            request_path = parse_path(self._store.database.kinds, request.path)
            self._access.authorize(request, request_path)
            return await self.objects.handle(request, request_path)
        self._access.authorize_path(request, path)
        if request.method not in {"GET", "HEAD"}:
            raise not_allowed()
        if path == "/version":
            return json_response(discovery.version())
        if path.split("/")[1] in {"healthz", "livez", "readyz"}:
            return Response(b"ok", content_type=TEXT)
        return self._discover(request, segments)

    def _discover(self, request: ApiRequest, segments: list[str]) -> Response:
        kinds, accept = self._store.database.kinds, request.header("accept")
        if segments in (["api"], ["apis"]) and "as=APIGroupDiscoveryList" in accept:
            return json_response(discovery.aggregated(kinds, core=segments == ["api"]), media_type=discovery.AGGREGATED)
        if segments == ["openapi", "v2"] and "protobuf" in accept:
            return Response(discovery.V2_PROTOBUF, content_type=_OPENAPI_PROTOBUF)
        document = (
            _openapi_document(kinds, segments[1:])
            if segments[0] == "openapi"
            else _discovery_document(kinds, segments, request)
        )
        if document is None:
            raise no_such_path()
        return json_response(document)

    async def _handle_faults(self, request: ApiRequest, path: str) -> Response:
        if request.client not in _LOOPBACK:
            raise no_such_path()
        if path == "/faults/restart" and request.method == "POST" and self._restart is not None:
            body = request.body
            options = decode_document(body, JSON) if body else {}
            lose_history = isinstance(options, dict) and bool(options.get("loseHistory"))
            # Respond first: a restart closes all connections.
            task = asyncio.ensure_future(_restart_soon(self._restart, lose_history))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)
        elif path != "/faults":
            raise no_such_path()
        elif request.method == "POST":
            self._faults.add_from_request(decode_document(request.body, JSON))
        elif request.method == "DELETE":
            self._faults.clear()
        elif request.method != "GET":
            raise not_allowed()
        return json_response({"faults": self._faults.to_list()})


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
            await http.close()
            return Response(answer.body, answer.status, answer.content_type or TEXT)
        except ClusterError as error:
            raise _unavailable(f"error trying to reach service: {error}") from error


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _error_response(error: ApiError) -> Response:
    return json_response(error.status(), error.code, retry_after=int(error.details.get("retryAfterSeconds", 0)))


def _check_accept(request: ApiRequest) -> None:
    accept = request.header("accept")
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")] if accept else []
    if kinds and not any(kind in _ACCEPTED_TYPES for kind in kinds):
        message = f"only the following media types are accepted: {JSON}"
        raise ApiError(406, "NotAcceptable", message)


def _openapi_document(kinds: Kinds, segments: list[str]) -> Raw | None:
    match segments:
        case ["v2"]:
            return discovery.v2()
        case ["v3"]:
            return discovery.index(kinds)
        case ["v3", "api", version]:
            return discovery.version_document(kinds, "", version)
        case ["v3", "apis", group, version]:
            return discovery.version_document(kinds, group, version)
    return None


def _discovery_document(kinds: Kinds, segments: list[str], request: ApiRequest) -> Raw | None:
    """A document of unaggregated discovery."""
    match segments:
        case ["api"]:
            return discovery.core_versions(request.header("host"))
        case ["apis"]:
            return discovery.groups(kinds)
        case ["api", version]:
            return discovery.resources(kinds, "", version)
        case ["apis", group]:
            return discovery.group(kinds, group)
        case ["apis", group, version]:
            return discovery.resources(kinds, group, version)
    return _ROOT_PATHS if segments == [""] else None


async def _restart_soon(restart: Callable[[bool], Awaitable[None]], lose_history: bool) -> None:  # noqa: FBT001 - passed on
    await asyncio.sleep(0.05)
    await restart(lose_history)


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def _unverified() -> ssl.SSLContext:
    """TLS without verification: as kube-apiserver, the proxy has no authority to check certificates of Services with."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _read(http: Http, path: str, headers: bytes) -> Response:
    """The response to a GET; a stream of events is passed on as it comes."""
    async with contextlib.AsyncExitStack() as stack:
        exchange = await stack.enter_async_context(http.stream(path, headers, _WAIT))
        kind = exchange.content_type or TEXT
        if not kind.startswith(_EVENTS):
            async with asyncio.timeout(_WAIT):
                return Response(b"".join([part async for part in exchange.chunks()]), exchange.status, kind)
        return Response(b"", exchange.status, kind, stream=passed_on(exchange.chunks(), stack.pop_all()))
