"""Request bodies: decode JSON, YAML or protobuf; syntax errors name line and column."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import yaml

from linkwise.embedded.api_errors import bad_request, unknown_format
from linkwise.embedded.kinds.protobuf import PROTOBUF, decode_object
from linkwise.net.http.messages import JSON

__all__ = ["MAX_BODY_BYTES", "YAML", "decode_body", "decode_document"]

MAX_BODY_BYTES: Final = 3 << 20
YAML: Final = "application/yaml"
_MAX_DEPTH: Final = 200
_MAX_VALUES: Final = 500_000
"""per document"""


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: timestamps stay strings."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def decode_document(body: bytes, media_type: str) -> Any:  # noqa: ANN401 - JSON
    """Decode a body; ApiError 400 with line and column if it is malformed."""
    if media_type == PROTOBUF:
        return decode_object(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_request(f"the body is not valid UTF-8: byte {error.start}") from error
    is_yaml = media_type == YAML or media_type.endswith("+yaml")
    if not is_yaml and media_type != JSON and not media_type.endswith("+json"):
        raise unknown_format((JSON, YAML, PROTOBUF))
    return _decode_yaml(text) if is_yaml and body.lstrip()[:1] not in {b"{", b"["} else _decode_json(body, text)


def decode_body(body: bytes, media_type: str) -> dict[str, Any]:
    """Decode a body that must be an object."""
    document = decode_document(body, media_type or JSON)
    if not isinstance(document, dict):
        raise bad_request(f"couldn't get version/kind; the body must be an object, not {type(document).__name__}")
    return document


def _decode_json(body: bytes, text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        line, column, problem = _locate_error(text, error)
        raise bad_request(
            f"couldn't get version/kind; json parse error: line {line}, column {column}: {problem}"
        ) from error


def _locate_error(text: str, error: Exception) -> tuple[int, int, str]:
    """Line and column of a JSON syntax error; msgspec only reports the byte offset."""
    try:
        json.loads(text)
    except json.JSONDecodeError as json_error:
        return json_error.lineno, json_error.colno, json_error.msg
    except RecursionError:
        return 1, 1, "nested too deeply"
    return 1, 1, str(error)


def _decode_yaml(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, with fewer types
        _check_values(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise bad_request(f"yaml: {position}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"yaml: {error}") from error
    return document


def _check_values(document: object) -> None:
    """Accept only JSON values, and reject alias bombs."""
    stack, count = [(document, 0)], 0
    while stack:
        value, depth = stack.pop()
        count += 1
        if depth > _MAX_DEPTH or count > _MAX_VALUES:
            raise ValueError("the document is nested too deeply or too large")
        if isinstance(value, dict):
            if invalid := [key for key in value if not isinstance(key, str)]:
                raise ValueError(f"the key {invalid[0]!r} is not a string")
            stack += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            stack += [(inner, depth + 1) for inner in value]
        elif value is not None and not isinstance(value, (str, int, float)):
            raise ValueError(f"{value!r} is not a JSON value")
