"""Server-side apply: sends objects under the field manager `linkwise`; the API server merges them."""

from __future__ import annotations

import re
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
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource as the API server serves it."""

    version: str
    """apiVersion: v1, apps/v1"""
    kind: str
    plural: str
    namespaced: bool

    @property
    def shown(self) -> str:
        """As kubectl writes it before a name: pod, deployment.apps."""
        group = self.version.rpartition("/")[0]
        return f"{self.kind.lower()}.{group}" if group else self.kind.lower()

    def path(self, namespace: str, name: str) -> str:
        """API path of one object."""
        root = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        inside = f"/namespaces/{quote(namespace)}" if self.namespaced else ""
        return f"{root}{inside}/{self.plural}/{quote(name)}"


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one object."""

    name: str
    """as kubectl writes it: pod/train"""
    outcome: Outcome | None
    error: str = ""
    """why it was not applied"""
    warnings: tuple[str, ...] = ()
    """of the API server and of admission webhooks"""


@dataclass(slots=True)
class Applying:
    """Applies objects to one cluster."""

    connection: Connection
    dry: bool = False
    """server-side dry run"""
    force: bool = False
    """whether to take over fields that other managers own"""
    _kinds: dict[str, list[_Resource]] = field(default_factory=dict)

    async def kind(self, version: str, kind: str) -> Kind:
        """Look up a kind in discovery; ClusterError if it is not served."""
        if version not in self._kinds:
            self._kinds[version] = await self._served(version)
        resources = self._kinds[version]
        for one in resources:
            if one.kind == kind and "/" not in one.name:
                return Kind(version, kind, one.name, one.namespaced)
        near = get_close_matches(kind, {one.kind for one in resources}, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; is its CRD installed?"
        raise ClusterError(f'no matches for kind "{kind}" in version "{version}"{hint}')

    async def apply(self, kind: Kind, namespace: str, name: str, document: Mapping[str, Any]) -> Applied:
        """Apply one object; a refusal is a result, not an exception, since other objects may follow."""
        path, shown = kind.path(namespace, name), f"{kind.shown}/{name}"
        before = await self.connection.call("GET", path, wait=WAIT)
        if before.status not in {200, 404}:
            return Applied(shown, None, _refusal("get", kind, namespace, before))
        query = f"fieldManager={MANAGER}&fieldValidation=Strict"
        query += ("&dryRun=All" if self.dry else "") + ("&force=true" if self.force else "")
        body = msgspec.json.encode(document)
        answer = await self.connection.call("PATCH", f"{path}?{query}", body, APPLY, WAIT)
        warnings = tuple(filter(None, map(_warning, answer.warnings)))
        if answer.status not in {200, 201}:
            return Applied(shown, None, _refusal("patch", kind, namespace, answer), warnings)
        if answer.status == 201 or before.status == 404:
            return Applied(shown, "created", warnings=warnings)
        return Applied(shown, "unchanged" if _version(before) == _version(answer) else "configured", warnings=warnings)

    async def _served(self, version: str) -> list[_Resource]:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = await self.connection.call("GET", quote(path), wait=WAIT)
        if answer.status == 404:
            return []
        server, message = self.connection.server, status_of(answer.body).message
        if answer.status == 403:
            raise ClusterError(f"may not get {path}: {message}; the cluster role system:discovery grants it")
        if answer.status == 401:
            raise ClusterError(f"{server}: not authenticated (401 {message}); log in again, as for kubectl")
        if answer.status != 200:
            raise ClusterError(f"{server}: GET {path} failed: {answer.status} {message}")
        try:
            return _RESOURCES.decode(answer.body).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{server}: invalid discovery document at {path}: {error}") from error


def _refusal(verb: str, kind: Kind, namespace: str, answer: Answer) -> str:
    status = status_of(answer.body)
    message = status.message or f"the API server answered {answer.status}"
    if answer.status == 403 and not status.denied:
        where = f" in namespace {namespace}" if kind.namespaced else ""
        return f"may not {verb} {kind.plural}{where}: {message}"
    if answer.status == 409:
        return f"{message}; --force-conflicts takes these fields over"
    return message


def _warning(header: str) -> str:
    """The text of a Warning header; empty if it is not one of the API server."""
    found = _WARNING.match(header)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else ""


def _version(answer: Answer) -> str:
    try:
        return _OBJECT.decode(answer.body).metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
