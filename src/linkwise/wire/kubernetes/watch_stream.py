"""Lists and watches of the API server as bytes: pages and events are taken apart, objects stay JSON until they are read.

So one object that can't be read spoils nothing but itself, and a page can be read in slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.metadata import Struct

__all__ = ["Change", "Head", "Lines", "RawPage", "Status", "change_of", "head_of", "page_of", "status_of"]


class Head(Struct):
    """What an object is called."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Headed(Struct):
    metadata: Head = msgspec.field(default_factory=Head)


class _Event(Struct):
    type: str
    object: msgspec.Raw


class _PageMeta(Struct):
    resource_version: str = ""
    rest: str = msgspec.field(default="", name="continue")


class _Page(Struct):
    metadata: _PageMeta = msgspec.field(default_factory=_PageMeta)
    items: list[msgspec.Raw] | None = None


class Status(Struct):
    """What the server says of a request that it does not serve."""

    code: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a watch."""

    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`"""
    document: msgspec.Raw


@dataclass(frozen=True, slots=True)
class RawPage:
    """A part of a list, of objects that were not read yet."""

    items: list[msgspec.Raw]
    version: str
    rest: str


class Lines:
    """Whole lines out of pieces of bytes; what has no end yet is kept until it has."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that are whole with this piece."""
        lines = piece.split(b"\n")
        if len(lines) == 1:
            self._begun.append(piece)
            return []
        if self._begun:
            lines[0] = b"".join((*self._begun, lines[0]))
        last = lines.pop()
        self._begun = [last] if last else []
        return [line for line in lines if line]


def change_of(line: bytes) -> Change:
    """One line of a watch; InputError if it is none."""
    found = decode_as(line, _Event)
    return Change(found.type, found.object)


def page_of(data: bytes) -> RawPage:
    """A page of a list; InputError if it is none."""
    found = decode_as(data, _Page)
    return RawPage(found.items or [], found.metadata.resource_version, found.metadata.rest)


def head_of(document: msgspec.Raw) -> Head:
    """What an object is called; InputError if it has no name at all."""
    return decode_as(document, _Headed).metadata


def status_of(data: bytes | msgspec.Raw) -> Status:
    """What the server says went wrong; of what is no Status, the beginning of its text."""
    try:
        return decode_as(data, Status)
    except InputError:
        return Status(message=bytes(data)[:200].decode("utf-8", "replace").strip())
