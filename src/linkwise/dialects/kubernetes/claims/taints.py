"""Device taints: what keeps claims away from devices, in slices and by DeviceTaintRules.

A driver writes taints into its slices. A DeviceTaintRule adds one taint to the devices that it selects by driver, pool and
name, with the same effect. NoSchedule and NoExecute keep claims without a toleration away; any other effect is information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.dialects.kubernetes.claims.objects import Slice, SliceDevice

__all__ = ["Taint", "TaintRule", "with_rules"]

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


def with_rules(slices: Sequence[Slice], rules: Iterable[TaintRule]) -> Sequence[Slice]:
    """The slices of a pool with the taints that rules add to their devices."""
    covering = [rule for rule in rules if any(rule.covers(each.driver, each.pool) for each in slices)]
    if not covering:
        return slices
    return [replace(each, devices=tuple(_with(device, covering) for device in each.devices)) for each in slices]


def _with(device: SliceDevice, rules: Iterable[TaintRule]) -> SliceDevice:
    added = tuple(rule.taint for rule in rules if rule.device in {"", device.name})
    return replace(device, taints=(*device.taints, *added)) if added else device
