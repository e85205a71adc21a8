"""Requests for objects: what the path and the method mean, and how the answer is written for this client.

Paths of the API taken apart: which kind, in which namespace, which object, which part of it.
"""
# Joined from routes, paths: one docstring for all.

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, no_such_path, not_allowed, success
from linkwise.embedded.apiserver.bodies import JSON, object_of
from linkwise.embedded.apiserver.request import Listed, Whole
from linkwise.embedded.apiserver.subresources import part_answer
from linkwise.embedded.apiserver.watch_responses import Failed, Watched
from linkwise.embedded.apiserver.write_requests import given_object, patch, written
from linkwise.embedded.kubectl.tables import Table
from linkwise.embedded.storage.collection import encode
from linkwise.embedded.storage.lists import ListOptions, version_of
from linkwise.embedded.writes.delete import DeleteOptions

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.faults import Faults
    from linkwise.embedded.apiserver.request import Answer, Exchange
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.selectors import Selector
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["Objects", "Place", "place_of"]

BOOKMARKS: Final = 60.0  # seconds
_LONGEST: Final = (1800.0, 3600.0)
"""of a watch that does not say how long it wants to be"""
_AT_ONCE: Final = 100


class Objects:
    """Answers requests for objects."""

    def __init__(self, store: Store, faults: Faults, bookmarks: float = BOOKMARKS) -> None:
        self.ending = asyncio.Event()
        """set when watches have to end"""
        self._store, self._faults, self._bookmarks = store, faults, bookmarks

    async def answer(self, exchange: Exchange, place: Place) -> Answer:
        """What to say."""
        if place.subresource:
            return await part_answer(self._store, exchange, place)
        if place.name:
            return await self._one(exchange, place)
        return await self._many(exchange, place)

    async def _many(self, exchange: Exchange, place: Place) -> Answer:
        resource, namespace = place.resource, place.namespace
        if exchange.method == "POST" and bool(namespace) == resource.namespaced:
            document = await given_object(self._store, exchange, place)
            stored = self._store.create(resource, document, namespace, dry_run=is_dry(exchange))
            return self._shown(exchange, resource, stored, 201)
        if exchange.method not in {"GET", "HEAD", "DELETE"}:
            raise not_allowed()
        words = exchange.query.get("labelSelector", ""), exchange.query.get("fieldSelector", "")
        selector = self._store.select(resource, namespace, *words)
        if exchange.method == "DELETE":
            return await self._delete_many(exchange, place, selector)
        if exchange.watching:
            return self._watched(exchange, resource, selector)
        return await self._listed(exchange, resource, selector)

    async def _one(self, exchange: Exchange, place: Place) -> Answer:
        store, resource, name, namespace = self._store, place.resource, place.name, place.namespace
        match exchange.method:
            case "GET" | "HEAD":
                if exchange.watching:
                    selector = store.select(resource, namespace, "", f"metadata.name={name}")
                    return self._watched(exchange, resource, selector)
                stored = store.get(resource, name, namespace)
            case "PUT":
                document = await given_object(store, exchange, place)
                stored = store.replace(resource, name, namespace, document, dry_run=is_dry(exchange))
            case "PATCH":
                stored, new = await patch(store, exchange, place)
                return self._shown(exchange, resource, stored, 201 if new else 200)
            case "DELETE":
                options = await _options(exchange)
                stored, gone = store.delete(resource, name, namespace, options)
                if gone and not resource.returns_deleted_object:
                    return Whole.of(success(resource, name, stored.uid))
            case _:
                raise not_allowed()
        return self._shown(exchange, resource, stored)

    async def _listed(self, exchange: Exchange, resource: Resource, selector: Selector) -> Answer:
        query = exchange.query
        limit = query.get("limit") or "0"
        if not limit.isdecimal():
            raise bad_request(f'limit: Invalid value: "{limit}"')
        asked = ListOptions(
            int(limit),
            query.get("continue", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
        )
        page = self._store.list(resource, selector, asked)
        if wants_table(exchange):
            return await self._tabled(exchange, resource, page.items, page.version, page.continue_token)
        meta = {"resourceVersion": str(page.version)} | (
            {"continue": page.continue_token} if page.continue_token else {}
        )
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta}
        begin = encode(head)[:-1] + b',"items":['
        return Listed(
            begin, page.items, lambda items: b",".join(self._store.convert(resource, one).data for one in items)
        )

    async def _tabled(
        self, exchange: Exchange, resource: Resource, items: list[Stored], version: int, rest: str
    ) -> Answer:
        table = self._table(exchange, resource)
        parts = []
        for start in range(0, len(items), _AT_ONCE):
            parts.append(encode(table.rows(items[start : start + _AT_ONCE]))[1:-1])
            await asyncio.sleep(0)
        head = table.whole((), version, rest)
        return Whole(encode(head).removesuffix(b"[]}") + b"[" + b",".join(parts) + b"]}")

    def _watched(self, exchange: Exchange, resource: Resource, selector: Selector) -> Answer:
        query = exchange.query
        initial = exchange.flag("sendInitialEvents")
        version = version_of(query.get("resourceVersion", ""))
        try:
            watch = self._store.watch(resource, selector, version if version and not initial else None)
        except ApiError as error:
            return Failed(error)
        if query.get("sendInitialEvents") == "false" and not version:
            watch.skip_initial()
        seconds = query.get("timeoutSeconds", "")
        return Watched(
            resource=resource,
            watch=watch,
            faults=self._faults,
            line=self._line(exchange, resource),
            seconds=float(seconds) if seconds.isdecimal() and int(seconds) else random.uniform(*_LONGEST),  # noqa: S311 - no secret
            bookmarks=self._bookmarks if exchange.flag("allowWatchBookmarks") else 0.0,
            version=lambda: self._store.version,
            ending=self.ending,
            initial=initial,
        )

    def _line(self, exchange: Exchange, resource: Resource) -> Any:  # noqa: ANN401 - a function
        store, kept = self._store, self._store.database.kinds.storage_version(resource) == resource
        if not wants_table(exchange):

            def plain(event: WatchEvent) -> bytes:
                if event.line and kept:
                    return event.line
                return b'{"type":"%s","object":%s}\n' % (
                    event.type.encode(),
                    store.convert(resource, event.stored).data,
                )

            return plain
        table, told = self._table(exchange, resource), False

        def tabled(event: WatchEvent) -> bytes:
            nonlocal told
            whole = table.whole([event.stored], event.stored.version, columns=not told)
            told = True
            return encode({"type": event.type, "object": whole}) + b"\n"

        return tabled

    async def _delete_many(self, exchange: Exchange, place: Place, selector: Selector) -> Answer:
        options = await _options(exchange)
        resource, deleted = place.resource, []
        for number, stored in enumerate(self._store.list(resource, selector).items, 1):
            try:
                deleted.append(self._store.delete(resource, stored.name, stored.namespace, options)[0])
            except ApiError as error:
                if error.code not in {403, 404}:
                    raise
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._store.version)},
        }
        begin = encode(head)[:-1] + b',"items":['
        return Listed(begin, deleted, lambda items: b",".join(self._store.convert(resource, one).data for one in items))

    def _shown(self, exchange: Exchange, resource: Resource, stored: Stored, code: int = 200) -> Answer:
        if wants_table(exchange):
            return Whole.of(self._table(exchange, resource).whole([stored], stored.version), code)
        return written(self._store, resource, stored, code)

    def _table(self, exchange: Exchange, resource: Resource) -> Table:
        served = self._store.database.kinds.served(resource)
        return Table(served, self._store.database.clock, exchange.query.get("includeObject", "Metadata"))


def wants_table(exchange: Exchange) -> bool:
    """Whether the client would rather have a table."""
    first = exchange.headers.get("accept", "").partition(",")[0]
    return "as=Table" in first and "v=v1beta1" not in first


def is_dry(exchange: Exchange) -> bool:
    """Whether nothing is to be written."""
    word = exchange.query.get("dryRun", "")
    if word not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{word}": supported values: "All"')
    return word == "All"


async def _options(exchange: Exchange) -> DeleteOptions:
    body, query = await exchange.body(), exchange.query
    try:
        given = object_of(body, exchange.content or JSON) if body else {}
        options = msgspec.convert({key: value for key, value in given.items() if value is not None}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error
    if (grace := query.get("gracePeriodSeconds", "")).isdecimal():
        options.grace_period_seconds = int(grace)
    options.propagation_policy = query.get("propagationPolicy") or options.propagation_policy
    options.dry_run = ["All"] if is_dry(exchange) else options.dry_run
    return options


_OF_SPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Place:
    """What a path means."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def place_of(kinds: Kinds, path: str) -> Place:
    """What a path below /api or /apis means; RefusedError if it means nothing."""
    words = path.strip("/").split("/")
    if words[0] == "api" and len(words) > 2:
        group, version, rest = "", words[1], words[2:]
    elif words[0] == "apis" and len(words) > 3:
        group, version, rest = words[1], words[2], words[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (not group and len(rest) == 3 and rest[2] in _OF_SPACES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    resource = kinds.by_path(group, version, plural)
    if (namespace and not resource.namespaced) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return Place(resource, namespace, name, subresource)
