"""Values of reports as JSON-compatible documents."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec

__all__ = ["plain", "rfc3339"]


def rfc3339(seconds: float) -> str | None:
    """Return a time in UTC as Kubernetes writes it; None for 0, which is an unknown time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def plain(report: Any) -> Any:  # noqa: ANN401 - any dataclass
    """Convert a dataclass to JSON-compatible values."""
    return msgspec.to_builtins(asdict(report), str_keys=True)
