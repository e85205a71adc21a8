"""Lists of one kind, page by page, and the errors of its list and watch requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from linkwise.errors import ClusterError, InputError
from linkwise.kube.errors import AbsentError, ExpiredError, ForbiddenError
from linkwise.wire.kubernetes.watch_stream import page_of, status_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from linkwise.kube.client.api import Connection
    from linkwise.kube.settings import WatchSettings
    from linkwise.kube.watch.kinds import WatchedKind
    from linkwise.wire.kubernetes.watch_stream import RawPage, Status

__all__ = ["Lister"]


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
