"""Device taints: what keeps claims away from devices, in slices and by DeviceTaintRules.

A driver writes taints into its slices. A DeviceTaintRule adds one taint to the devices that it selects by driver, pool and
name, with the same effect. NoSchedule and NoExecute keep claims without a toleration away; any other effect is information.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Taint", "TaintRule"]

_BLOCKING: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    since: str = ""
    """when it was added, as RFC 3339 text; empty if that is not known"""
    rule: str = ""
    """the DeviceTaintRule that adds it; empty if the driver wrote it into the slice"""

    @property
    def blocks(self) -> bool:
        """Whether claims without a toleration are kept away."""
        return self.effect in _BLOCKING

    def __str__(self) -> str:
        """As kubectl writes it, with its rule and its time."""
        words = f"taint {self.key}{f'={self.value}' if self.value else ''}:{self.effect}"
        rule = f" of DeviceTaintRule {self.rule}" if self.rule else ""
        return f"{words}{rule}{f' since {self.since}' if self.since else ''}"


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule; an empty word of its selector selects all."""

    taint: Taint
    driver: str = ""
    pool: str = ""
    device: str = ""

    def covers(self, driver: str, pool: str) -> bool:
        """Whether it may select devices of a pool."""
        return self.driver in {"", driver} and self.pool in {"", pool}
