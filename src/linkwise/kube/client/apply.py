"""Objects sent to the API server by server-side apply: it joins what is told with what others wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["Applied", "Applying", "Kind", "Outcome"]

APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "linkwise"
WAIT: Final = 30.0  # seconds

Outcome = Literal["created", "configured", "unchanged"]


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_OBJECT: Final = msgspec.json.Decoder(_Object)


@dataclass(frozen=True, slots=True)
class Kind:
    """What the server calls objects of a kind, and where they are."""

    version: str
    """with its group: v1, apps/v1"""
    kind: str
    plural: str
    namespaced: bool

    @property
    def shown(self) -> str:
        """As kubectl writes it before a name: pod, deployment.apps."""
        group = self.version.rpartition("/")[0]
        return f"{self.kind.lower()}.{group}" if group else self.kind.lower()

    def path(self, namespace: str, name: str) -> str:
        """Of one object."""
        place = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        inside = f"/namespaces/{quote(namespace)}" if self.namespaced else ""
        return f"{place}{inside}/{self.plural}/{quote(name)}"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one object."""

    name: str
    """as kubectl writes it: pod/train"""
    outcome: Outcome | None
    error: str = ""
    """why nothing was done"""


@dataclass(slots=True)
class Applying:
    """Sends objects to one cluster."""

    connection: Connection
    dry: bool = False
    """whether the server only says what it would do"""
    force: bool = False
    """whether fields that others own are taken from them"""
    _kinds: dict[str, list[_Resource]] = field(default_factory=dict)

    async def kind(self, version: str, kind: str) -> Kind:
        """How the server calls a kind; ClusterError if it has none of that name."""
        if version not in self._kinds:
            self._kinds[version] = await self._served(version)
        found = self._kinds[version]
        for one in found:
            if one.kind == kind and "/" not in one.name:
                return Kind(version, kind, one.name, one.namespaced)
        near = get_close_matches(kind, {one.kind for one in found}, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; is its definition installed?"
        raise ClusterError(f'no matches for kind "{kind}" in version "{version}"{hint}')

    async def apply(self, kind: Kind, namespace: str, name: str, document: Mapping[str, Any]) -> Applied:
        """Send one object; what the server says against it is no exception, since others may follow."""
        path, shown = kind.path(namespace, name), f"{kind.shown}/{name}"
        before = await self.connection.call("GET", path, wait=WAIT)
        if before.status not in {200, 404}:
            return Applied(shown, None, _said("get", kind, namespace, before))
        asked = f"fieldManager={MANAGER}&fieldValidation=Strict"
        asked += ("&dryRun=All" if self.dry else "") + ("&force=true" if self.force else "")
        answer = await self.connection.call("PATCH", f"{path}?{asked}", _json(document), APPLY, WAIT)
        if answer.status not in {200, 201}:
            return Applied(shown, None, _said("patch", kind, namespace, answer))
        if answer.status == 201 or before.status == 404:
            return Applied(shown, "created")
        return Applied(shown, "unchanged" if _version(before) == _version(answer) else "configured")

    async def _served(self, version: str) -> list[_Resource]:
        place = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = await self.connection.call("GET", quote(place), wait=WAIT)
        if answer.status == 404:
            return []
        said = status_of(answer.body).message
        if answer.status == 403:
            raise ClusterError(f"may not get {place}: {said}; every user may with the role system:discovery")
        if answer.status == 401:
            raise ClusterError(f"{self.connection.server} does not know who asks (401 {said}): log in again")
        if answer.status != 200:
            raise ClusterError(f"{self.connection.server} answers GET {place} with {answer.status} {said}")
        try:
            return _RESOURCES.decode(answer.body).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{self.connection.server} does not say what it has in {place}: {error}") from error


def _json(document: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(document)


def _said(verb: str, kind: Kind, namespace: str, answer: Answer) -> str:
    said = status_of(answer.body).message or f"the server answers {answer.status}"
    if answer.status == 403:
        where = f" in namespace {namespace}" if kind.namespaced else ""
        return f"may not {verb} {kind.plural}{where}: {said}"
    if answer.status == 409:
        return f"{said}; --force-conflicts takes these fields over"
    return said


def _version(answer: Answer) -> str:
    try:
        return _OBJECT.decode(answer.body).metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
