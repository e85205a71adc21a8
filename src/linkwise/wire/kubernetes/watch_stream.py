"""List pages and watch streams of the API server; their objects stay raw JSON until they are decoded.

So an invalid object affects no other, and a page can be decoded in slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.metadata import Struct

__all__ = ["Change", "Head", "Lines", "RawPage", "Status", "change_of", "head_of", "page_of", "status_of"]


class Head(Struct):
    """Identity and resourceVersion of an object."""

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
    """The Status object of a failed request."""

    code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def denied(self) -> bool:
        """Whether admission denied the request, so that its message says why; the user may have the permission."""
        return "denied the request" in self.message or "denied request" in self.message


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a watch."""

    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`"""
    document: msgspec.Raw


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of a list, with raw objects."""

    items: list[msgspec.Raw]
    version: str
    """resourceVersion of the list"""
    rest: str
    """continue token; empty on the last page"""


class Lines:
    """Splits a byte stream into lines; an incomplete line is kept until its end arrives."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._partial.append(chunk)
            return []
        if self._partial:
            lines[0] = b"".join((*self._partial, lines[0]))
        last = lines.pop()
        self._partial = [last] if last else []
        return [line for line in lines if line]


def change_of(line: bytes) -> Change:
    """Decode a line of a watch; InputError if it is invalid."""
    event = decode_as(line, _Event)
    return Change(event.type, event.object)


def page_of(data: bytes) -> RawPage:
    """Decode a page of a list; InputError if it is invalid."""
    page = decode_as(data, _Page)
    return RawPage(page.items or [], page.metadata.resource_version, page.metadata.rest)


def head_of(document: msgspec.Raw) -> Head:
    """Identity of an object; InputError if its metadata is invalid."""
    return decode_as(document, _Headed).metadata


def status_of(data: bytes | msgspec.Raw) -> Status:
    """The Status of a response; of any other body, its first characters as the message."""
    try:
        return decode_as(data, Status)
    except InputError:
        return Status(message=bytes(data)[:200].decode("utf-8", "replace").strip())
