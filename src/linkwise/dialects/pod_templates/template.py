"""Pod templates of an object, and the pods that controllers create from them: names, labels, indexes and owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import InputError
from linkwise.model.views import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "UID",
    "PodTemplate",
    "Stamp",
    "WorkloadObject",
    "at",
    "count_at",
    "entries_at",
    "object_at",
    "owner_of",
    "stamped",
    "templated",
]

UID: Final = "UID"
"""stands for the UID of an object that was not created yet"""


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """An object that may create pods."""

    document: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.document.get("kind", ""))

    @property
    def name(self) -> str:
        """The name of the object."""
        meta = self.document.get("metadata")
        return str(meta.get("name") or meta.get("generateName") or "") if isinstance(meta, dict) else ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What distinguishes a pod from the others of its template."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    """the controller that creates the pod"""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod template of an object."""

    name: str
    count: int
    document: dict[str, Any]
    """the pod as Kubernetes would create it; the first one if they differ"""
    path: str = ""
    """of the part of the object that defines it; empty for the whole object"""
    stamp: Callable[[int], Stamp] | None = None
    """pods by number, of kinds whose controllers tell which pods belong together"""
    note: str = ""
    """what the manifest alone does not tell"""


def stamped(document: Mapping[str, Any], stamp: Stamp) -> dict[str, Any]:
    """Return a pod with its own name, labels and annotations, which its controller sets over those of the template."""
    meta = document["metadata"]
    words = {
        key: {**(own if isinstance(own := meta.get(key), dict) else {}), **added}
        for key, added in (("labels", stamp.labels), ("annotations", stamp.annotations))
    }
    return {**document, "metadata": {**meta, **words, "name": stamp.name}}


def templated(owner: Mapping[str, Any], template: object, name: str) -> dict[str, Any]:
    """Return the pod of a template with the name and namespace of its owner."""
    pod = dict(template) if isinstance(template, dict) else {}
    meta = pod.get("metadata")
    own = at(owner, "metadata")
    namespace = own.get("namespace") if isinstance(own, dict) else None
    pod["metadata"] = {
        **({"namespace": namespace} if namespace else {}),
        **(meta if isinstance(meta, dict) else {}),
        "name": name,
    }
    return pod


def owner_of(source: WorkloadObject, kind: str = "", name: str = "") -> Owner:
    """Return the object as an owner, or one that its controller would create."""
    uid = at(source.document, "metadata", "uid")
    own = uid if isinstance(uid, str) and uid and not kind else UID
    return Owner(kind or source.kind, name or source.name, own)


def at(document: object, *path: str) -> Any:  # noqa: ANN401 - raw YAML
    """Return the value at a path; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def object_at(document: object, path: str) -> dict[str, Any]:
    """Return the object at a dotted path; InputError if it is missing or something else."""
    value = at(document, *path.split("."))
    if isinstance(value, dict):
        return value
    raise InputError(f"{path}: {'it is missing' if value is None else f'expected an object, got {_shown(value)}'}")


def entries_at(document: object, path: str) -> list[dict[str, Any]]:
    """Return the list of objects at a dotted path, empty if there is none; InputError if it is something else."""
    value = at(document, *path.split("."))
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{path}: expected a list, got {_shown(value)}")
    for number, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise InputError(f"{path}[{number}]: expected an object, got {_shown(entry)}")
    return value


def count_at(document: object, path: str, default: int, within: str = "", least: int = 0) -> int:
    """Return the number at a dotted path; InputError if it is something else. `within` is where the document stands."""
    value = at(document, *path.split("."))
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise InputError(f"{within}{path}: expected a whole number of {least} or more, got {_shown(value)}")


def _shown(value: object) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else repr(value)[:60]
