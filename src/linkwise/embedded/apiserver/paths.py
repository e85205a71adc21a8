"""API paths: resource, namespace, name and subresource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import no_such_path

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds

__all__ = ["RequestPath", "parse_path"]

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestPath:
    """Resource, namespace, name and subresource of a path."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(kinds: Kinds, path: str) -> RequestPath:
    """Parse a path below /api or /apis; ApiError 404 if nothing is served there."""
    segments = path.strip("/").split("/")
    if segments[0] == "api" and len(segments) > 2:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[0] == "apis" and len(segments) > 3:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        raise no_such_path()
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (not group and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    resource = kinds.by_path(group, version, plural)
    if (namespace and not resource.namespaced) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return RequestPath(resource, namespace, name, subresource)
