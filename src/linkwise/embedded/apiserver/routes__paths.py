"""Paths of the API taken apart: which kind, in which namespace, which object, which part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import no_such_path

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds

__all__ = ["Place", "place_of"]

_OF_SPACES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Place:
    """What a path means."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    part: str = ""


def place_of(kinds: Kinds, path: str) -> Place:
    """What a path below /api or /apis means; RefusedError if it means nothing."""
    words = path.strip("/").split("/")
    if words[0] == "api" and len(words) > 2:
        group, version, rest = "", words[1], words[2:]
    elif words[0] == "apis" and len(words) > 3:
        group, version, rest = words[1], words[2], words[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (not group and len(rest) == 3 and rest[2] in _OF_SPACES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        raise no_such_path()
    plural, name, part = (*rest, "", "")[:3]
    resource = kinds.at(group, version, plural)
    if (namespace and not resource.namespaced) or (name and resource.namespaced and not namespace):
        raise no_such_path()
    return Place(resource, namespace, name, part)
