"""Application of the API server: access, fault injection, health, version, discovery, object routes and service proxy."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError, no_such_path, not_allowed, too_large
from linkwise.embedded.apiserver.bodies import MAX_BODY_BYTES, decode_document
from linkwise.embedded.apiserver.faults import fault_response
from linkwise.embedded.apiserver.paths import parse_path
from linkwise.embedded.apiserver.request import ApiRequest, json_response, with_warnings
from linkwise.embedded.apiserver.routes import BOOKMARK_INTERVAL, Objects
from linkwise.embedded.apiserver.service_proxy import ServiceProxy, proxy_target
from linkwise.embedded.kubectl import discovery
from linkwise.net.http.messages import JSON, TEXT, HangUpError, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.apiserver.access import ApiAccess
    from linkwise.embedded.apiserver.faults import Fault, Faults
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store
    from linkwise.net.http.messages import Request

__all__ = ["Application"]

log = logging.getLogger(__name__)

_PUBLIC_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_OPENAPI_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ROOT_PATHS: Final = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
_REASONS: Final = {400: "BadRequest", 408: "Timeout", 500: "InternalError", 503: "ServiceUnavailable"}
_ACCEPTED_TYPES: Final = (JSON, "*/*", "application/*")


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


async def _restart_soon(restart: Callable[[bool], Awaitable[None]], lose_history: bool) -> None:  # noqa: FBT001 - passed on
    await asyncio.sleep(0.05)
    await restart(lose_history)


def _error_response(error: ApiError) -> Response:
    return json_response(error.status(), error.code, retry_after=int(error.details.get("retryAfterSeconds", 0)))


def _check_accept(request: ApiRequest) -> None:
    accept = request.header("accept")
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")] if accept else []
    if kinds and not any(kind in _ACCEPTED_TYPES for kind in kinds):
        message = f"only the following media types are accepted: {JSON}"
        raise ApiError(406, "NotAcceptable", message)
