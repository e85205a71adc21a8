"""Health of a node's devices: one that failed is used again only after a while without a fault.

    state       found unhealthy    found healthy, not long enough    found healthy, long enough
    healthy     failed             healthy                           healthy
    failed      failed             recovering                        healthy
    recovering  failed             recovering                        healthy

A device that fails again and again under load would otherwise kill one pod after the other: it looks healthy while it
is idle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.cordon import cordoned_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery

__all__ = ["Recovery", "with_cordons", "with_faults"]

_LOOK: Final = 5.0  # seconds between two looks at a device with a fault
_SOONEST: Final = 1.0  # seconds, likewise where devices are used again sooner
_HELD: Final = "; it has no fault now, "


@dataclass(frozen=True, slots=True)
class _Failed:
    """A device that failed and is not used."""

    why: str
    clean_since: float | None = None
    """when it was first found without a fault; None while it has one"""


class Recovery:
    """Holds failed devices back for `seconds` without a fault; `apply` each discovery to it, in their order."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failed: dict[str, _Failed] = {}

    def apply(self, discovery: Discovery, now: float) -> Discovery:
        """The discovery with the devices that are held back as unhealthy; `now` is in seconds, of a steady clock."""
        self._failed = {
            device.id: failed
            for device in discovery.devices
            if (failed := self._after(device, discovery, now)) is not None
        }
        faults = {id_: self._text(failed) for id_, failed in self._failed.items() if failed.clean_since is not None}
        return with_faults(discovery, faults)

    def remember(self, faults: Mapping[str, str]) -> bool:
        """Hold devices back that failed before the process started; whether there are any that were not known."""
        # With no time to hold a device back, one without a fault is used at once, whatever it had before.
        new = faults.keys() - self._failed.keys() if self._seconds else set()
        # What was published ends with how long the device is held; `apply` adds that again.
        self._failed |= {id_: _Failed(faults[id_].partition(_HELD)[0]) for id_ in new}
        return bool(new)

    def remaining(self, now: float) -> float | None:
        """Seconds until a failed device should be looked at again, at the latest; None if there is none.

        One that is held back may be used then, and one with a fault may have lost it.
        """
        since = [failed.clean_since for failed in self._failed.values()]
        look = max(_SOONEST, min(_LOOK, self._seconds))
        times = [look if each is None else each + self._seconds - now for each in since]
        return max(0.0, min(times)) if times else None

    def _after(self, device: Device, discovery: Discovery, now: float) -> _Failed | None:
        before = self._failed.get(device.id)
        if not device.healthy:
            return _Failed(discovery.faults.get(device.id, "") or f"device {device.index} is unhealthy")
        if before is None:
            return None
        since = now if before.clean_since is None else min(before.clean_since, now)
        return None if now - since >= self._seconds else replace(before, clean_since=since)

    def _text(self, failed: _Failed) -> str:
        return f"{failed.why}{_HELD}and is used again after {self._seconds:g} s without one"


def with_faults(discovery: Discovery, faults: Mapping[str, str]) -> Discovery:
    """The discovery with these devices unhealthy, and why; ids that it does not have are left out."""
    failing = {device.id: faults[device.id] for device in discovery.devices if device.id in faults}
    if not failing:
        return discovery
    devices = tuple(replace(each, healthy=False) if each.id in failing else each for each in discovery.devices)
    return replace(discovery, devices=devices, faults={**discovery.faults, **failing})


def with_cordons(discovery: Discovery, cordons: Mapping[str, str]) -> Discovery:
    """The discovery as it is allocated: cordoned devices are not, and stay with the pods that have them."""
    reasons = cordoned_devices(discovery.devices, cordons)
    return with_faults(discovery, {id_: f"it is cordoned{f': {why}' if why else ''}" for id_, why in reasons.items()})
