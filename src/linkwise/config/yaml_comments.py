"""YAML with comments, which no library of ours writes: plain data, and notes by the places that they stand before."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["commented"]

WIDTH: Final = 100
_NEVER: Final = 10**6  # characters after which a scalar goes on in the next line
_FEW, _SHORT = 3, 80
_PARTS: Final = (dict, list, tuple)


def commented(document: Mapping[str, object], notes: Mapping[str, str], head: str = "") -> str:
    """The document in YAML; a note stands before the place it names, such as `extenders[0].weight`."""
    lines = [*_comment(head, ""), *_lines(document, "", notes, "")]
    return "\n".join(lines) + "\n"


def _lines(value: object, path: str, notes: Mapping[str, str], indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            at = f"{path}.{key}" if path else str(key)
            yield from _comment(notes.get(at, ""), indent)
            if short := _words(inner):
                yield f"{indent}{_scalar(key)}: {short}"
            elif isinstance(inner, _PARTS) and inner:
                yield f"{indent}{_scalar(key)}:"
                yield from _lines(inner, at, notes, indent + "  ")
            else:
                yield f"{indent}{_scalar(key)}: {_scalar(inner)}"
    elif isinstance(value, list | tuple) and value:
        for number, item in enumerate(value):
            at = f"{path}[{number}]"
            yield from _comment(notes.get(at, ""), indent)
            if short := _on_one_line(item, at, notes):
                yield f"{indent}- {short}"
            else:
                yield from _dashed(list(_lines(item, at, notes, indent + "  ")), indent)
    else:
        yield f"{indent}{_scalar(value)}"


def _dashed(lines: list[str], indent: str) -> Iterator[str]:
    """An item of a list: comments on its first key stand before the dash."""
    first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("# "))
    yield from (line[2:] for line in lines[:first])
    yield f"{indent}- {lines[first][len(indent) + 2 :]}"
    yield from lines[first + 1 :]


def _comment(text: str, indent: str) -> Iterator[str]:
    for paragraph in text.splitlines():
        yield from wrap(
            paragraph, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False
        )


def _on_one_line(item: object, path: str, notes: Mapping[str, str]) -> str:
    """`{name: amd.com/gpu, weight: 1}`; empty if it has parts, or notes on its parts, or is too long."""
    plain = isinstance(item, dict) and len(item) <= _FEW and not any(isinstance(part, _PARTS) for part in item.values())
    if not plain or any(place.startswith(f"{path}.") for place in notes):
        return ""
    text = _scalar(item)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _words(value: object) -> str:
    """`[get, list, watch]`; empty if it is no short list of texts."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        return ""
    text = _scalar(value)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _scalar(value: object) -> str:
    quotes = '"' if isinstance(value, str) and not value.isprintable() else None  # all of it on one line
    text: str = yaml.safe_dump(value, default_flow_style=True, default_style=quotes, width=_NEVER, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
