"""Object routes: a path and method become a call of the store, answered in the format that the client accepts."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, expired, not_allowed, success
from linkwise.embedded.apiserver.access import answer_review
from linkwise.embedded.apiserver.request import decode_body, json_response, list_response
from linkwise.embedded.apiserver.subresources import begin_patch, handle_subresource, object_response, read_object
from linkwise.embedded.kubectl.tables import Table
from linkwise.embedded.storage.collection import encode
from linkwise.embedded.storage.list_watch import ListOptions, version_of
from linkwise.embedded.writes.delete import DeleteOptions
from linkwise.net.http.messages import JSON, HangUpError, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from linkwise.embedded.apiserver.access import ApiAccess
    from linkwise.embedded.apiserver.faults import Faults
    from linkwise.embedded.apiserver.request import ApiRequest, RequestPath
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.list_watch import Selector, Watch, WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.embedded.writes.admission import Write


__all__ = ["Objects", "WatchStream", "failed_watch"]

T = TypeVar("T")

BOOKMARK_INTERVAL: Final = 60.0  # seconds
_DEFAULT_TIMEOUT: Final = (1800.0, 3600.0)
"""range of the random timeout, in seconds, of watches without timeoutSeconds"""
_BATCH_SIZE: Final = 100
_EVENTS_PER_WRITE: Final = 256
_HEADERS: Final = (("cache-control", "no-cache, private"),)


class Objects:
    """Handles requests for objects."""

    def __init__(
        self, store: Store, access: ApiAccess, faults: Faults, bookmark_interval: float = BOOKMARK_INTERVAL
    ) -> None:
        self._store, self._access, self._faults, self._bookmark_interval = store, access, faults, bookmark_interval
        self._watches: WeakSet[Watch] = WeakSet()
        """those that are being streamed"""

    def end_watches(self) -> None:
        """End all watches as their timeouts would."""
        for watch in tuple(self._watches):
            watch.close()

    async def handle(self, request: ApiRequest, request_path: RequestPath) -> Response:
        """Handle a request for an object, a collection or a subresource."""
        if request_path.resource.create_only:
            return answer_review(self._access, request, request_path)
        if request_path.subresource:
            admission, tokens = self._access.admission, self._access.tokens
            return await handle_subresource(self._store, admission, tokens, request, request_path)
        if request_path.name:
            return await self._handle_object(request, request_path)
        return await self._handle_collection(request, request_path)

    async def _handle_collection(self, request: ApiRequest, request_path: RequestPath) -> Response:
        resource, namespace = request_path.resource, request_path.namespace
        if request.method == "POST" and bool(namespace) == resource.namespaced:
            document = read_object(self._store, request, request_path)
            dry_run = is_dry_run(request)
            begin = partial(self._store.begin_create, resource, document, namespace, dry_run=dry_run)
            stored = await self._admit(request, begin)
            return self._object_response(request, resource, stored, 201)
        if request.method not in {"GET", "HEAD", "DELETE"}:
            raise not_allowed()
        selectors = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        selector = self._store.select(resource, namespace, *selectors)
        if request.method == "DELETE":
            return await self._delete_collection(request, request_path, selector)
        if request.is_watch:
            return self._watch(request, resource, selector)
        return await self._list(request, resource, selector)

    async def _admit(self, request: ApiRequest, begin: Callable[[], Write[T]]) -> T:
        """Complete a write as the user of the request."""
        return await self._access.admission.complete(begin, request.requester, request.warnings)

    async def _handle_object(self, request: ApiRequest, request_path: RequestPath) -> Response:
        store, resource, name, namespace = self._store, request_path.resource, request_path.name, request_path.namespace
        match request.method:
            case "GET" | "HEAD":
                if request.is_watch:
                    selector = store.select(resource, namespace, "", f"metadata.name={name}")
                    return self._watch(request, resource, selector)
                stored = store.get(resource, name, namespace)
            case "PUT":
                document = read_object(store, request, request_path)
                dry_run = is_dry_run(request)
                begin = partial(store.begin_replace, resource, name, namespace, document, dry_run=dry_run)
                stored = await self._admit(request, begin)
            case "PATCH":
                stored, created = await self._admit(request, begin_patch(store, request, request_path))
                return self._object_response(request, resource, stored, 201 if created else 200)
            case "DELETE":
                options = _delete_options(request)
                deletion = partial(store.begin_delete, resource, name, namespace, options)
                stored, removed = await self._admit(request, deletion)
                if removed and not resource.returns_deleted_object:
                    return json_response(success(resource, name, stored.uid))
            case _:
                raise not_allowed()
        return self._object_response(request, resource, stored)

    async def _list(self, request: ApiRequest, resource: Resource, selector: Selector) -> Response:
        query = request.query
        limit = query.get("limit") or "0"
        if not limit.isdecimal():
            raise bad_request(f'limit: Invalid value: "{limit}"')
        options = ListOptions(
            int(limit),
            query.get("continue", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
        )
        page = self._store.list(resource, selector, options)
        if wants_table(request):
            return await self._list_table(request, resource, page.items, page.version, page.continue_token)
        meta = {"resourceVersion": str(page.version)} | (
            {"continue": page.continue_token} if page.continue_token else {}
        )
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta}
        prefix = encode(head)[:-1] + b',"items":['
        return list_response(
            prefix, page.items, lambda items: b",".join(self._store.convert(resource, stored).data for stored in items)
        )

    async def _list_table(
        self, request: ApiRequest, resource: Resource, items: list[Stored], version: int, continue_token: str
    ) -> Response:
        table = self._table(request, resource)
        rows = []
        for start in range(0, len(items), _BATCH_SIZE):
            rows.append(encode(table.rows(items[start : start + _BATCH_SIZE]))[1:-1])
            await asyncio.sleep(0)
        head = table.document((), version, continue_token)
        return Response(encode(head).removesuffix(b"[]}") + b"[" + b",".join(rows) + b"]}")

    def _watch(self, request: ApiRequest, resource: Resource, selector: Selector) -> Response:
        query = request.query
        send_initial_end = request.flag("sendInitialEvents")
        version = version_of(query.get("resourceVersion", ""))
        try:
            watch = self._store.watch(resource, selector, version if version and not send_initial_end else None)
        except ApiError as error:
            return failed_watch(error)
        if query.get("sendInitialEvents") == "false" and not version:
            watch.skip_initial()
        timeout = query.get("timeoutSeconds", "")
        self._watches.add(watch)
        return WatchStream(
            path=request.path,
            resource=resource,
            watch=watch,
            faults=self._faults,
            encode_event=self._event_encoder(request, resource),
            timeout=float(timeout) if timeout.isdecimal() and int(timeout) else random.uniform(*_DEFAULT_TIMEOUT),  # noqa: S311 - no secret
            bookmark_interval=self._bookmark_interval if request.flag("allowWatchBookmarks") else 0.0,
            version=lambda: self._store.version,
            send_initial_end=send_initial_end,
        ).response()

    def _event_encoder(self, request: ApiRequest, resource: Resource) -> Any:  # noqa: ANN401 - a function
        store, is_storage_version = self._store, self._store.database.kinds.storage_version(resource) == resource
        if not wants_table(request):

            def encode_object(event: WatchEvent) -> bytes:
                if event.line and is_storage_version:
                    return event.line
                return b'{"type":"%s","object":%s}\n' % (
                    event.type.encode(),
                    store.convert(resource, event.stored).data,
                )

            return encode_object
        table, columns_sent = self._table(request, resource), False

        def encode_table(event: WatchEvent) -> bytes:
            nonlocal columns_sent
            document = table.document([event.stored], event.stored.version, columns=not columns_sent)
            columns_sent = True
            return encode({"type": event.type, "object": document}) + b"\n"

        return encode_table

    async def _delete_collection(self, request: ApiRequest, request_path: RequestPath, selector: Selector) -> Response:
        options = _delete_options(request)
        resource, deleted = request_path.resource, []
        for number, stored in enumerate(self._store.list(resource, selector).items, 1):
            try:
                begin = partial(self._store.begin_delete, resource, stored.name, stored.namespace, options)
                deleted.append((await self._admit(request, begin))[0])
            except ApiError as error:
                if error.code not in {403, 404}:
                    raise
            if number % _BATCH_SIZE == 0:
                await asyncio.sleep(0)
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._store.version)},
        }
        prefix = encode(head)[:-1] + b',"items":['
        return list_response(
            prefix, deleted, lambda items: b",".join(self._store.convert(resource, stored).data for stored in items)
        )

    def _object_response(self, request: ApiRequest, resource: Resource, stored: Stored, code: int = 200) -> Response:
        if wants_table(request):
            return json_response(self._table(request, resource).document([stored], stored.version), code)
        return object_response(self._store, resource, stored, code)

    def _table(self, request: ApiRequest, resource: Resource) -> Table:
        served = self._store.database.kinds.served(resource)
        return Table(served, self._store.database.clock, request.query.get("includeObject", "Metadata"))


def wants_table(request: ApiRequest) -> bool:
    """Whether the client prefers a Table."""
    first = request.header("accept").partition(",")[0]
    return "as=Table" in first and "v=v1beta1" not in first


def is_dry_run(request: ApiRequest) -> bool:
    """Whether the request is a dry run."""
    value = request.query.get("dryRun", "")
    if value not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return value == "All"


def failed_watch(error: ApiError) -> Response:
    """A watch that fails at once: clients expect the Status as an ERROR event in the stream."""
    return Response(_error_line(error), headers=_HEADERS)


@dataclass(slots=True, kw_only=True)
class WatchStream:
    """A watch, streamed until it times out or either side closes it."""

    path: str
    """of the request, by which faults are chosen"""
    resource: Resource
    watch: Watch
    faults: Faults
    encode_event: Callable[[WatchEvent], bytes]
    """the event in the format that the client accepts"""
    timeout: float
    bookmark_interval: float
    """seconds between bookmarks; 0 for none"""
    version: Callable[[], int]
    """the current resourceVersion"""
    send_initial_end: bool = False
    """whether a bookmark marks the end of the initial events"""

    def response(self) -> Response:
        """The response that streams the events."""
        return Response(headers=_HEADERS, stream=self._lines())

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end, next_bookmark = loop.time() + self.timeout, loop.time() + self.bookmark_interval
        initial_pending = self.send_initial_end
        try:
            while True:
                while self.watch.has_events:
                    lines, fault = self._next_lines()
                    yield lines
                    if fault == "cut":
                        raise HangUpError
                    if fault == "expire":
                        return
                    await asyncio.sleep(0)
                if initial_pending:
                    initial_pending = False
                    yield self._bookmark(initial_end=True)
                now = loop.time()
                if self.watch.closed or now >= end:
                    break
                if self.bookmark_interval and now >= next_bookmark:
                    yield self._bookmark()
                    next_bookmark = now + self.bookmark_interval
                await self._wait(min(end, next_bookmark if self.bookmark_interval else end) - now)
            if self.bookmark_interval and now >= end:
                yield self._bookmark()
        finally:
            self.watch.close()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self.watch.wait()

    def _next_lines(self) -> tuple[bytes, str]:
        """The lines of a batch of unread events, and the fault that ends the watch after them, if any."""
        lines: list[bytes] = []
        for event in self.watch.take(_EVENTS_PER_WRITE):
            fault = self.faults.on_event(self.path)
            action = fault.do if fault else ""
            if action in {"cut", "expire"}:
                last = _error_line(expired("too old resource version")) if action == "expire" else b""
                return b"".join(lines) + last, action
            line = self.encode_event(event)
            lines += [] if action == "drop" else [line, line] if action == "repeat" else [line]
        return b"".join(lines), ""

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self.version()), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": document}) + b"\n"


def _delete_options(request: ApiRequest) -> DeleteOptions:
    body, query = request.body, request.query
    try:
        body_options = decode_body(body, request.content_type or JSON) if body else {}
        options = msgspec.convert(
            {key: value for key, value in body_options.items() if value is not None}, DeleteOptions
        )
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error
    if (grace := query.get("gracePeriodSeconds", "")).isdecimal():
        options.grace_period_seconds = int(grace)
    options.propagation_policy = query.get("propagationPolicy") or options.propagation_policy
    options.dry_run = ["All"] if is_dry_run(request) else options.dry_run
    return options


def _error_line(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"
