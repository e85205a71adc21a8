"""Lists: whole or page by page, as of now or as of a version that is still known."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, expired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Key, Stored
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.storage.selectors import Selection

__all__ = ["Asked", "Page", "list_page"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """How much of a list is wanted."""

    limit: int = 0
    """0 for all"""
    rest: str = ""
    """a token of the page before"""
    version: str = ""
    match: str = ""
    """`Exact`, `NotOlderThan` or nothing"""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: list[Stored]
    version: int
    rest: str = ""


class _Token(msgspec.Struct, array_like=True):
    version: int
    namespace: str
    name: str


def list_page(shelves: Database, resource: Resource, chosen: Selection, asked: Asked) -> Page:
    """The page that is asked for; RefusedError if it can't be had any more."""
    version, after, exact = _place(shelves, asked)
    found = shelves.shelf(resource).page(chosen.namespace, after, version if exact else None)
    try:
        return _cut(found, chosen, asked.limit, version)
    except ApiError as error:
        if error.code == 410 and asked.rest:
            raise expired(_TOO_OLD) from error
        raise


def _cut(found: Iterator[Stored], chosen: Selection, limit: int, version: int) -> Page:
    every = chosen.everything or not (chosen.labels or chosen.fields)
    meant = found if every else (stored for stored in found if chosen.holds(stored))
    if not limit:
        return Page(list(meant), version)
    items: list[Stored] = []
    for stored in meant:
        if len(items) == limit:
            last = items[-1]
            rest = base64.urlsafe_b64encode(msgspec.json.encode(_Token(version, last.namespace, last.name)))
            return Page(items, version, rest.decode("ascii").rstrip("="))
        items.append(stored)
    return Page(items, version)


def _place(shelves: Database, asked: Asked) -> tuple[int, Key | None, bool]:
    """The version of a list, where it goes on, and whether it shows what was then and not what is now."""
    if asked.rest:
        if asked.version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _token(asked.rest)
        return token.version, (token.namespace, token.name), True
    version = version_of(asked.version)
    if asked.match and asked.match not in {"Exact", "NotOlderThan"}:
        raise bad_request(f'resourceVersionMatch: Unsupported value: "{asked.match}"')
    if asked.match and not asked.version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if version > shelves.version:
        # The real server waits for that version for some seconds; nothing but this server's own writes can bring it.
        raise ApiError(504, "Timeout", f"Timeout: Too large resource version: {version}, current: {shelves.version}")
    if asked.match == "Exact":
        if not version:
            raise bad_request('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"')
        return version, None, True
    return shelves.version, None, False


def version_of(text: str) -> int:
    """A version as requests name it; 0 if they name none."""
    if text and not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise bad_request(f'resourceVersion: Invalid value: "{text}": a resource version is a number')
    return int(text or 0)


def _token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise bad_request("continue key is not valid: it was not made by this server") from error
