"""Object metadata, quantities and timestamps; equal strings are interned, because many objects share them."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NOTHING",
    "TEMPLATES",
    "AmountPairs",
    "Amounts",
    "Fixed",
    "Meta",
    "OwnerReference",
    "Struct",
    "annotations_of",
    "labels_of",
    "one",
    "same_texts",
    "seconds",
    "texts",
    "version",
]

Amounts = dict[str, str | int | float]
"""quantities; manifests may have numbers too"""
AmountPairs = tuple[tuple[str, str | int | float], ...]

NOTHING: Final[Mapping[str, str]] = {}
TEMPLATES: Final = 1 << 12
"""cache size per kind of part that pods of one template share"""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""a copy of the complete object, used by kubectl only"""
_MAX_VERSION_DIGITS: Final = 20  # resourceVersions are 64-bit numbers


class Struct(msgspec.Struct, rename="camel", gc=False):
    """A JSON object; unknown fields are ignored."""


class Fixed(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A hashable JSON object, for small parts that are cached by value."""


class OwnerReference(Struct):
    """An owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Struct):
    """ObjectMeta."""

    name: str = ""
    generate_name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None
    resource_version: str | None = None


@lru_cache(maxsize=1 << 14)
def one(text: str) -> str:
    """Intern a string, so that thousands of pods share one object."""
    return text


def labels_of(meta: Meta) -> Mapping[str, str]:
    """Labels; shared by pods of one template."""
    return same_texts(tuple(meta.labels.items())) if meta.labels else NOTHING


def annotations_of(meta: Meta) -> Mapping[str, str]:
    """Annotations without kubectl's last-applied-configuration."""
    annotations = meta.annotations
    if not annotations:
        return NOTHING
    return {one(key): value for key, value in annotations.items() if key != _LAST_APPLIED}


def texts(amounts: Amounts | None) -> Mapping[str, str]:
    """Quantities as strings."""
    return {one(name): one(_text(value)) for name, value in amounts.items()} if amounts else NOTHING


@lru_cache(maxsize=TEMPLATES)
def same_texts(pairs: AmountPairs) -> Mapping[str, str]:
    """Quantities as strings, cached; equal numbers need equal texts, since 1 and 1.0 are the same cache key."""
    return {one(name): one(_text(value)) for name, value in pairs}


def _text(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def seconds(timestamp: str | None) -> float:
    """A timestamp in seconds since the epoch; 0 without one."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
    except (ValueError, OverflowError) as error:
        raise InputError(f"metadata.creationTimestamp: {timestamp!r} is not a timestamp") from error


def version(meta: Meta) -> int:
    """The resourceVersion as a number; 0 if it is not one, which Kubernetes does not guarantee."""
    text = meta.resource_version or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MAX_VERSION_DIGITS else 0
