"""YAML and JSON files as trees whose every part knows its line and column."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import yaml
from yaml.constructor import SafeConstructor

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["content_of", "fault_of", "is_nothing", "pairs", "place_of", "plain", "root_of", "twice"]


_MOST: Final = 1 << 20  # bytes that somebody may have written; a device or a wrong file has no end


def content_of(file: Path) -> bytes:
    """What a file holds, `-` for standard input; InputError if it can't be read."""
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(_MOST + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(_MOST + 1)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    if len(content) > _MOST:
        raise InputError(f"{file}: it is larger than 1 MiB, which no such file is")
    return content


def root_of(content: bytes, name: str) -> yaml.Node | None:
    """The one document of a file, None if it is empty; InputError names file, line and column."""
    if content.lstrip()[:1] == b"{":
        content = content.replace(b"\t", b" ")  # JSON is indented by tabs as well, and has them nowhere else
    try:
        found = list(yaml.compose_all(content, yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        raise InputError(f"{name}{place}: not valid YAML: {sentence}") from error
    if len(found) > 1:
        raise InputError(f"{name}:{place_of(found[1])}: a second document; there must be one")
    return None if not found or is_nothing(found[0]) else found[0]


def fault_of(error: Exception) -> tuple[str, str]:
    """What a reader of YAML found wrong, in one line, and where: `:2:1`, or nothing if it does not tell."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return f":{mark.line + 1}:{mark.column + 1}" if mark else "", str(error.problem or error.context)
    if isinstance(error, yaml.reader.ReaderError):
        return "", f"{error.reason} at byte {error.position}"
    if isinstance(error, RecursionError):
        return "", "it is nested too deeply"
    if "integer string conversion" in str(error):  # the rest of it is for who writes Python
        return "", "a number in it has too many digits"
    return "", " ".join(str(error).split())


def place_of(node: yaml.Node) -> str:
    """Line and column, as editors count them."""
    return f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def is_nothing(node: yaml.Node) -> bool:
    """Whether it is an empty value: `key:` and nothing behind it."""
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def pairs(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Keys as texts, with their own places and their values."""
    for key, value in node.value:
        yield (key.value if isinstance(key, yaml.ScalarNode) else "?"), key, value


def twice(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, int]]:
    """Keys that stood there before, each with its place and the line of the first."""
    first: dict[str, int] = {}
    for name, key, _ in pairs(node):
        line = key.start_mark.line + 1
        if name in first:
            yield name, key, first[name]
        first.setdefault(name, line)


def plain(node: yaml.Node, depth: int = 8) -> object:
    """What a node holds, as Python has it; ValueError if a scalar makes no sense or it goes too deep."""
    if not depth:
        raise ValueError("it goes too deep")
    if isinstance(node, yaml.MappingNode):
        return {name: plain(value, depth - 1) for name, _, value in pairs(node)}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item, depth - 1) for item in node.value]
    try:
        return SafeConstructor().construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"it can't be read: {getattr(error, 'problem', None) or error}") from error
