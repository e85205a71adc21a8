"""JSON decoding into one type; errors name the field and the expected type in the terms of the document."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MOST_VALUES",
    "at_place",
    "check_unique",
    "check_values",
    "convert_to",
    "decode_as",
    "decode_with",
    "describe_error",
    "parse_json",
    "within",
]

T = TypeVar("T")

MOST_VALUES: Final = 3_000_000
"""values in a call of a scheduler; 12,000 whole nodes have a third of that"""
_PATH: Final = re.compile(r"(?P<index>\[)?[\w.\[\]-]+: ")
"""the field path at the start of an error message"""


def decode_as(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode a document; InputError if it is truncated, not UTF-8, nested too deeply, or of another type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(describe_error(error)) from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply") from error


def decode_with(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode a document with a decoder made before; InputError as from `decode_as`."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise InputError(describe_error(error)) from error
    except UnicodeDecodeError as error:
        raise InputError("the JSON is not valid UTF-8") from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply") from error


def convert_to(document: object, kind: type[T]) -> T:
    """Convert plain data; InputError names the invalid field."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise InputError(describe_error(error)) from error


def parse_json(data: bytes) -> object:
    """Decode a document into plain data; several times as fast as the standard library."""
    return decode_as(data, object)


@contextmanager
def within(place: str) -> Iterator[None]:
    """Prefix the path of an InputError raised inside."""
    try:
        yield
    except InputError as error:
        raise at_place(place, str(error)) from error


def at_place(place: str, sentence: str) -> InputError:
    """The error at a place; a path that the sentence starts with continues it."""
    path = _PATH.match(sentence)
    separator = ": " if path is None else "" if path["index"] else "."
    return InputError(f"{place}{separator}{sentence}" if place else sentence)


def check_values(data: bytes, most: int = MOST_VALUES) -> None:
    """Raise InputError for a call with more values than any real one, by its commas: decoding them would hold the event loop."""
    if len(data) > 2 * most and data.count(b",") > most:
        raise InputError(f"the call has more than {most} values, which is the limit")


def check_unique(names: Iterable[str], place: str, what: str) -> None:
    """Raise InputError for a duplicate name."""
    earlier: set[str] = set()
    for number, name in enumerate(names):
        if name in earlier:
            raise InputError(f"{place}[{number}]: duplicate: {what} {name!r} is listed before")
        earlier.add(name)


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


def describe_error(error: Exception) -> str:
    """A msgspec message with the field first and JSON types spelled out."""
    match = _PLACE.fullmatch(str(error))
    text, where = (match["what"], match["where"]) if match else (str(error), None)
    text = re.sub(r"Expected `([^`]*)`", lambda kind: f"expected {_type_name(kind[1])}", text)
    text = re.sub(r"got `([^`]*)`", lambda kind: f"got {_type_name(kind[1])}", text)
    for pattern, phrase in _PHRASES.items():
        text = re.sub(pattern, phrase, text)
    return f"{where}: {text}" if where else text


def _type_name(kinds: str) -> str:
    if kinds in _TYPES:
        return _TYPES[kinds]
    return " or ".join(_TYPES.get(kind, kind) for kind in kinds.split(" | "))
