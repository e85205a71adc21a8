"""Objects of the cluster as JSON or as what a reader made of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["document_of"]


def document_of(found: Mapping[str, object] | bytes) -> Mapping[str, object]:
    """What JSON says; what is no object at all is reported by whoever reads it."""
    if not isinstance(found, bytes):
        return found
    try:
        document = json.loads(found)
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}
