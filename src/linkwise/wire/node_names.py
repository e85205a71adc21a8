"""Node names of a call, decoded lazily.

kube-scheduler names every node that passes its own filters, thousands in a large cluster. The best node is almost always one
of them, so that searching its name in the JSON answers the call; decoding all names takes several times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, overload

import msgspec

__all__ = ["NodeNames", "is_searchable"]

SHORT: Final = 4096
"""bytes of JSON that are decoded at once"""
_NAME: Final = re.compile(r"[a-z0-9.-]+")
"""the characters of names in Kubernetes"""


def is_searchable(text: bytes) -> bool:
    """Whether each name appears in the JSON as it is, between quotes: a long flat array without escapes."""
    return (
        len(text) > SHORT
        and text.startswith(b'["')
        and text.isascii()
        and not any(sign in text for sign in (b"\\", b"{"))
        and text.find(b"[", 1) < 0
    )


class NodeNames(Sequence[str]):
    """The names in a searchable JSON array; elements that are not strings name no node."""

    __slots__ = ("_count", "_names", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._names: list[str] | None = None
        self._count: int | None = None

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        if self._names is None and isinstance(name, str) and _NAME.fullmatch(name):
            # Quotes delimit the names, so that such a text between two of them is one.
            return f'"{name}"'.encode() in self._text
        return name in self._decoded()

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        if self._count is None:
            self._count = self._text.count(b'"') // 2
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._decoded()[index]

    def __repr__(self) -> str:
        return repr(self._decoded())

    def _decoded(self) -> list[str]:
        if self._names is None:
            try:
                self._names = _NAMES.decode(self._text)
            except msgspec.ValidationError:
                self._names = [name for name in msgspec.json.decode(self._text) if isinstance(name, str)]
        return self._names


_NAMES: Final = msgspec.json.Decoder(list[str])
