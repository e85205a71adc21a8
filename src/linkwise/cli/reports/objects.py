"""Objects that a command changes: finds their kinds in the cluster, and their names by labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.kube.client.delete import names_of
from linkwise.kube.client.resources import find_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.cli.options.targets import Target
    from linkwise.kube.client.api import Connection
    from linkwise.kube.client.apply import Kind

__all__ = ["FoundObject", "Objects"]


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object by its kind and name; it need not exist."""

    kind: Kind
    namespace: str
    name: str

    @property
    def shown(self) -> str:
        """As kubectl writes it: pod/train."""
        return f"{self.kind.shown}/{self.name}"


@dataclass(slots=True)
class Objects:
    """Finds objects in one cluster."""

    connection: Connection
    namespace: str
    """the one that is meant where none is named"""
    _kinds: dict[str, Kind] = field(default_factory=dict)

    async def find(self, targets: Sequence[Target], selector: str) -> list[FoundObject]:
        """The objects of the targets; those without a name by the label selector, in the order of the API server."""
        found: list[FoundObject] = []
        for target in targets:
            if target.kind not in self._kinds:
                self._kinds[target.kind] = await find_kind(self.connection, target.kind)
            kind = self._kinds[target.kind]
            namespace = self.namespace if kind.namespaced else ""
            names = [target.name] if target.name else await names_of(self.connection, kind, namespace, selector)
            found += [FoundObject(kind, namespace, name) for name in names]
        return found
