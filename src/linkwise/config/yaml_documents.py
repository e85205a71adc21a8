"""YAML documents: parsed into nodes that know their line, and written with comments."""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import yaml
from yaml.constructor import SafeConstructor

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = [
    "comment_lines",
    "content_of",
    "duplicate_keys",
    "fault_of",
    "is_null",
    "pairs",
    "place_of",
    "plain",
    "root_of",
    "yaml_with_comments",
]

_MAX_BYTES: Final = 1 << 20  # no configuration file is larger; /dev/zero has no end
WIDTH: Final = 100
_NO_WRAP: Final = 10**6  # line width that no scalar reaches
_FEW, _SHORT = 3, 80
_PARTS: Final = (dict, list, tuple)


def content_of(file: Path) -> bytes:
    """The content of a file, or of standard input for `-`; InputError if it can't be read."""
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    if len(content) > _MAX_BYTES:
        raise InputError(f"{file}: the file is larger than 1 MiB")
    return content


def root_of(content: bytes, name: str) -> yaml.Node | None:
    """The single document of a file, None if it is empty; InputError names file, line and column."""
    if content.lstrip()[:1] == b"{":
        content = content.replace(b"\t", b" ")  # JSON may be indented by tabs, which YAML does not allow
    try:
        documents = list(yaml.compose_all(content, yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        raise InputError(f"{name}{place}: not valid YAML: {sentence}") from error
    if len(documents) > 1:
        raise InputError(f"{name}:{place_of(documents[1])}: expected a single YAML document")
    return None if not documents or is_null(documents[0]) else documents[0]


def fault_of(error: Exception) -> tuple[str, str]:
    """The place (`:2:1`, or empty) and the one-line message of a YAML error."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f":{mark.line + 1}:{mark.column + 1}" if mark else "", str(error.problem or error.context)
    if isinstance(error, yaml.reader.ReaderError):
        return "", f"{error.reason} at byte {error.position}"
    if isinstance(error, RecursionError):
        return "", "it is nested too deeply"
    if "integer string conversion" in str(error):  # the rest of the message is for Python programmers
        return "", "a number in it has too many digits"
    return "", " ".join(str(error).split())


def place_of(node: yaml.Node) -> str:
    """Line and column, as editors count them."""
    return f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def is_null(node: yaml.Node) -> bool:
    """Whether it is null, such as the value of `key:`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def pairs(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Keys of a mapping: their text, their node and the node of their value."""
    for key, value in node.value:
        yield (key.value if isinstance(key, yaml.ScalarNode) else "?"), key, value


def duplicate_keys(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, int]]:
    """Repeated keys, with their node and the line of the first occurrence."""
    first: dict[str, int] = {}
    for name, key, _ in pairs(node):
        line = key.start_mark.line + 1
        if name in first:
            yield name, key, first[name]
        first.setdefault(name, line)


def plain(node: yaml.Node, depth: int = 8) -> object:
    """A node as plain data; ValueError if a scalar is invalid or the nesting is too deep."""
    if not depth:
        raise ValueError("nested too deeply")
    if isinstance(node, yaml.MappingNode):
        return {name: plain(value, depth - 1) for name, _, value in pairs(node)}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item, depth - 1) for item in node.value]
    try:
        return SafeConstructor().construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"it can't be read: {getattr(error, 'problem', None) or error}") from error


def yaml_with_comments(document: Mapping[str, object], notes: Mapping[str, str], head: str = "") -> str:
    """The document as YAML; each note precedes the path it is given for, such as `extenders[0].weight`."""
    lines = [*comment_lines(head, ""), *_lines(document, "", notes, "")]
    return "\n".join(lines) + "\n"


def comment_lines(text: str, indent: str) -> Iterator[str]:
    """Lines of a comment, one paragraph per line of the text."""
    for paragraph in text.splitlines():
        yield from wrap(
            paragraph, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ", break_on_hyphens=False
        )


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


def _flow_list(value: object) -> str:
    """Flow style such as `[get, list, watch]`; empty unless it is a short list of strings."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        return ""
    text = _scalar(value)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _scalar(value: object) -> str:
    quotes = '"' if isinstance(value, str) and not value.isprintable() else None  # keeps it on one line
    text: str = yaml.safe_dump(value, default_flow_style=True, default_style=quotes, width=_NO_WRAP, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _block(value: object) -> list[str]:
    """Lines of a text of several, for the literal style; empty for any other value, and where the style would not be exact."""
    lines = value.split("\n") if isinstance(value, str) else []
    plain = all(line.isprintable() and line.strip() and line == line.rstrip() for line in lines)
    return lines if len(lines) > 1 and plain and not lines[0].startswith(" ") else []


def _on_one_line(item: object, path: str, notes: Mapping[str, str]) -> str:
    """Flow style such as `{name: amd.com/gpu, weight: 1}`; empty for nested, annotated or long items."""
    plain = isinstance(item, dict) and len(item) <= _FEW and not any(isinstance(part, _PARTS) for part in item.values())
    if not plain or any(place.startswith(f"{path}.") for place in notes):
        return ""
    text = _scalar(item)
    return text if len(text) <= _SHORT and "\n" not in text else ""


def _dashed(lines: list[str], indent: str) -> Iterator[str]:
    """An item of a list; comments on its first key precede the dash."""
    first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("# "))
    yield from (line[2:] for line in lines[:first])
    yield f"{indent}- {lines[first][len(indent) + 2 :]}"
    yield from lines[first + 1 :]
