"""Prepared claims: which devices of the node each ResourceClaim has, from Prepare until Unprepare.

Names of devices in a claim are those of the pool when it was allocated. They are resolved once, at Prepare: what is kept are the
ids of the devices, which do not change when devices are found in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.dialects.kubernetes.claims.driver import ClaimAllocation
    from linkwise.node.dra.pool import Pool

__all__ = ["PreparedClaim", "PreparedDevice", "prepared_claim"]


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device or a set of a claim."""

    request: str
    device: str
    """its name in the pool"""
    ids: tuple[str, ...]
    """of the devices that containers get"""
    shared: bool = False
    """whether it is only accessed for administration"""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim whose devices containers may use."""

    namespace: str
    name: str
    uid: str
    devices: tuple[PreparedDevice, ...]

    @property
    def requests(self) -> dict[str, tuple[str, ...]]:
        """Ids of devices by request."""
        found: dict[str, tuple[str, ...]] = {}
        for one in self.devices:
            found[one.request] = tuple(dict.fromkeys((*found.get(one.request, ()), *one.ids)))
        return found

    @property
    def exclusive(self) -> frozenset[str]:
        """Ids of the devices that no other claim may have."""
        return frozenset(device for one in self.devices if not one.shared for device in one.ids)


def prepared_claim(claim: ClaimAllocation, pool: Pool, others: Iterable[PreparedClaim]) -> PreparedClaim:
    """The claim with the devices of the node; InputError if one is not there, has a fault or belongs to another claim."""
    where = f"ResourceClaim {claim.namespace}/{claim.name}"
    devices = []
    for one in claim.devices:
        if one.device not in pool.members:
            raise InputError(f"{where} has device {one.device!r}, which this node does not have (any more)")
        if one.device in pool.faults and not one.shared:
            raise InputError(f"{where} has device {one.device!r}, which can't be used: {pool.faults[one.device]}")
        devices.append(PreparedDevice(one.request, one.device, pool.members[one.device], one.shared))
    found = PreparedClaim(claim.namespace, claim.name, claim.uid, tuple(devices))
    if twice := _repeated(found):
        raise InputError(f"{where} has device {twice} twice: counters of the pool were ignored when it was allocated")
    for other in others:
        if both := sorted(found.exclusive & other.exclusive):
            raise InputError(f"{where} has device {both[0]}, which ResourceClaim {other.namespace}/{other.name} uses")
    return found


def _repeated(claim: PreparedClaim) -> str:
    seen: set[str] = set()
    for one in claim.devices:
        for device in () if one.shared else one.ids:
            if device in seen:
                return device
            seen.add(device)
    return ""
