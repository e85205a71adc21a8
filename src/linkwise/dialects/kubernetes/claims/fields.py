"""Fields of objects that the API server has validated: what is invalid all the same is ignored."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["object_at", "objects_at", "text_at"]


def object_at(raw: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object at this key; an empty one if there is none."""
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def objects_at(raw: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """The objects of the list at this key, and nothing else that is in it."""
    value = raw.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def text_at(raw: Mapping[str, object], name: str) -> str:
    """The printable text at this key; empty if there is none."""
    value = raw.get(name)
    return value if isinstance(value, str) and value.isprintable() else ""
