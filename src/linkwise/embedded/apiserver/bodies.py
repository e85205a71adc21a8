"""Bodies of requests: read whole, no longer than any object may be, as JSON or YAML; what is broken is said with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from linkwise.embedded.api_errors import bad_request, too_large, unknown_format
from linkwise.embedded.kinds.protobuf import PROTOBUF, decode_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

__all__ = ["JSON", "LARGEST", "YAML", "document_of", "object_of", "read_body"]

LARGEST: Final = 3 << 20
JSON: Final = "application/json"
YAML: Final = "application/yaml"
_DEEPEST: Final = 200
_MOST: Final = 500_000
"""values in one object"""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: what looks like a time is a text."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


async def read_body(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], length: str) -> bytes:
    """The whole body; RefusedError if it is too long."""
    if length.isdecimal() and int(length) > LARGEST:
        raise too_large(LARGEST)
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the client is gone")
        parts.append(part := message.get("body", b""))
        size += len(part)
        if size > LARGEST:
            raise too_large(LARGEST)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def document_of(body: bytes, kind: str) -> Any:  # noqa: ANN401 - JSON
    """What a body says; RefusedError with line and column if it says nothing."""
    if kind == PROTOBUF:
        return decode_object(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_request(f"the body is no UTF-8: byte {error.start}") from error
    plain = kind == YAML or kind.endswith("+yaml")
    if not plain and kind != JSON and not kind.endswith("+json"):
        raise unknown_format((JSON, YAML, PROTOBUF))
    return _yaml(text) if plain and body.lstrip()[:1] not in {b"{", b"["} else _json(body, text)


def object_of(body: bytes, kind: str) -> dict[str, Any]:
    """The object in a body."""
    found = document_of(body, kind or JSON)
    if not isinstance(found, dict):
        raise bad_request(f"couldn't get version/kind; the body is no object but {type(found).__name__}")
    return found


def _json(body: bytes, text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        line, column, said = _place(text, error)
        raise bad_request(
            f"couldn't get version/kind; json parse error: line {line}, column {column}: {said}"
        ) from error


def _place(text: str, error: Exception) -> tuple[int, int, str]:
    """Where JSON breaks off: msgspec counts bytes only, the standard library tells lines and columns."""
    try:
        json.loads(text)
    except json.JSONDecodeError as found:
        return found.lineno, found.colno, found.msg
    except RecursionError:
        return 1, 1, "nested too deeply"
    return 1, 1, str(error)


def _yaml(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, with fewer kinds of values
        _check_values(found)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise bad_request(f"yaml: {place}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"yaml: {error}") from error
    return found


def _check_values(found: object) -> None:
    """Only what JSON has; aliases may not make a small text a large object."""
    waiting, count = [(found, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST:
            raise ValueError("nested too deeply, or too much of it")
        if isinstance(value, dict):
            if strange := [key for key in value if not isinstance(key, str)]:
                raise ValueError(f"the key {strange[0]!r} is no text")
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
        elif value is not None and not isinstance(value, (str, int, float)):
            raise ValueError(f"{value!r} can't be written as JSON")
