"""JSON decoded as one type; what is wrong is an InputError that names the place."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding__words import plain_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["decode_as", "once", "parse_json", "within"]

T = TypeVar("T")

_PATH: Final = re.compile(r"(?P<index>\[)?[\w.\[\]-]+: ")
"""how a sentence begins that names a place"""


def decode_as(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """The document as that type; JSON can also be cut off, be no UTF-8, or be nested without end."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(plain_words(error)) from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deep") from error


def parse_json(data: bytes) -> object:
    """The document as plain data; several times as fast as Python's own reader."""
    return decode_as(data, object)


@contextmanager
def within(place: str) -> Iterator[None]:
    """Name the place in front of what is wrong inside."""
    try:
        yield
    except InputError as error:
        path = _PATH.match(str(error))
        joint = ": " if path is None else "" if path["index"] else "."
        raise InputError(f"{place}{joint}{error}") from error


def once(names: Iterable[str], place: str, what: str) -> None:
    """Refuse two of one name."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise InputError(f"{place}[{number}]: {what} {name!r} stands here twice")
        seen.add(name)
