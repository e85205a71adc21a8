"""What is wrong with a document, in the words of its writer."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["plain_words"]

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
