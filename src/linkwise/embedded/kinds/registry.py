"""Registry of the served resources: look-up by path, by name, or by apiVersion and kind."""

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
    """An additional printer column of a custom resource."""

    name: str
    type: str
    path: str
    wide: bool = False
    """whether only `-o wide` prints it"""


@dataclass(frozen=True, slots=True)
class Served:
    """One resource in one version, with the printer columns and the schema of its CRD."""

    resource: Resource
    columns: tuple[Column, ...] = ()
    schema: Raw | None = None


class Kinds:
    """All served resources; the first version of a resource is its storage version."""

    def __init__(self) -> None:
        self._served: dict[str, list[Served]] = {}
        for resource in BUILT_IN:
            self.register(resource.group_resource, [Served(resource)])

    def register(self, group_resource: str, served: Iterable[Served]) -> None:
        """Serve a resource; the storage version comes first."""
        self._served[group_resource] = list(served)

    def unregister(self, group_resource: str) -> None:
        """Stop serving a resource."""
        self._served.pop(group_resource, None)

    def by_path(self, group: str, version: str, plural: str) -> Resource:
        """The resource served under a group, version and plural name; ApiError 404 if there is none."""
        group_resource = f"{plural}.{group}" if group else plural
        for served in self._served.get(group_resource, ()):
            if served.resource.version == version:
                return served.resource
        raise no_such_path()

    def by_name(self, group_resource: str) -> Resource:
        """A resource by its name, such as pods or jobs.batch, in its storage version."""
        served = self._served.get(group_resource)
        if not served:
            raise no_such_path()
        return served[0].resource

    def storage_version(self, resource: Resource) -> Resource:
        """The same resource in its storage version."""
        return self._served[resource.group_resource][0].resource

    def versions(self, resource: Resource) -> list[Resource]:
        """The same resource in all its versions."""
        return [served.resource for served in self._served[resource.group_resource]]

    def for_object(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an object by apiVersion and kind; None if it is not served."""
        for resource in self:
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def served(self, resource: Resource) -> Served:
        """The resource with its columns and schema."""
        return next(served for served in self._served[resource.group_resource] if served.resource == resource)

    def __iter__(self) -> Iterator[Resource]:
        for versions in self._served.values():
            for served in versions:
                yield served.resource

    def groups(self) -> dict[str, list[str]]:
        """The versions of every API group except the core, in order of preference."""
        groups: dict[str, list[str]] = {}
        for resource in self:
            if resource.group and resource.version not in groups.setdefault(resource.group, []):
                groups[resource.group].append(resource.version)
        return groups

    def in_version(self, group: str, version: str) -> list[Resource]:
        """All resources of an API version."""
        return [resource for resource in self if (resource.group, resource.version) == (group, version)]
