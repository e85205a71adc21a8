"""ASGI application of the API server: authentication, fault injection, health, version, discovery and object routes."""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError, no_such_path, not_allowed, unauthorized
from linkwise.embedded.apiserver.bodies import JSON, decode_document
from linkwise.embedded.apiserver.faults import fault_response
from linkwise.embedded.apiserver.paths import parse_path
from linkwise.embedded.apiserver.request import Exchange, FullResponse
from linkwise.embedded.apiserver.routes import BOOKMARK_INTERVAL, Objects
from linkwise.embedded.kubectl import discovery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from linkwise.embedded.apiserver.faults import Fault, Faults
    from linkwise.embedded.apiserver.request import Message, Receive, Response, Send
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["Application"]

log = logging.getLogger(__name__)

_PUBLIC_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_TEXT: Final = "text/plain; charset=utf-8"
_OPENAPI_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ROOT_PATHS: Final = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
_ACCEPTED_TYPES: Final = (JSON, "*/*", "application/*")


class Application:
    """The ASGI application."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        tokens: Collection[str],
        restart: Callable[[bool], Awaitable[None]] | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
    ) -> None:
        self.objects = Objects(store, faults, bookmark_interval)
        self._store, self._faults, self._restart = store, faults, restart
        self._tokens = [token.encode() for token in tokens]
        self._restarts: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        try:
            faults = (
                self._faults.on_request(exchange.verb, exchange.path) if not exchange.path.startswith("/faults") else []
            )
            if faults and await self._inject(exchange, faults, landed=False):
                return
            response = await self._respond(exchange)
            if faults and await self._inject(exchange, faults, landed=True):
                return
            await response.send_to(exchange)
        except ConnectionError:
            await exchange.abort()

    async def _inject(self, exchange: Exchange, faults: list[Fault], *, landed: bool) -> bool:
        """Inject faults; whether the request is finished by that."""
        for fault in faults:
            if fault.do == "delay":
                if not landed:
                    await asyncio.sleep(fault.seconds)
            elif fault.landed is landed:
                if fault.do == "answer":
                    await _error_response(fault_response(fault)).send_to(exchange)
                elif fault.do == "hang":
                    await exchange.wait_for_disconnect()
                else:
                    await exchange.abort()
                return True
        return False

    async def _respond(self, exchange: Exchange) -> Response:
        try:
            return await self._route(exchange)
        except ApiError as error:
            return _error_response(error)
        except ConnectionError:
            raise
        except Exception as error:
            log.exception("%s %s failed", exchange.method, exchange.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return _error_response(ApiError(500, "InternalError", message))

    async def _route(self, exchange: Exchange) -> Response:
        path = exchange.path.rstrip("/") or "/"
        if path not in _PUBLIC_PATHS and not self._is_authenticated(exchange):
            raise unauthorized()
        if path.startswith("/faults"):
            return await self._handle_faults(exchange, path)
        segments = path.split("/")[1:]
        if segments[0] in {"api", "apis"} and len(segments) > (2 if segments[0] == "api" else 3):
            _check_accept(exchange)
            return await self.objects.handle(exchange, parse_path(self._store.database.kinds, exchange.path))
        if exchange.method not in {"GET", "HEAD"}:
            raise not_allowed()
        if path == "/version":
            return FullResponse.of(discovery.version())
        if path.split("/")[1] in {"healthz", "livez", "readyz"}:
            return FullResponse(b"ok", media_type=_TEXT)
        return self._discover(exchange, segments)

    def _discover(self, exchange: Exchange, segments: list[str]) -> Response:
        kinds, accept = self._store.database.kinds, exchange.headers.get("accept", "")
        if segments in (["api"], ["apis"]) and "as=APIGroupDiscoveryList" in accept:
            return FullResponse.of(
                discovery.aggregated(kinds, core=segments == ["api"]), media_type=discovery.AGGREGATED
            )
        if segments == ["openapi", "v2"] and "protobuf" in accept:
            return FullResponse(discovery.V2_PROTOBUF, media_type=_OPENAPI_PROTOBUF)
        document = (
            _openapi_document(kinds, segments[1:])
            if segments[0] == "openapi"
            else _discovery_document(kinds, segments, exchange)
        )
        if document is None:
            raise no_such_path()
        return FullResponse.of(document)

    async def _handle_faults(self, exchange: Exchange, path: str) -> Response:
        if exchange.client not in _LOOPBACK:
            raise no_such_path()
        if path == "/faults/restart" and exchange.method == "POST" and self._restart is not None:
            body = await exchange.body()
            options = decode_document(body, JSON) if body else {}
            lose_history = isinstance(options, dict) and bool(options.get("loseHistory"))
            # Respond first: a restart closes all connections.
            task = asyncio.ensure_future(_restart_soon(self._restart, lose_history))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)
        elif path != "/faults":
            raise no_such_path()
        elif exchange.method == "POST":
            self._faults.add_from_request(decode_document(await exchange.body(), JSON))
        elif exchange.method == "DELETE":
            self._faults.clear()
        elif exchange.method != "GET":
            raise not_allowed()
        return FullResponse.of({"faults": self._faults.to_list()})

    def _is_authenticated(self, exchange: Exchange) -> bool:
        scheme, _, token = exchange.headers.get("authorization", "").partition(" ")
        presented = token.strip().encode("latin-1", "replace")
        return scheme.lower() == "bearer" and any(hmac.compare_digest(presented, known) for known in self._tokens)


def _discovery_document(kinds: Kinds, segments: list[str], exchange: Exchange) -> Raw | None:
    """A document of unaggregated discovery."""
    match segments:
        case ["api"]:
            return discovery.core_versions(exchange.headers.get("host", ""))
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


def _error_response(error: ApiError) -> FullResponse:
    return FullResponse.of(error.status(), error.code, retry_after=int(error.details.get("retryAfterSeconds", 0)))


def _check_accept(exchange: Exchange) -> None:
    accept = exchange.headers.get("accept", "")
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")] if accept else []
    if kinds and not any(kind in _ACCEPTED_TYPES for kind in kinds):
        message = f"only the following media types are accepted: {JSON}"
        raise ApiError(406, "NotAcceptable", message)
