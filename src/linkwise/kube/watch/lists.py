"""Lists, page by page, of one kind or of a cluster once; objects and kinds that can't be read are reported as problems."""

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
    from collections.abc import AsyncIterator, Sequence

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.kinds import WatchedKind
    from linkwise.wire.kubernetes.watch_stream import RawPage, Status

__all__ = ["ClusterList", "Lister", "list_all"]

MAX_ATTEMPTS: Final = 3
"""at a list whose continue token expires (410 Gone) before its last page"""

_WHOLE_CLUSTER: Final = (
    "this command reads the whole cluster, while `linkwise get`, `linkwise describe` and `linkwise explain` ask the service"
    " for what your rights cover"
)
"""for users with rights in single namespaces, who should not need more"""


@dataclass(slots=True)
class ClusterList:
    """All listed objects, as the watch events that would announce them."""

    events: list[WatchEvent] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """InternalIP of nodes, by name"""
    problems: list[str] = field(default_factory=list)
    """what could not be read, and why; answers may lack it"""


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
) -> ClusterList:
    """List every watched kind; ClusterError if a required one fails, otherwise its problem is reported."""
    settings = settings or WatchSettings()
    # Nodes come first and alone, so that an unreachable API server is reported once.
    first = [source for source in sources if source is NODES]
    rest = [source for source in sources if source is not NODES]
    lists = [await _list(connection, source, settings) for source in first]
    lists += await asyncio.gather(*(_list(connection, source, settings) for source in rest))
    total = ClusterList()
    for one in lists:
        total.events += one.events
        total.addresses |= one.addresses
        total.problems += one.problems
    return total


async def _list(connection: Connection, source: WatchedKind, settings: WatchSettings) -> ClusterList:
    """List one kind; empty if the API server does not serve it."""
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            path = await find_path(connection, source, settings.wait)
            return await _read(connection, source, path, settings) if path else ClusterList()
        except AbsentError:
            return ClusterList()
        except ExpiredError:
            if not left:
                raise
        except ClusterError as error:
            if source.required:
                raise
            return ClusterList(problems=[str(error)])
    raise AssertionError("the last attempt returns or raises")


async def _read(connection: Connection, source: WatchedKind, path: str, settings: WatchSettings) -> ClusterList:
    result = ClusterList()
    remedy = _WHOLE_CLUSTER if source.required else f"grant the verb list on {source.name}"
    lister = Lister(connection, source, path, settings, remedy)
    async for page in lister.pages():
        for document in page.items:
            _add(result, source, document)
    return result


def _add(result: ClusterList, source: WatchedKind, document: msgspec.Raw) -> None:
    """Decode one object; one that can't be read becomes a problem and affects no other."""
    try:
        head = head_of(document)
    except InputError as error:
        result.problems.append(f"{source.name}: an object without readable metadata: {error}")
        return
    if not source.is_relevant(head):
        return
    decoded = source.decode(document, head)
    if decoded.event is not None:
        result.events.append(decoded.event)
    if decoded.error:
        name = f"{head.namespace}/{head.name}" if head.namespace else head.name
        result.problems.append(f"{source.name} {name} can't be read: {decoded.error}")
    if source is NODES and (address := _address(document)):
        result.addresses[head.name] = address


def _address(document: msgspec.Raw) -> str:
    try:
        addresses = _NODE.decode(document).status.addresses or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return next((one.address for one in addresses if one.type == "InternalIP"), "")


@dataclass(frozen=True, slots=True)
class Lister:
    """Reads the list of one kind."""

    connection: Connection
    source: WatchedKind
    path: str
    """from discovery"""
    settings: WatchSettings
    remedy: str = ""
    """what to do about a missing permission; by default, where to find the role"""

    async def pages(self) -> AsyncIterator[RawPage]:
        """All pages; without a resourceVersion they are a quorum read of the current state."""
        token = ""
        while True:
            page = await self.page(self.settings.page, token)
            yield page
            if not (token := page.rest):
                return

    async def page(self, limit: int, token: str = "") -> RawPage:
        """One page; `token` is the continue token of the page before."""
        url = f"{self.path}?limit={limit}{self.source.selection}"
        url += f"&continue={quote(token, safe='')}" if token else ""
        answer = await self.connection.call("GET", url, wait=self.settings.wait)
        if answer.status != 200:
            raise self.error("list", answer.status, status_of(answer.body))
        try:
            return page_of(answer.body)
        except InputError as error:
            server = self.connection.server
            raise ClusterError(f"{server}: the response to GET {url} is not a list: {error}") from error

    def error(self, verb: str, code: int, status: Status) -> ClusterError:
        """The error for a list or watch that was refused."""
        server, name, message = self.connection.server, self.source.name, status.message
        if code == 410 or status.reason in {"Expired", "Gone"}:
            return ExpiredError(f"{name}: the resourceVersion has expired: {message}")
        if code == 404 and not self.source.required:  # every API server serves pods and nodes: that is an outage
            return AbsentError(f"{name} is not served")
        where = f" in namespace {self.source.namespace}" if self.source.namespace else ""
        if status.denied:
            return ClusterError(message)
        if code == 403:
            role = f"grant list and watch on it (`{self.source.role_command}` prints the role)"
            return ForbiddenError(f"may not {verb} {name}{where}: {message}; {self.remedy or role}")
        if code == 401:
            return ClusterError(f"{server}: not authenticated (401 {message}); log in again, as for kubectl")
        return ClusterError(f"{server}: {verb} of {name}{where} failed: {code} {message}")
