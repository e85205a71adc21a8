"""Redaction: removes the names of pods and groups of other namespaces from explanations.

An explanation of one tenant's pod may name pods of another: those that would have to finish, and those ahead in the queue.
A tenant may see nodes, counts and amounts, but not what others run. Texts are searched for names, so that a new sentence
can't forget it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.broker.broker import BrokerView

__all__ = ["Redaction", "namespaces_of"]

ANOTHER: Final = "another namespace"

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_OBJECT: Final = re.compile(
    rf"(?:\b(?P<how>terminating )?(?P<noun>pod|group|gang|PodGroup|ResourceClaim)s? )?"
    rf"(?<![\w./-])(?P<namespace>{_LABEL})/{_NAME}(?:/{_NAME})*"
)
"""a name with its namespace, and the noun before it; a resource name has a dot before its slash"""
_NAMES: Final = frozenset({"namespaces", "domains"})
"""keys of lists of namespaces; a sharing domain may name a user after its namespace"""
_NAMESPACES: Final = re.compile(rf"\bnamespaces? (?P<names>{_LABEL}(?:, (?!and ){_LABEL})*)\b")


def namespaces_of(broker: BrokerView) -> frozenset[str]:
    """All namespaces that are known: those that were observed, and those of pods, groups and claims."""
    groups = (key.partition("/")[0] for key in broker.group_keys())
    claims = (claim.partition("/")[0] for node in broker.inventories.values() for claim in (node.claims or {}).values())
    return frozenset({*broker.namespaces, *(pod.namespace for pod in broker.pods.values()), *groups, *claims})


@dataclass(frozen=True, slots=True)
class Redaction:
    """What one caller may not read."""

    own: frozenset[str]
    """the namespaces that the caller may read"""
    others: Collection[str]
    """all namespaces; its own may be among them"""

    def text(self, sentence: str) -> str:
        """A sentence without names of objects of other namespaces."""
        return _NAMESPACES.sub(self._namespaces, _OBJECT.sub(self._object, sentence))

    def document(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """A JSON document without names of objects of other namespaces, and without their UIDs."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.document(each) for each in value]
            case dict():
                changed = {key: self._field(key, each) for key, each in value.items()}
                if self._is_named(value):
                    return {**changed, "namespace": "", "name": f"a pod of {ANOTHER}", "uid": ""}
                hidden = "uid" in value and changed.get("name") != value.get("name")
                return {**changed, "uid": ""} if hidden else changed
            case _:
                return value

    def _field(self, key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
        """A field of an object; those that hold names of namespaces and not sentences are known by their keys."""
        if key in _NAMES and isinstance(value, list | tuple):
            return [ANOTHER if self._is_other(str(each).partition(" ")[0]) else each for each in value]
        if key == "claim" and self._is_other(str(value).partition("/")[0]):
            return ANOTHER
        return self.document(value)

    def _is_named(self, value: dict[str, Any]) -> bool:
        """Whether an object is a pod of another namespace, by fields of its own."""
        return {"namespace", "name", "uid"} <= value.keys() and self._is_other(str(value["namespace"]))

    def _is_other(self, namespace: str) -> bool:
        return namespace not in self.own and namespace in self.others

    def _object(self, found: re.Match[str]) -> str:
        of_own_group = found["namespace"] == "group" and found[0].split("/")[1] in self.own
        if not self._is_other(found["namespace"]) or of_own_group:
            return found[0]
        return f"a {found['how'] or ''}{found['noun'] or 'pod'} of {ANOTHER}"

    def _namespaces(self, found: re.Match[str]) -> str:
        names = found["names"].split(", ")
        if not any(map(self._is_other, names)):
            return found[0]
        return "other namespaces" if len(names) > 1 else ANOTHER
