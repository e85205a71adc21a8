"""What all Kubernetes objects have in common, and strings that many of them share."""

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
"""quantities, which people also write as numbers"""
AmountPairs = tuple[tuple[str, str | int | float], ...]

NOTHING: Final[Mapping[str, str]] = {}
TEMPLATES: Final = 1 << 12
"""so many different ones are remembered of each kind of part"""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""the whole object once more, of use to kubectl alone"""
_DIGITS: Final = 20  # of the largest number that etcd counts to


class Struct(msgspec.Struct, rename="camel", gc=False):
    """Fields that are not listed are not read."""


class Fixed(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """The same for small parts that many objects share, which are remembered by what they are."""


class OwnerReference(Struct):
    """The object that made another."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Struct):
    """An object's name and all that hangs on it."""

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
    """The same string object for equal strings, so that thousands of pods hold one."""
    return text


def labels_of(meta: Meta) -> Mapping[str, str]:
    """Labels; copies of one template share them."""
    return same_texts(tuple(meta.labels.items())) if meta.labels else NOTHING


def annotations_of(meta: Meta) -> Mapping[str, str]:
    """Annotations that anybody may read again."""
    found = meta.annotations
    if not found:
        return NOTHING
    return {one(key): value for key, value in found.items() if key != _LAST_APPLIED}


def texts(amounts: Amounts | None) -> Mapping[str, str]:
    """Quantities as they would stand in a spec."""
    return {one(name): one(_text(value)) for name, value in amounts.items()} if amounts else NOTHING


@lru_cache(maxsize=TEMPLATES)
def same_texts(pairs: AmountPairs) -> Mapping[str, str]:
    """Numbers that are equal have equal texts, since a memory can't tell 1 from 1.0."""
    return {one(name): one(_text(value)) for name, value in pairs}


def _text(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def seconds(timestamp: str | None) -> float:
    """A time as seconds since the epoch, 0 where none is told."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
    except (ValueError, OverflowError) as error:
        raise InputError(f"metadata.creationTimestamp: {timestamp!r} is no time") from error


def version(meta: Meta) -> int:
    """An object's version; Kubernetes promises no number, so that 0 stands for all that is none."""
    text = meta.resource_version or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS else 0
