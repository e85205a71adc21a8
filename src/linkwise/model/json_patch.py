"""JSON Patch: changes of a document that the API server applies (RFC 6902)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PatchOperation", "pointer"]


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """One change; `add` replaces a field that is there, and appends to a list at `-`."""

    op: Literal["add", "replace", "remove"]
    path: str
    """a JSON Pointer"""
    value: object = None
    """not used by `remove`"""


def pointer(*steps: str | int) -> str:
    """A JSON Pointer (RFC 6901) to the value behind these keys and positions."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
