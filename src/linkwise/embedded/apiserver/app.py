"""The API server as an application: who may ask, what goes wrong on purpose, and everything that is not an object."""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError, no_such_path, not_allowed, unauthorized
from linkwise.embedded.apiserver.bodies import JSON, document_of
from linkwise.embedded.apiserver.faults import said_instead
from linkwise.embedded.apiserver.request import Exchange, Whole
from linkwise.embedded.apiserver.routes import BOOKMARKS, Objects, place_of
from linkwise.embedded.kubectl import discovery, discovery as openapi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from linkwise.embedded.apiserver.faults import Fault, Faults
    from linkwise.embedded.apiserver.request import Answer, Message, Receive, Send
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["Application"]

log = logging.getLogger(__name__)

_OPEN: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_HERE: Final = frozenset({"127.0.0.1", "::1"})
_TEXT: Final = "text/plain; charset=utf-8"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ROOT: Final = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
_KNOWN: Final = (JSON, "*/*", "application/*")


class Application:
    """What ASGI servers call."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        tokens: Collection[str],
        restart: Callable[[bool], Awaitable[None]] | None = None,
        bookmarks: float = BOOKMARKS,
    ) -> None:
        self.objects = Objects(store, faults, bookmarks)
        self._store, self._faults, self._restart = store, faults, restart
        self._tokens = [token.encode() for token in tokens]
        self._chores: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        try:
            met = self._faults.met(exchange.verb, exchange.path) if not exchange.path.startswith("/faults") else []
            if met and await self._spoilt(exchange, met, landed=False):
                return
            answer = await self._answer(exchange)
            if met and await self._spoilt(exchange, met, landed=True):
                return
            await answer.tell(exchange)
        except ConnectionError:
            await exchange.cut()

    async def _spoilt(self, exchange: Exchange, met: list[Fault], *, landed: bool) -> bool:
        """Let go wrong what has to; whether there is nothing more to say."""
        for fault in met:
            if fault.do == "delay":
                if not landed:
                    await asyncio.sleep(fault.seconds)
            elif fault.landed is landed:
                if fault.do == "answer":
                    await _refused(said_instead(fault)).tell(exchange)
                elif fault.do == "hang":
                    await exchange.gone()
                else:
                    await exchange.cut()
                return True
        return False

    async def _answer(self, exchange: Exchange) -> Answer:
        try:
            return await self._said(exchange)
        except ApiError as error:
            return _refused(error)
        except ConnectionError:
            raise
        except Exception as error:
            log.exception("%s %s failed", exchange.method, exchange.path)
            told = f"Internal error occurred: {type(error).__name__}: {error}"
            return _refused(ApiError(500, "InternalError", told))

    async def _said(self, exchange: Exchange) -> Answer:
        path = exchange.path.rstrip("/") or "/"
        if path not in _OPEN and not self._is_known(exchange):
            raise unauthorized()
        if path.startswith("/faults"):
            return await self._said_of_faults(exchange, path)
        words = path.split("/")[1:]
        if words[0] in {"api", "apis"} and len(words) > (2 if words[0] == "api" else 3):
            _check_accepted(exchange)
            return await self.objects.answer(exchange, place_of(self._store.database.kinds, exchange.path))
        if exchange.method not in {"GET", "HEAD"}:
            raise not_allowed()
        if path == "/version":
            return Whole.of(discovery.version())
        if path.split("/")[1] in {"healthz", "livez", "readyz"}:
            return Whole(b"ok", kind=_TEXT)
        return self._discovered(exchange, words)

    def _discovered(self, exchange: Exchange, words: list[str]) -> Answer:
        kinds, accept = self._store.database.kinds, exchange.headers.get("accept", "")
        if words in (["api"], ["apis"]) and "as=APIGroupDiscoveryList" in accept:
            return Whole.of(discovery.aggregated(kinds, core=words == ["api"]), kind=discovery.AGGREGATED)
        if words == ["openapi", "v2"] and "protobuf" in accept:
            return Whole(openapi.V2_PROTOBUF, kind=_PROTOBUF)
        found = _documented(kinds, words[1:]) if words[0] == "openapi" else _told(kinds, words, exchange)
        if found is None:
            raise no_such_path()
        return Whole.of(found)

    async def _said_of_faults(self, exchange: Exchange, path: str) -> Answer:
        if exchange.client not in _HERE:
            raise no_such_path()
        if path == "/faults/restart" and exchange.method == "POST" and self._restart is not None:
            body = await exchange.body()
            wanted = document_of(body, JSON) if body else {}
            lost = isinstance(wanted, dict) and bool(wanted.get("loseHistory"))
            # The answer goes out first: a restart ends all connections.
            chore = asyncio.ensure_future(_soon(self._restart, lost))
            self._chores.add(chore)
            chore.add_done_callback(self._chores.discard)
        elif path != "/faults":
            raise no_such_path()
        elif exchange.method == "POST":
            self._faults.read(document_of(await exchange.body(), JSON))
        elif exchange.method == "DELETE":
            self._faults.clear()
        elif exchange.method != "GET":
            raise not_allowed()
        return Whole.of({"faults": self._faults.shown()})

    def _is_known(self, exchange: Exchange) -> bool:
        scheme, _, token = exchange.headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        return scheme.lower() == "bearer" and any(hmac.compare_digest(given, known) for known in self._tokens)


def _told(kinds: Kinds, words: list[str], exchange: Exchange) -> Raw | None:
    """What there is, told group by group."""
    match words:
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
    return _ROOT if words == [""] else None


def _documented(kinds: Kinds, words: list[str]) -> Raw | None:
    match words:
        case ["v2"]:
            return openapi.v2()
        case ["v3"]:
            return openapi.index(kinds)
        case ["v3", "api", version]:
            return openapi.version_document(kinds, "", version)
        case ["v3", "apis", group, version]:
            return openapi.version_document(kinds, group, version)
    return None


async def _soon(restart: Callable[[bool], Awaitable[None]], lost: bool) -> None:  # noqa: FBT001 - passed on
    await asyncio.sleep(0.05)
    await restart(lost)


def _refused(error: ApiError) -> Whole:
    return Whole.of(error.status(), error.code, retry_after=int(error.details.get("retryAfterSeconds", 0)))


def _check_accepted(exchange: Exchange) -> None:
    accept = exchange.headers.get("accept", "")
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")] if accept else []
    if kinds and not any(kind in _KNOWN for kind in kinds):
        told = f"only the following media types are accepted: {JSON}"
        raise ApiError(406, "NotAcceptable", told)
