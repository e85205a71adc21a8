"""JSON decoded as one type; what is wrong is an InputError that names the place.

What is wrong with a document, in the words of its writer.
"""
# Joined from decoding, words: one docstring for all.

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["decode_as", "once", "parse_json", "plain_words", "within"]

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


_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<where>[^`]*)`)?", re.DOTALL)
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "int | float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}


_PHRASES: Final = {
    r"Object missing required field `(.*)`": r"field '\1' is missing",
    r"Object contains unknown field `(.*)`": r"field '\1' is not known",
    r"Invalid (?:enum )?value ('.*')": r"\1 is not known",
}


def plain_words(error: Exception) -> str:
    """A decoder's message with the field in front and types as people call them."""
    found = _PLACE.fullmatch(str(error))
    what, where = (found["what"], found["where"]) if found else (str(error), None)
    said = re.sub(r"Expected `([^`]*)`", lambda kind: f"expected {_named(kind[1])}", what)
    said = re.sub(r"got `([^`]*)`", lambda kind: f"got {_named(kind[1])}", said)
    for told, better in _PHRASES.items():
        said = re.sub(told, better, said)
    return f"{where}: {said}" if where else said


def _named(kinds: str) -> str:
    if kinds in _TYPES:
        return _TYPES[kinds]
    return " or ".join(_TYPES.get(kind, kind) for kind in kinds.split(" | "))
