"""Requests to the API server, with its query parameters, and the responses it sends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from linkwise.embedded.storage.collection import encode
from linkwise.embedded.users import ANONYMOUS
from linkwise.net.http.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from linkwise.embedded.storage.collection import Stored
    from linkwise.net.http.messages import Request

__all__ = ["ApiRequest", "json_response", "list_response", "with_warnings"]

CHUNK_SIZE: Final = 200
"""objects of a list sent before other tasks get the event loop"""
MAX_WARNINGS: Final = 4096
"""characters of all warnings of a response, above which long ones are cut, as kube-apiserver does"""
MAX_LONG_WARNING: Final = 256  # characters


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
