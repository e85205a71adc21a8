"""Requests to the API server: path, query parameters and body, in JSON, YAML or protobuf."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import msgspec
import yaml

from linkwise.embedded.api_errors import bad_request, no_such_path, unknown_format
from linkwise.embedded.kinds.protobuf import PROTOBUF, decode_object
from linkwise.embedded.storage.collection import encode
from linkwise.embedded.users import ANONYMOUS
from linkwise.net.http.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Stored
    from linkwise.net.http.messages import Request

__all__ = [
    "MAX_BODY_BYTES",
    "YAML",
    "ApiRequest",
    "RequestPath",
    "decode_body",
    "decode_document",
    "json_response",
    "list_response",
    "parse_path",
    "with_warnings",
]

CHUNK_SIZE: Final = 200
"""objects of a list sent before other tasks get the event loop"""
MAX_WARNINGS: Final = 4096
"""characters of all warnings of a response, above which long ones are cut, as kube-apiserver does"""
MAX_LONG_WARNING: Final = 256  # characters
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
MAX_BODY_BYTES: Final = 3 << 20
YAML: Final = "application/yaml"
_MAX_DEPTH: Final = 200
_MAX_VALUES: Final = 500_000
"""per document"""


class ApiRequest:
    """A request as the API server reads it."""

    def __init__(self, request: Request) -> None:
        self.method: Final = request.method
        self.path: Final = request.path
        self.client: Final = request.client
        self.body: Final = request.body
        parameters = parse_qs(request.query, keep_blank_values=True)
        self.query: Final = {key: values[-1] for key, values in parameters.items()}
        self.requester = ANONYMOUS
        """set once the request is authenticated"""
        self.warnings: Final[list[str]] = []
        """of admission webhooks, for the client"""
        self._request = request

    @property
    def is_watch(self) -> bool:
        """Whether the request is a watch."""
        return self.method == "GET" and self.flag("watch")

    @property
    def verb(self) -> str:
        """The method, or WATCH."""
        return "WATCH" if self.is_watch else self.method

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def raw_query(self) -> str:
        """The query, not decoded."""
        return self._request.query

    @property
    def headers(self) -> dict[bytes, bytes]:
        """All headers, by lower-case name."""
        return self._request.headers

    def header(self, name: str) -> str:
        """The value of a header, by lower-case name; empty if there is none."""
        return self._request.header(name.encode())

    def flag(self, name: str) -> bool:
        """Whether a boolean query parameter is true."""
        return self.query.get(name, "") in {"1", "true", "True", "TRUE", "t", "T"}

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects."""
        await self._request.gone.wait()


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """The response with Warning headers, which kubectl prints."""
    if not warnings:
        return response
    if sum(map(len, warnings)) > MAX_WARNINGS:
        warnings = [warning[:MAX_LONG_WARNING] for warning in warnings]
    headers = tuple(("Warning", f"299 - {_quoted(warning)}") for warning in warnings)
    return replace(response, headers=(*response.headers, *headers))


def _quoted(warning: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in warning)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.encode().decode("latin-1")  # UTF-8 on the wire


def json_response(document: object, status: int = 200, media_type: str = JSON, retry_after: int = 0) -> Response:
    """A JSON response."""
    headers = (("retry-after", str(retry_after)),) if retry_after else ()
    return Response(encode(document), status, media_type, headers)


def list_response(prefix: bytes, items: list[Stored], encode_items: Callable[[list[Stored]], bytes]) -> Response:
    """A list of stored objects, sent in chunks so that a long list does not block other requests.

    `encode_items` encodes objects, separated by commas.
    """
    if len(items) <= CHUNK_SIZE:
        return Response(prefix + encode_items(items) + b"]}\n")

    async def chunks() -> AsyncGenerator[bytes, None]:
        separator = prefix
        for start in range(0, len(items), CHUNK_SIZE):
            yield separator + encode_items(items[start : start + CHUNK_SIZE])
            await asyncio.sleep(0)
            separator = b","
        yield b"]}\n"

    return Response(stream=chunks())


@dataclass(frozen=True, slots=True)
class RequestPath:
    """Resource, namespace, name and subresource of a path."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(kinds: Kinds, path: str) -> RequestPath:
    """Parse a path below /api or /apis; ApiError 404 if nothing is served there."""
    segments = path.strip("/").split("/")
    if segments[0] == "api" and len(segments) > 2:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[0] == "apis" and len(segments) > 3:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        raise no_such_path()
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (not group and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    resource = kinds.by_path(group, version, plural)
    if (namespace and not resource.namespaced) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return RequestPath(resource, namespace, name, subresource)


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
