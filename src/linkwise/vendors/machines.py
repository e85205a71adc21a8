"""Machine profiles of all registered vendors, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.vendors.machine import MachineProfile, linked
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.vendors.vendor import Vendor

__all__ = ["PROFILES", "MachineProfile", "linked", "profile"]


class _Profiles(Mapping[str, MachineProfile]):
    """Read-only view of the registered vendors' machines, built when it is first used."""

    def __init__(self) -> None:
        self._vendors: tuple[Vendor, ...] = ()
        self._machines: dict[str, MachineProfile] = {}

    def _current(self) -> dict[str, MachineProfile]:
        vendors = tuple(VENDORS.values())
        if vendors != self._vendors:
            machines = [machine for vendor in vendors for machine in vendor.machines()]
            self._vendors, self._machines = vendors, {machine.name: machine for machine in machines}
        return self._machines

    def __getitem__(self, name: str) -> MachineProfile:
        return self._current()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())


PROFILES: Final = _Profiles()


def profile(name: str) -> MachineProfile:
    """The machine profile of that name; InputError lists the known names otherwise."""
    if name not in PROFILES:
        raise InputError(f"unknown machine profile {name!r}; known profiles: {', '.join(PROFILES)}")
    return PROFILES[name]
