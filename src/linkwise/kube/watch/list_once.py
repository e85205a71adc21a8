"""A cluster read once: every source listed page by page, and what can't be read is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.discovery import find_path
from linkwise.kube.errors import AbsentError, ExpiredError, ForbiddenError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import NODES, SOURCES
from linkwise.wire.kubernetes.watch_stream import head_of, page_of, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.kinds import WatchedKind

__all__ = ["Listed", "list_all"]

TRIES: Final = 3
"""lists that are begun anew because the server no longer has the version that their first page is of"""


@dataclass(slots=True)
class Listed:
    """What is there, as a watch would show it."""

    sights: list[WatchEvent] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """of nodes inside the cluster, by their names"""
    problems: list[str] = field(default_factory=list)
    """what could not be read, and why: the answer may lack it"""


class _Address(msgspec.Struct):
    type: str = ""
    address: str = ""


class _Status(msgspec.Struct):
    addresses: list[_Address] | None = None


class _Node(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_NODE: Final = msgspec.json.Decoder(_Node)


async def list_all(
    connection: Connection, settings: WatchSettings | None = None, sources: Sequence[WatchedKind] = SOURCES
) -> Listed:
    """All that the broker reads; ClusterError if pods or nodes can't be read, and what else can't is told beside it."""
    settings = settings or WatchSettings()
    # Nodes come first and alone: a server that does not answer is told once.
    first = [source for source in sources if source is NODES]
    rest = [source for source in sources if source is not NODES]
    found = [await _list(connection, source, settings) for source in first]
    found += await asyncio.gather(*(_list(connection, source, settings) for source in rest))
    listed = Listed()
    for one in found:
        listed.sights += one.sights
        listed.addresses |= one.addresses
        listed.problems += one.problems
    return listed


async def _list(connection: Connection, source: WatchedKind, settings: WatchSettings) -> Listed:
    """One source; nothing if the server has no such kind."""
    for left in reversed(range(TRIES)):
        try:
            path = await find_path(connection, source, settings.wait)
            return await _read(connection, source, path, settings) if path else Listed()
        except AbsentError:
            return Listed()
        except ExpiredError:
            if not left:
                raise
        except ClusterError as error:
            if source.required:
                raise
            return Listed(problems=[str(error)])
    raise AssertionError("a list has an end")


async def _read(connection: Connection, source: WatchedKind, path: str, settings: WatchSettings) -> Listed:
    listed, rest = Listed(), ""
    while True:
        asked = f"{path}?limit={settings.page}" + (f"&continue={quote(rest, safe='')}" if rest else "")
        answer = await connection.call("GET", asked, wait=settings.wait)
        if answer.status != 200:
            raise _refused(connection, source, answer.status, status_of(answer.body).message)
        try:
            page = page_of(answer.body)
        except InputError as error:
            raise ClusterError(f"{connection.server} answers GET {asked} with no list: {error}") from error
        for document in page.items:
            _take(listed, source, document)
        rest = page.rest
        if not rest:
            return listed


def _take(listed: Listed, source: WatchedKind, document: msgspec.Raw) -> None:
    """What one object says; one that can't be read spoils nothing but itself."""
    try:
        head = head_of(document)
    except InputError as error:
        listed.problems.append(f"{source.name}: an object can't be told by name: {error}")
        return
    if not source.counts(head):
        return
    seen = source.there(document, head)
    if seen.sight is not None:
        listed.sights.append(seen.sight)
    if seen.wrong:
        name = f"{head.namespace}/{head.name}" if head.namespace else head.name
        listed.problems.append(f"{source.name} {name} can't be read: {seen.wrong}")
    if source is NODES and (address := _address(document)):
        listed.addresses[head.name] = address


def _address(document: msgspec.Raw) -> str:
    try:
        found = _NODE.decode(document).status.addresses or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return next((one.address for one in found if one.type == "InternalIP"), "")


def _refused(connection: Connection, source: WatchedKind, status: int, said: str) -> ClusterError:
    if status == 410:
        return ExpiredError(f"{connection.server} ends the list of {source.name} before its end: {said}")
    if status == 404 and not source.required:
        return AbsentError(f"{source.name} is not served")
    where = f" in namespace {source.namespace}" if source.namespace else ""
    if status == 401:
        return ClusterError(f"{connection.server} does not know who asks (401 {said}): log in again, as for kubectl")
    if status == 403:
        return ForbiddenError(
            f"may not list {source.name}{where}: {said}; to ask about this, one needs the verb list on {source.name}"
        )
    return ClusterError(f"{connection.server} refuses to list {source.name}{where}: {status} {said}")
