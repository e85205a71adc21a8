"""List and watch: pages at one resource version, and the events after it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, expired
from linkwise.engine.selectors import all_met, label_requirements
from linkwise.errors import InputError
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Change, Collection, Key, Raw, Stored
    from linkwise.embedded.storage.database import Database

__all__ = [
    "EVERYTHING",
    "ListOptions",
    "Page",
    "Selector",
    "Watch",
    "WatchEvent",
    "labels_match",
    "list_page",
    "parse_label_selector",
    "parse_selector",
]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter."
)
_FIELD: Final = re.compile(r"(?P<name>[^=!,]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^\\,=])*)(?:,|$)")
_META: Final = ("metadata.name", "metadata.namespace")
BUFFER_BYTES: Final = 32 << 20
"""unread bytes after which a slow watch is closed; the client resumes from its last resourceVersion"""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The list parameters of a request: limit, continue, resourceVersion and resourceVersionMatch."""

    limit: int = 0
    """0 for no limit"""
    continue_token: str = ""
    """from the previous page"""
    version: str = ""
    version_match: str = ""
    """`Exact`, `NotOlderThan` or empty"""


@dataclass(frozen=True, slots=True)
class Page:
    """One chunk of a list."""

    items: list[Stored]
    version: int
    continue_token: str = ""


class _Token(msgspec.Struct, array_like=True):
    version: int
    namespace: str
    name: str


def list_page(database: Database, resource: Resource, selector: Selector, options: ListOptions) -> Page:
    """The requested chunk; ApiError 410 if its resourceVersion is no longer available."""
    version, after, exact = _resolve(database, options)
    objects = database.collection(resource).page(selector.namespace, after, version if exact else None)
    try:
        return _select_page(objects, selector, options.limit, version)
    except ApiError as error:
        if error.code == 410 and options.continue_token:
            raise expired(_TOO_OLD) from error
        raise


def _select_page(objects: Iterator[Stored], selector: Selector, limit: int, version: int) -> Page:
    unfiltered = selector.everything or not (selector.labels or selector.fields)
    selected = objects if unfiltered else (stored for stored in objects if selector.matches(stored))
    if not limit:
        return Page(list(selected), version)
    items: list[Stored] = []
    for stored in selected:
        if len(items) == limit:
            last = items[-1]
            continue_token = base64.urlsafe_b64encode(msgspec.json.encode(_Token(version, last.namespace, last.name)))
            return Page(items, version, continue_token.decode("ascii").rstrip("="))
        items.append(stored)
    return Page(items, version)


def _resolve(database: Database, options: ListOptions) -> tuple[int, Key | None, bool]:
    """The resourceVersion of the list, the key to continue after, and whether to list the objects of that version."""
    if options.continue_token:
        if options.version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _decode_token(options.continue_token)
        return token.version, (token.namespace, token.name), True
    version = version_of(options.version)
    if options.version_match and options.version_match not in {"Exact", "NotOlderThan"}:
        raise bad_request(f'resourceVersionMatch: Unsupported value: "{options.version_match}"')
    if options.version_match and not options.version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if version > database.version:
        # kube-apiserver waits a few seconds for its watch cache to catch up; here only a new write could do that.
        raise ApiError(504, "Timeout", f"Timeout: Too large resource version: {version}, current: {database.version}")
    if options.version_match == "Exact":
        if not version:
            raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        return version, None, True
    return database.version, None, False


def version_of(text: str) -> int:
    """Parse a resourceVersion parameter; 0 if it is empty."""
    if text and not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise bad_request(f'resourceVersion: Invalid value: "{text}": must be a number')
    return int(text or 0)


def _decode_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise bad_request("continue key is not valid: the token was not issued by this server") from error


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects objects by namespace, labels and fields."""

    labels: tuple[SelectorRequirement, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """field, value, and whether they must be equal"""
    namespace: str = ""

    @property
    def everything(self) -> bool:
        """Whether the selector matches all objects."""
        return not (self.labels or self.fields or self.namespace)

    def matches(self, stored: Stored) -> bool:
        """Whether the selector matches an object."""
        if self.namespace and stored.namespace != self.namespace:
            return False
        for name, value, equal in self.fields:
            if (stored.field(name) == value) is not equal:
                return False
        return all_met(self.labels, stored.labels)


EVERYTHING: Final = Selector()


def parse_selector(resource: Resource, namespace: str, labels: str = "", fields: str = "") -> Selector:
    """Parse the selectors of a request; ApiError 400 if one is invalid."""
    if not (labels or fields or namespace):
        return EVERYTHING
    return Selector(parse_label_selector(labels), _parse_field_selector(resource, fields), namespace)


def labels_match(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector (matchLabels, matchExpressions) matches these labels; an empty selector matches all."""
    if selector is None:
        return False
    exact = selector.get("matchLabels")
    if isinstance(exact, dict) and any(labels.get(key) != value for key, value in exact.items()):
        return False
    expressions = selector.get("matchExpressions")
    return all_met(tuple(map(_expression, expressions)), labels) if isinstance(expressions, list) else True


def _expression(expression: Mapping[str, object]) -> SelectorRequirement:
    values = expression.get("values")
    return SelectorRequirement(
        str(expression.get("key", "")),
        str(expression.get("operator", "")),
        tuple(map(str, values)) if isinstance(values, list) else (),
    )


@lru_cache(maxsize=256)
def parse_label_selector(text: str) -> tuple[SelectorRequirement, ...]:
    """Parse an equality-based or set-based label selector; ApiError 400 if it is invalid."""
    try:
        return label_requirements(text)
    except InputError as error:
        raise bad_request(str(error)) from error


def _parse_field_selector(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    terms = []
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise bad_request(f"invalid field selector: '{text}'; can't understand '{text[at:]}'")
        name = match["name"].strip()
        if name not in _META and name not in (resource.selectable_fields or ()):
            raise bad_request(f"field label not supported: {name}")
        terms.append((name, re.sub(r"\\(.)", r"\1", match["value"]), match["operator"] != "!="))
        at = match.end()
    return tuple(terms)


@dataclass(frozen=True, slots=True, eq=False)
class WatchEvent:
    """One event of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    line: bytes = b""
    """the encoded event, if it is the same for all watches"""

    @property
    def object(self) -> Raw:
        """Decode the object; the caller owns the copy."""
        return self.stored.read()


class Watch:
    """A watch of one resource for one reader: `async for event in watch`, until either side closes it."""

    def __init__(self, collection: Collection, parse_selector: Selector) -> None:
        self.closed = False
        self.version = 0
        """the resourceVersion that the reader has caught up to"""
        self._collection, self._selector = collection, parse_selector
        self._initial: deque[Stored] = deque()
        """objects to report as ADDED; they cost no memory, as the collection holds them anyway"""
        self._events: deque[WatchEvent] = deque()
        self._size = 0
        self._readable: asyncio.Event = asyncio.Event()
        collection.listeners.add(self._on_change)

    @property
    def has_events(self) -> bool:
        """Whether there are unread events."""
        return bool(self._initial or self._events)

    def start_with(self, stored: list[Stored], version: int) -> None:
        """Report these objects as ADDED first."""
        self._initial.extend(stored)
        self.version = version
        if stored:
            self._readable.set()

    def start_at(self, version: int) -> None:
        """Report all changes since a resourceVersion first; ApiError 410 if it is too old."""
        for change in self._collection.since(version):
            self._on_change(change)
        self.version = max(version, self._collection.newest)

    def skip_initial(self) -> None:
        """Do not report the initial objects (sendInitialEvents=false)."""
        self._initial.clear()
        self._update_readable()

    def take(self, limit: int = 512) -> list[WatchEvent]:
        """Take up to `limit` unread events."""
        if self._initial:
            events = [WatchEvent("ADDED", self._initial.popleft()) for _ in range(min(limit, len(self._initial)))]
        else:
            events = [self._events.popleft() for _ in range(min(limit, len(self._events)))]
            self._size -= sum(len(event.stored.data) for event in events)
        self._update_readable()
        return events

    async def wait(self) -> None:
        """Wait until there are unread events, or the watch is closed."""
        await self._readable.wait()

    def close(self) -> None:
        """Stop receiving events."""
        self._collection.listeners.discard(self._on_change)
        self.closed = True
        self._readable.set()

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        try:
            while self.has_events or not self.closed:
                await self.wait()
                for event in self.take():
                    yield event
        finally:
            self.close()

    def _update_readable(self) -> None:
        """Make readers wait if there are no unread events."""
        if not self.has_events and not self.closed:
            self._readable.clear()

    def _on_change(self, change: Change) -> None:
        self.version = change.version
        if (event := _event_for(self._selector.matches, change, everything=self._selector.everything)) is not None:
            self._put(event)

    def _put(self, event: WatchEvent) -> None:
        self._events.append(event)
        self._size += len(event.stored.data)
        self._readable.set()
        if self._size > BUFFER_BYTES and len(self._events) > 1:
            self._initial.clear()
            self._events.clear()
            self.close()


def _event_for(matches: Callable[[Stored], bool], change: Change, *, everything: bool) -> WatchEvent | None:
    """The event that a change means for a selector: an object that starts to match is ADDED, one that stops is DELETED."""
    if everything:
        return WatchEvent(change.type, change.stored, change.line)
    now = change.type != "DELETED" and matches(change.stored)
    before = change.before is not None and matches(change.before)
    if now:
        kind: Literal["ADDED", "MODIFIED"] = "MODIFIED" if before else "ADDED"
        return WatchEvent(kind, change.stored, change.line if kind == change.type else b"")
    return WatchEvent("DELETED", change.stored, change.line if change.type == "DELETED" else b"") if before else None
