"""Which of the kinds that we would read the API server has, under which path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError
from linkwise.kube.errors import ForbiddenError
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


_GROUP: Final = msgspec.json.Decoder(_Group)
_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_OPEN_API: Final = msgspec.json.Decoder(_OpenApi)
_SCHEMA: Final = msgspec.json.Decoder(_Schema)


async def find_path(connection: Connection, kind: Kind, wait: float) -> str:
    """The path of the list; empty if the server has no such kind."""
    if not kind.group:
        return _path(f"/api/{kind.version}", kind)
    body = await _read(connection, f"/apis/{kind.group}", wait)
    if body is None:
        return ""
    try:
        group = _GROUP.decode(body)
        versions = [group.preferred_version.version, *(found.version for found in group.versions)]
        for version in dict.fromkeys(filter(None, versions)):
            place = f"/apis/{kind.group}/{version}"
            listed = await _read(connection, place, wait)
            if listed and any(found.name == kind.resource for found in _RESOURCES.decode(listed).resources or ()):
                return _path(place, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"{connection.server} does not say what it has in /apis/{kind.group}: {error}") from error
    return ""


async def prunes_topologies(connection: Connection, path: str, wait: float) -> bool | None:
    """Whether the kind of this list loses `spec.topologies`, because its schema does not know it; None if nobody says."""
    place, _, _ = path.rpartition("/")
    body = await _read(connection, f"/openapi/v3{place}", wait)
    if body is None:
        return None
    try:
        for raw in _OPEN_API.decode(body).components.schemas.values():
            schema = _SCHEMA.decode(raw)
            if any(found.get("kind") == "Device" for found in schema.kinds):
                spec = schema.properties.get("spec", _Schema(preserve=True))
                return not (spec.preserve or "topologies" in spec.properties)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False  # a schema that is written otherwise tells nothing
    return None


def _path(place: str, kind: Kind) -> str:
    inside = f"/namespaces/{quote(kind.namespace)}" if kind.namespace else ""
    return f"{place}{inside}/{kind.resource}"


async def _read(connection: Connection, path: str, wait: float) -> bytes | None:
    """What is there; None if nothing is."""
    answer = await connection.call("GET", path, wait=wait)
    if answer.status == 200:
        return answer.body
    if answer.status == 404:
        return None
    said = status_of(answer.body).message
    if answer.status == 403:
        raise ForbiddenError(f"may not get {path}: {said}; every user may with the role system:discovery")
    raise ClusterError(f"{connection.server} answers GET {path} with {answer.status} {said}")
