"""Survey of a cluster: lists and objects as plain JSON, where a missing right or an outage is an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.discovery import find_path
from linkwise.kube.errors import UnauthorizedError
from linkwise.net.http.client import NotSentError
from linkwise.wire.decoding import parse_json
from linkwise.wire.kubernetes.reviews import allowed_by, resource_access_review
from linkwise.wire.kubernetes.watch_stream import page_of, status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Answer, Connection

__all__ = ["Survey", "SurveyKind", "Surveyed"]

PAGE: Final = 500
WAIT: Final = 20.0  # seconds
PROXY_WAIT: Final = 10.0  # seconds
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SurveyKind:
    """A kind to read: the API group is empty for the core, the namespace for all."""

    group: str
    version: str
    resource: str
    namespace: str = ""

    @property
    def name(self) -> str:
        """As RBAC and kubectl write it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was read, or why it could not be."""

    items: tuple[Document, ...] = ()
    error: str = ""
    """with the verb to grant, if that is the reason"""
    cut: bool = False
    """whether there was more than could be read"""


class Survey:
    """Reads one cluster; NotSentError if it can't be reached, UnauthorizedError if it does not accept the credentials."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.date = ""
        """the Date header of the last answer"""

    async def list(self, kind: SurveyKind, query: str = "", pages: int = 0) -> Surveyed:
        """All objects of a kind, or as many pages of them; none if the kind is not served."""
        try:
            path = await self._path(kind)
            items: list[Document] = []
            token, left = "", pages or -1
            while path and left:
                left -= 1
                more = "&".join(
                    filter(None, (f"limit={PAGE}", query, f"continue={quote(token, safe='')}" if token else ""))
                )
                answer = await self._get(f"{path}?{more}")
                if answer.status == 404:
                    break
                if answer.status != 200:
                    return Surveyed(error=_refusal("list", kind, answer))
                page = page_of(answer.body)
                items += [_plain(item) for item in page.items]
                token = page.rest
                if not token:
                    break
        except (NotSentError, UnauthorizedError):
            raise
        except (ClusterError, InputError) as error:
            return Surveyed(error=f"{kind.name} can't be listed: {error}")
        return Surveyed(tuple(items), cut=bool(token))

    async def get(self, kind: SurveyKind, name: str) -> Surveyed:
        """One object; none if it does not exist."""
        try:
            path = await self._path(kind)
            answer = await self._get(f"{path}/{quote(name, safe='')}") if path else None
            if answer is None or answer.status == 404:
                return Surveyed()
            if answer.status != 200:
                return Surveyed(error=_refusal("get", kind, answer))
            return Surveyed((_plain(msgspec.Raw(answer.body)),))
        except (NotSentError, UnauthorizedError):
            raise
        except (ClusterError, InputError) as error:
            return Surveyed(error=f"{kind.name} {name} can't be read: {error}")

    async def text(self, path: str, what: str, right: str) -> tuple[int, str, str]:
        """Status and body of a path, and why it could not be read; `right` is what to grant."""
        try:
            answer = await self._connection.call("GET", path, wait=PROXY_WAIT)
        except ClusterError as error:
            return 0, "", f"{what} can't be read: {error}"
        body = answer.body.decode("utf-8", "replace")
        own = answer.content_type.startswith("application/json") and '"kind":"Status"' in body.replace(" ", "")
        if answer.status == 403 and own:
            return 403, "", f"may not read {what}: grant {right}"
        if own and answer.status >= 400:
            return answer.status, "", f"{what} does not answer: {status_of(answer.body).message}"
        return answer.status, body, ""

    async def may(self, user: str, attributes: Document) -> bool | str:
        """Whether a user may do something; the reason if that can't be asked."""
        try:
            answer = await self._connection.call("POST", _ACCESS, resource_access_review(user, attributes), wait=WAIT)
            if answer.status in {200, 201}:
                return allowed_by(answer.body)
        except (NotSentError, UnauthorizedError):
            raise
        except (ClusterError, InputError) as error:
            return f"SubjectAccessReviews can't be created: {error}"
        if answer.status == 403:
            return "may not create subjectaccessreviews.authorization.k8s.io: grant the verb create on it"
        return f"SubjectAccessReviews can't be created: {status_of(answer.body).message}"

    async def _path(self, kind: SurveyKind) -> str:
        """The path of a kind; that of a group with several versions is discovered."""
        if kind.group == "resource.k8s.io":
            return await find_path(self._connection, kind, WAIT)
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        inside = f"/namespaces/{quote(kind.namespace, safe='')}" if kind.namespace else ""
        return f"{root}{inside}/{kind.resource}"

    async def _get(self, path: str) -> Answer:
        answer = await self._connection.call("GET", path, wait=WAIT)
        self.date = answer.date or self.date
        return answer


def _plain(item: msgspec.Raw) -> Document:
    document = parse_json(bytes(item))
    return document if isinstance(document, dict) else {}


def _refusal(verb: str, kind: SurveyKind, answer: Answer) -> str:
    where = f" in namespace {kind.namespace}" if kind.namespace else ""
    if answer.status == 403:
        return f"may not {verb} {kind.name}{where}: grant the verb {verb} on {kind.name}"
    if answer.status == 401:
        raise UnauthorizedError(
            f"not authenticated (401 {status_of(answer.body).message}); log in again, as for kubectl"
        )
    return f"{kind.name}{where} can't be read: {answer.status} {status_of(answer.body).message}"
