"""All kinds that are served now, found by path, by name, or by what an object says it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import no_such_path
from linkwise.embedded.kinds.builtin import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["Column", "Kinds", "Served"]


@dataclass(frozen=True, slots=True)
class Column:
    """What a list of a custom kind shows beside the name."""

    name: str
    kind: str
    path: str
    wide: bool = False
    """whether only those see it who ask for more"""


@dataclass(frozen=True, slots=True)
class Served:
    """A kind under one version, and what its definition says of it."""

    resource: Resource
    columns: tuple[Column, ...] = ()
    schema: Raw | None = None


class Kinds:
    """What is served; a kind with several versions keeps its objects under the first of them."""

    def __init__(self) -> None:
        self._served: dict[str, list[Served]] = {}
        for resource in BUILT_IN:
            self.put(resource.full, [Served(resource)])

    def put(self, full: str, served: Iterable[Served]) -> None:
        """Serve a kind; the version in which its objects are kept comes first."""
        self._served[full] = list(served)

    def drop(self, full: str) -> None:
        """Serve it no more."""
        self._served.pop(full, None)

    def at(self, group: str, version: str, plural: str) -> Resource:
        """What is served under a path; RefusedError if nothing is."""
        full = f"{plural}.{group}" if group else plural
        for served in self._served.get(full, ()):
            if served.resource.version == version:
                return served.resource
        raise no_such_path()

    def named(self, full: str) -> Resource:
        """A kind by its name, such as pods or jobs.batch, in the version in which it is kept."""
        found = self._served.get(full)
        if not found:
            raise no_such_path()
        return found[0].resource

    def kept_as(self, resource: Resource) -> Resource:
        """The same kind in the version in which it is kept."""
        return self._served[resource.full][0].resource

    def of(self, api_version: str, kind: str) -> Resource | None:
        """What an object says it is; None if that is not served."""
        for resource in self:
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def told(self, resource: Resource) -> Served:
        """What the definition says."""
        return next(served for served in self._served[resource.full] if served.resource == resource)

    def __iter__(self) -> Iterator[Resource]:
        for found in self._served.values():
            for served in found:
                yield served.resource

    def groups(self) -> dict[str, list[str]]:
        """The versions of every group but the core, in the order in which they are preferred."""
        found: dict[str, list[str]] = {}
        for resource in self:
            if resource.group and resource.version not in found.setdefault(resource.group, []):
                found[resource.group].append(resource.version)
        return found

    def within(self, group: str, version: str) -> list[Resource]:
        """All kinds of a version."""
        return [resource for resource in self if (resource.group, resource.version) == (group, version)]
