"""The objects of one kind as they are kept: encoded once for all who list and watch, and what changed lately.

Objects are kept as JSON and read anew by whoever wants to look inside. So nobody can change what another one holds, lists
and watches cost no encoding, and a hundred thousand objects are no work for the garbage collector.
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

KEPT: Final = 10_000
"""changes that a watch can begin at"""
KEPT_BYTES: Final = 48 << 20

encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_NONE: Final[Mapping[str, str]] = {}
_UNSET: Final = {"spec.unschedulable": "false"}
"""what a field selector finds where nothing is written"""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """One object at one version."""

    namespace: str
    name: str
    uid: str
    version: int
    data: bytes
    labels: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """By which lists are ordered."""
        return self.namespace, self.name

    def read(self) -> Raw:
        """The object, for the reader alone."""
        return cast("Raw", _decode(self.data))

    def field(self, name: str) -> str:
        """What a field selector compares."""
        if name == "metadata.name":
            return self.name
        return self.namespace if name == "metadata.namespace" else self.fields.get(name, "")


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Something that happened to one object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    before: Stored | None
    line: bytes
    """as a watch tells it to those who see all"""

    @property
    def version(self) -> int:
        """When."""
        return self.stored.version

    @property
    def size(self) -> int:
        """What is kept of it alone, in bytes."""
        return len(self.line) + (len(self.before.data) if self.before else 0)


class Collection:
    """All objects of one kind, in order, and the last changes."""

    def __init__(self, version: int, kept: int = KEPT) -> None:
        self.objects: dict[Key, Stored] = {}
        self.log: deque[Change] = deque()
        self.oldest = version
        """whoever saw this version can be told all that came after it"""
        self.newest = version
        self.listeners: set[Callable[[Change], None]] = set()
        self._keys: list[Key] = []
        self._kept, self._bytes = kept, 0

    def put(self, stored: Stored) -> Change:
        """Add an object or a new version of one."""
        before = self.objects.get(stored.key)
        if before is None:
            insort(self._keys, stored.key)
        self.objects[stored.key] = stored
        return self._changed("MODIFIED" if before else "ADDED", stored, before)

    def remove(self, last: Stored) -> Change:
        """Take an object away; `last` is what it was, at the version at which it went."""
        before = self.objects.pop(last.key)
        del self._keys[bisect_left(self._keys, last.key)]
        return self._changed("DELETED", last, before)

    def page(self, namespace: str = "", after: Key | None = None, version: int | None = None) -> Iterator[Stored]:
        """Objects in order, behind a key; as they are now, or as they were at a version (RefusedError if too old)."""
        undone = self._undone(version) if version is not None and version < self.newest else {}
        keys = sorted({*self._keys, *undone}) if undone else self._keys
        begin = bisect_right(keys, after) if after else bisect_left(keys, (namespace, ""))
        end = bisect_left(keys, (namespace + "\0", "")) if namespace else len(keys)
        for key in keys[begin:end]:
            found = undone[key] if key in undone else self.objects[key]
            if found is not None:
                yield found

    def since(self, version: int) -> list[Change]:
        """All changes after a version; RefusedError if that is too long ago."""
        if version < self.oldest:
            raise expired(f"too old resource version: {version} ({self.oldest})")
        found = []
        for change in reversed(self.log):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]

    def forget(self, version: int) -> None:
        """Know of nothing that happened up to now."""
        self.log.clear()
        self._bytes, self.oldest = 0, version

    def _changed(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], stored: Stored, before: Stored | None) -> Change:
        line = b'{"type":"%s","object":%s}\n' % (kind.encode("ascii"), stored.data)
        change = Change(kind, stored, before, line)
        self.log.append(change)
        self.newest, self._bytes = stored.version, self._bytes + change.size
        while len(self.log) > self._kept or (self._bytes > KEPT_BYTES and len(self.log) > 1):
            gone = self.log.popleft()
            self._bytes -= gone.size
            self.oldest = gone.version
        for listener in tuple(self.listeners):
            listener(change)
        return change

    def _undone(self, version: int) -> dict[Key, Stored | None]:
        """What was there instead at a version, of all that changed since."""
        return {change.stored.key: change.before for change in reversed(self.since(version))}


def stored_of(resource: Resource, document: Raw, version: int) -> Stored:
    """An object as it is kept, at a version."""
    meta = document["metadata"]
    if version:
        meta["resourceVersion"] = str(version)
    return Stored(
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        version,
        encode(document),
        meta.get("labels") or _NONE,
        {name: found for name, path in resource.fields.items() if (found := _at(document, path) or _UNSET.get(name))}
        if resource.fields
        else _NONE,
    )


def _at(document: Raw, path: tuple[str, ...]) -> str:
    found: Any = document
    for word in path:
        found = found.get(word) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)
