"""Fields of Kubernetes objects as JSON; a field of another type than expected reads as absent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from linkwise.engine.selectors import all_met
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Raw",
    "condition",
    "find",
    "images",
    "is_ready",
    "is_selected",
    "items_at",
    "labels",
    "name",
    "namespace",
    "number_at",
    "object_at",
    "text_at",
    "texts_at",
    "time_at",
    "time_of",
]

Raw = Mapping[str, object]


def object_at(raw: object, *path: str) -> Raw:
    """The object at a path; empty if there is none."""
    value = _at(raw, path)
    return value if isinstance(value, Mapping) else {}


def items_at(raw: object, *path: str) -> list[Raw]:
    """The objects of the list at a path."""
    value = _at(raw, path)
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts_at(raw: object, *path: str) -> list[str]:
    """The texts of the list at a path."""
    value = _at(raw, path)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def text_at(raw: object, *path: str) -> str:
    """The text at a path; empty if there is none."""
    value = _at(raw, path)
    return value if isinstance(value, str) else ""


def number_at(raw: object, *path: str) -> int | None:
    """The number at a path."""
    value = _at(raw, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def time_at(raw: object, *path: str) -> float | None:
    """The time at a path, in seconds since the epoch."""
    return time_of(text_at(raw, *path))


def time_of(text: str) -> float | None:
    """An RFC 3339 time in seconds since the epoch; None if it is not one."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def name(raw: object) -> str:
    """The name of an object."""
    return text_at(raw, "metadata", "name")


def namespace(raw: object) -> str:
    """The namespace of an object."""
    return text_at(raw, "metadata", "namespace")


def labels(raw: object) -> dict[str, str]:
    """The labels of an object."""
    raw_labels = object_at(raw, "metadata", "labels")
    return {key: value for key, value in raw_labels.items() if isinstance(value, str)}


def condition(raw: object, kind: str) -> Raw:
    """The condition of that type; empty if there is none."""
    return next((each for each in items_at(raw, "status", "conditions") if each.get("type") == kind), {})


def is_ready(raw: object) -> bool:
    """Whether the condition Ready is true."""
    return condition(raw, "Ready").get("status") == "True"


def find(items: Iterable[Raw], wanted: str) -> Raw | None:
    """The object of that name."""
    return next((each for each in items if name(each) == wanted), None)


def images(raw: object) -> tuple[str, ...]:
    """The images of the containers of a pod template."""
    containers = items_at(raw, "spec", "template", "spec", "containers")
    return tuple(text_at(each, "image") for each in containers)


def is_selected(selector: object, present: Mapping[str, str]) -> bool:
    """Whether a label selector, with matchLabels and matchExpressions, selects these labels; an empty one selects all."""
    equal = object_at(selector, "matchLabels")
    if any(present.get(key) != value for key, value in equal.items()):
        return False
    return all_met(tuple(_requirements(items_at(selector, "matchExpressions"))), present)


def _requirements(expressions: Sequence[Raw]) -> Iterable[SelectorRequirement]:
    for each in expressions:
        values = each.get("values")
        texts = tuple(map(str, values)) if isinstance(values, list) else ()
        yield SelectorRequirement(text_at(each, "key"), text_at(each, "operator"), texts)


def _at(raw: object, path: Iterable[str]) -> object:
    for step in path:
        if not isinstance(raw, Mapping):
            return None
        raw = raw.get(step)
    return raw
