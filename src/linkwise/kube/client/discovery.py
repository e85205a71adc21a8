"""Discovery: the path under which the API server serves a watched kind, and whether its schema prunes fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

import msgspec

from linkwise import __version__
from linkwise.dialects.linkwise.inventory import API_VERSION
from linkwise.errors import ClusterError
from linkwise.kube.errors import ForbiddenError, OtherReleaseError
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

__all__ = ["Kind", "find_path", "prunes_topologies"]


class Kind(Protocol):
    """A kind to look for."""

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        ...

    @property
    def version(self) -> str:
        """The version in the core group; discovery finds that of the others."""
        ...

    @property
    def resource(self) -> str:
        """The plural, as in the path."""
        ...

    @property
    def namespace(self) -> str:
        """The only namespace to list; empty for all."""
        ...


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    versions: list[_Version] = []
    preferred_version: _Version = msgspec.field(default_factory=_Version)


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Schema(msgspec.Struct):
    properties: dict[str, _Schema] = {}
    preserve: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    kinds: list[dict[str, str]] = msgspec.field(default_factory=list, name="x-kubernetes-group-version-kind")


class _Components(msgspec.Struct):
    schemas: dict[str, msgspec.Raw] = {}


class _OpenApi(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


OWN_GROUP, OWN_VERSION = API_VERSION.split("/")
"""of our own CustomResourceDefinitions, whose other versions can't be read"""

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_GROUP: Final = msgspec.json.Decoder(_Group)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_OPEN_API: Final = msgspec.json.Decoder(_OpenApi)
_SCHEMA: Final = msgspec.json.Decoder(_Schema)


async def find_path(connection: Connection, kind: Kind, wait: float) -> str:
    """The list path of a kind; empty if the API server does not serve it.

    OtherReleaseError if it is one of our own kinds and served in other versions only.
    """
    if not kind.group:
        return _path(f"/api/{kind.version}", kind)
    body = await _read(connection, f"/apis/{kind.group}", wait)
    if body is None:
        return ""
    try:
        group = _GROUP.decode(body)
        versions = [group.preferred_version.version, *(each.version for each in group.versions)]
        if kind.group == OWN_GROUP:
            versions.sort(key=lambda version: version != OWN_VERSION)
        for version in dict.fromkeys(filter(None, versions)):
            root = f"/apis/{kind.group}/{version}"
            resources = await _read(connection, root, wait)
            if resources and any(each.name == kind.resource for each in _RESOURCES.decode(resources).resources or ()):
                if kind.group == OWN_GROUP and version != OWN_VERSION:
                    raise OtherReleaseError(_other_release(kind, version))
                return _path(root, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        server = connection.server
        raise ClusterError(f"{server}: invalid discovery document at /apis/{kind.group}: {error}") from error
    return ""


async def prunes_topologies(connection: Connection, path: str, wait: float) -> bool | None:
    """Whether the schema of Koordinator's Device prunes `spec.topologies`; None if no schema is published."""
    root, _, _ = path.rpartition("/")
    body = await _read(connection, f"/openapi/v3{root}", wait)
    if body is None:
        return None
    try:
        for raw in _OPEN_API.decode(body).components.schemas.values():
            schema = _SCHEMA.decode(raw)
            if any(kind.get("kind") == "Device" for kind in schema.kinds):
                spec = schema.properties.get("spec", _Schema(preserve=True))
                return not (spec.preserve or "topologies" in spec.properties)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False  # no warning about a schema in another format
    return None


def _other_release(kind: Kind, version: str) -> str:
    """Why a kind that is served in this version can't be read, and what to do."""
    later = _age(version) > _age(OWN_VERSION)
    remedy = (
        "it is of a later release, which reads it: install that"
        if later
        else "it is of an earlier release; `linkwise manifests crd | kubectl apply --server-side -f -` updates it"
    )
    name = f"{kind.resource}.{kind.group}"
    return f"CustomResourceDefinition {name} serves {version}, but Linkwise {__version__} reads {OWN_VERSION}: {remedy}"


def _age(version: str) -> tuple[int, str, int]:
    """Versions of an API in the order in which they appear: v1alpha1, v1alpha2, v1beta1, v1, v2alpha1."""
    found = _VERSION.fullmatch(version)
    return (int(found[1]), found[2] or "stable", int(found[3] or 0)) if found else (0, "", 0)


def _path(root: str, kind: Kind) -> str:
    inside = f"/namespaces/{quote(kind.namespace)}" if kind.namespace else ""
    return f"{root}{inside}/{kind.resource}"


async def _read(connection: Connection, path: str, wait: float) -> bytes | None:
    """GET a document; None if it does not exist."""
    answer = await connection.call("GET", path, wait=wait)
    if answer.status == 200:
        return answer.body
    if answer.status == 404:
        return None
    message = status_of(answer.body).message
    if answer.status == 403:
        raise ForbiddenError(f"may not get {path}: {message}; the cluster role system:discovery grants it")
    raise ClusterError(f"{connection.server}: GET {path} failed: {answer.status} {message}")
