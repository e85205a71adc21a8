"""Admission verdict: the answer to the API server about an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.json_patch import PatchOperation

__all__ = ["UNCHANGED", "AdmissionVerdict"]


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """Whether an object is admitted, and as what."""

    refusal: str = ""
    """why not; empty if it is"""
    warnings: tuple[str, ...] = ()
    """for the person who creates it"""
    patch: tuple[PatchOperation, ...] = ()


UNCHANGED = AdmissionVerdict()
"""admitted as it is"""
