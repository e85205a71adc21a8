"""YAML writer with comments: plain data, and notes by the path they precede; PyYAML can't write comments."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["comment_lines", "yaml_with_comments"]

WIDTH: Final = 100
_NO_WRAP: Final = 10**6  # line width that no scalar reaches
_FEW, _SHORT = 3, 80
_PARTS: Final = (dict, list, tuple)


def yaml_with_comments(document: Mapping[str, object], notes: Mapping[str, str], head: str = "") -> str:
    """The document as YAML; each note precedes the path it is given for, such as `extenders[0].weight`."""
    lines = [*comment_lines(head, ""), *_lines(document, "", notes, "")]
    return "\n".join(lines) + "\n"


def _lines(value: object, path: str, notes: Mapping[str, str], indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            at = f"{path}.{key}" if path else str(key)
            yield from comment_lines(notes.get(at, ""), indent)
            if short := _flow_list(inner):
                yield f"{indent}{_scalar(key)}: {short}"
            elif block := _block(inner):
                yield f"{indent}{_scalar(key)}: |-"
                yield from (f"{indent}  {line}" for line in block)
            elif isinstance(inner, _PARTS) and inner:
                yield f"{indent}{_scalar(key)}:"
                yield from _lines(inner, at, notes, indent + "  ")
            else:
                yield f"{indent}{_scalar(key)}: {_scalar(inner)}"
    elif isinstance(value, list | tuple) and value:
        for number, item in enumerate(value):
            at = f"{path}[{number}]"
            yield from comment_lines(notes.get(at, ""), indent)
            if short := _on_one_line(item, at, notes):
                yield f"{indent}- {short}"
            else:
                yield from _dashed(list(_lines(item, at, notes, indent + "  ")), indent)
    else:
        yield f"{indent}{_scalar(value)}"


def _dashed(lines: list[str], indent: str) -> Iterator[str]:
    """An item of a list; comments on its first key precede the dash."""
    first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("# "))
    yield from (line[2:] for line in lines[:first])
    yield f"{indent}- {lines[first][len(indent) + 2 :]}"
    yield from lines[first + 1 :]


def comment_lines(text: str, indent: str) -> Iterator[str]:
    """Lines of a comment, one paragraph per line of the text."""
    for paragraph in text.splitlines():
        yield from wrap(
            paragraph, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False
        )


def _on_one_line(item: object, path: str, notes: Mapping[str, str]) -> str:
    """Flow style such as `{name: amd.com/gpu, weight: 1}`; empty for nested, annotated or long items."""
    plain = isinstance(item, dict) and len(item) <= _FEW and not any(isinstance(part, _PARTS) for part in item.values())
    if not plain or any(place.startswith(f"{path}.") for place in notes):
        return ""
    text = _scalar(item)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _flow_list(value: object) -> str:
    """Flow style such as `[get, list, watch]`; empty unless it is a short list of strings."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        return ""
    text = _scalar(value)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _block(value: object) -> list[str]:
    """Lines of a text of several, for the literal style; empty for any other value, and where the style would not be exact."""
    lines = value.split("\n") if isinstance(value, str) else []
    plain = all(line.isprintable() and line.strip() and line == line.rstrip() for line in lines)
    return lines if len(lines) > 1 and plain and not lines[0].startswith(" ") else []


def _scalar(value: object) -> str:
    quotes = '"' if isinstance(value, str) and not value.isprintable() else None  # keeps it on one line
    text: str = yaml.safe_dump(value, default_flow_style=True, default_style=quotes, width=_NO_WRAP, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
