"""Collection: the objects of one resource as encoded JSON, with the recent changes for watches.

Objects are encoded once, when they are written, and decoded by each reader. Readers therefore can't modify each other's
objects, lists and watches need no encoding, and Python's garbage collector has nothing to traverse.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from linkwise.embedded.api_errors import expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkwise.embedded.kinds.builtin import Resource

__all__ = ["Change", "Collection", "Key", "Raw", "Stored", "encode", "stored_of"]

Raw = dict[str, Any]
Key = tuple[str, str]
"""namespace and name"""

HISTORY_LENGTH: Final = 10_000
"""changes kept per resource; an older resourceVersion gets 410 Expired"""
HISTORY_BYTES: Final = 48 << 20

encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_EMPTY: Final[Mapping[str, str]] = {}
_FIELD_DEFAULTS: Final = {"spec.unschedulable": "false"}
"""field selector values of unset fields"""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One object at one resourceVersion."""

    namespace: str
    name: str
    uid: str
    version: int
    data: bytes
    labels: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Namespace and name: the sort order of lists."""
        return self.namespace, self.name

    def read(self) -> Raw:
        """Decode the object; the caller owns the copy."""
        return cast("Raw", _decode(self.data))

    def field(self, name: str) -> str:
        """The value that field selectors compare."""
        if name == "metadata.name":
            return self.name
        return self.namespace if name == "metadata.namespace" else self.fields.get(name, "")


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write: added, modified or deleted."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    before: Stored | None
    line: bytes
    """the watch event as clients without a selector receive it"""

    @property
    def version(self) -> int:
        """The resourceVersion of the write."""
        return self.stored.version

    @property
    def size(self) -> int:
        """Bytes that the history holds for this change alone."""
        return len(self.line) + (len(self.before.data) if self.before else 0)


class Collection:
    """All objects of one resource in list order, and the most recent changes."""

    def __init__(self, version: int, history: int = HISTORY_LENGTH) -> None:
        self.objects: dict[Key, Stored] = {}
        self.log: deque[Change] = deque()
        self.oldest = version
        """the oldest resourceVersion that a watch can start from"""
        self.newest = version
        self.listeners: set[Callable[[Change], None]] = set()
        self._keys: list[Key] = []
        self._history, self._bytes = history, 0

    def put(self, stored: Stored) -> Change:
        """Add an object, or replace it with a new version."""
        before = self.objects.get(stored.key)
        if before is None:
            insort(self._keys, stored.key)
        self.objects[stored.key] = stored
        return self._record("MODIFIED" if before else "ADDED", stored, before)

    def remove(self, last: Stored) -> Change:
        """Remove an object; `last` is its final state, at the resourceVersion of the delete."""
        before = self.objects.pop(last.key)
        del self._keys[bisect_left(self._keys, last.key)]
        return self._record("DELETED", last, before)

    def page(self, namespace: str = "", after: Key | None = None, version: int | None = None) -> Iterator[Stored]:
        """Objects in list order after a key: the current ones, or those at a resourceVersion (ApiError 410 if too old)."""
        earlier = self._objects_before(version) if version is not None and version < self.newest else {}
        keys = sorted({*self._keys, *earlier}) if earlier else self._keys
        begin = bisect_right(keys, after) if after else bisect_left(keys, (namespace, ""))
        end = bisect_left(keys, (namespace + "\0", "")) if namespace else len(keys)
        for key in keys[begin:end]:
            stored = earlier[key] if key in earlier else self.objects[key]
            if stored is not None:
                yield stored

    def since(self, version: int) -> list[Change]:
        """All changes after a resourceVersion; ApiError 410 if it is too old."""
        if version < self.oldest:
            raise expired(f"too old resource version: {version} ({self.oldest})")
        changes = []
        for change in reversed(self.log):
            if change.version <= version:
                break
            changes.append(change)
        return changes[::-1]

    def forget(self, version: int) -> None:
        """Drop the history, so that no watch can start before this resourceVersion."""
        self.log.clear()
        self._bytes, self.oldest = 0, version

    def _record(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], stored: Stored, before: Stored | None) -> Change:
        line = b'{"type":"%s","object":%s}\n' % (kind.encode("ascii"), stored.data)
        change = Change(kind, stored, before, line)
        self.log.append(change)
        self.newest, self._bytes = stored.version, self._bytes + change.size
        while len(self.log) > self._history or (self._bytes > HISTORY_BYTES and len(self.log) > 1):
            dropped = self.log.popleft()
            self._bytes -= dropped.size
            self.oldest = dropped.version
        for listener in tuple(self.listeners):
            listener(change)
        return change

    def _objects_before(self, version: int) -> dict[Key, Stored | None]:
        """For each object changed since a resourceVersion, its state at that version; None if it did not exist."""
        return {change.stored.key: change.before for change in reversed(self.since(version))}


def stored_of(resource: Resource, document: Raw, version: int) -> Stored:
    """Encode an object at a resourceVersion, with its labels and selectable fields."""
    meta = document["metadata"]
    if version:
        meta["resourceVersion"] = str(version)
    return Stored(
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        version,
        encode(document),
        meta.get("labels") or _EMPTY,
        {
            name: value
            for name, path in resource.selectable_fields.items()
            if (value := _field_value(document, path) or _FIELD_DEFAULTS.get(name))
        }
        if resource.selectable_fields
        else _EMPTY,
    )


def _field_value(document: Raw, path: tuple[str, ...]) -> str:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
