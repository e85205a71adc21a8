"""Memory share policy: a part of one device, memory in the resource's own unit and optionally compute.

Requests in bytes are converted to each device's own unit and rounded up per container, so that a pod never gets less
than it requested and no unit is allocated twice.

Source: seed 004, steps 2.1 and 2.2; percents below one device of seed 001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.node import FREE
from linkwise.model.settings import ShareSettings
from linkwise.model.verdict import Offer, Part, Reason, Reject
from linkwise.policies.policy import Policy
from linkwise.topology.fabric import NO_LOSS, SIZES, losses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node, Use

__all__ = ["WHOLE_CORE", "MemoryShare", "losses_of_unused", "may_share", "shares_on"]

WHOLE_CORE: Final = 100  # percent
_DEFAULT: Final = ShareSettings()


class _FreeShare(NamedTuple):
    """The free memory and compute of one device."""

    memory: int
    core: int
    position: int
    device: str
    need: int
    """the memory that the ask needs on it, in the device's unit"""
    loss: tuple[int, ...]
    """what pods that request several devices lose with it"""


class MemoryShare(Policy):
    """Packs shares on the fullest device that fits; a device is shared within one domain only, by default a namespace."""

    name = "memory-share"
    terms = ("tightness", *(f"sets of {size}" for size in SIZES), "packing")
    leading = 0

    def __init__(self, settings: ShareSettings = _DEFAULT) -> None:
        self._settings = settings

    def admit(self, ask: Ask) -> Reason | None:
        """At least one unit of memory, and at most one device's compute."""
        if ask.share < 1:
            return Reason("004.one-card", asked=ask.share, kind="no size")
        if not 0 <= ask.core <= WHOLE_CORE:
            return Reason("001.percent", asked=ask.core, found=WHOLE_CORE)
        return Reason("004.one-card", asked=ask.share, kind="no size") if ask.is_invalid() else None

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """One device with enough free memory and compute for all containers of the pod."""
        # rule 004.mode
        if node.mode not in {"any", ask.mode}:
            return Reject(node.name, Reason("004.mode", asked=ask.mode, found=node.mode))
        # rule 004.one-card: a pod's shares are on one device.
        shares = _shares(ask, node)
        too_large = _too_large(ask, node, shares)
        if too_large:
            return Reject(node.name, too_large, final=True)
        devices = _free_shares(node, shares)
        # rule 004.filter, 002.fractions: each device is checked by itself; the node's sum does not matter.
        fitting = [free for free in devices if free.memory >= free.need and free.core >= ask.core]
        if not fitting:
            return Reject(node.name, _insufficient(ask, devices, node.unit))
        allowed = [free for free in fitting if may_share(ask, node.used.get(free.device, FREE), self._settings)]
        if not allowed:
            kind = "domain" if ask.sharing else ""
            return Reject(node.name, Reason("002.segregate", ask.domain, _neighbours(node, fitting), kind))
        device = self._best(allowed).device
        parts = [
            Part(container.container, (device,), share, container.core)
            for container, share in zip(ask.containers, shares[device], strict=True)
            if share or container.core
        ]
        return Offer(node.name, tuple(parts))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Memory left free on the device, what others lose with it, and the number of unused devices of the node."""
        (chosen,) = offer.devices
        left, unused = node.room()[chosen] - sum(_shares(ask, node)[chosen]), len(node.free())
        sign = -1 if self._settings.order == "binpack" else 1
        lost = [-amount for amount in losses_of_unused(node).get(chosen, NO_LOSS)]
        return (sign * left, *lost, sign * unused)

    def _best(self, fitting: list[_FreeShare]) -> _FreeShare:
        # rule 004.binpack: of the devices that fit the one with the least free memory; spread takes the most.
        # Of unused devices, which have the same, the one without which others find the best sets.
        sign = 1 if self._settings.order == "binpack" else -1
        return min(
            fitting, key=lambda free: (sign * (free.memory - free.need), free.loss, sign * free.core, free.position)
        )


def may_share(ask: Ask, used: Use, settings: ShareSettings = _DEFAULT) -> bool:
    """Whether the ask may join the pods that use a device."""
    # rule 002.segregate: a device used by pods of other sharing domains is not shared.
    if used == FREE:
        return True
    if ask.domain == ALONE:
        return False
    if ask.domain == COMMON and settings.within == "any":
        return used.domains <= {COMMON}  # pods that nothing is known of may share as well
    return used.domains == {ask.domain}  # an unknown pod counts as one of another domain


def losses_of_unused(node: Node) -> dict[str, tuple[int, ...]]:
    """What pods that request several devices lose with each unused device; empty if no such pod may use the node."""
    # rule 004.mode: a node that allocates memory has no sets to lose.
    return {} if node.mode == "share" else losses(node)


def shares_on(ask: Ask, memory: int, size: int) -> tuple[int, ...] | None:
    """The share of each container on a device of `memory` units and `size` bytes; None if it can't be converted."""
    if not ask.in_bytes:
        return tuple(container.share for container in ask.containers)
    if memory < 1 or size < 1:
        return None
    return tuple(-(-container.share * memory // size) for container in ask.containers)


def _shares(ask: Ask, node: Node) -> dict[str, tuple[int, ...]]:
    """The share of each container, by device."""
    by_device = {device.id: shares_on(ask, device.memory, device.bytes) for device in node.devices}
    return {device: shares for device, shares in by_device.items() if shares is not None}


def _too_large(ask: Ask, node: Node, shares: Mapping[str, tuple[int, ...]]) -> Reason | None:
    """The reason why no device could serve the ask even if it were free; None if one could."""
    if node.devices and not shares:
        return Reason("004.one-card", asked=ask.share, kind="bytes unknown")
    needs = [(sum(shares[device.id]), device.memory) for device in node.devices if device.id in shares]
    if any(need <= memory for need, memory in needs):
        return None
    need, memory = min((need for need, _ in needs), default=ask.share), max((size for _, size in needs), default=0)
    return Reason("004.one-card", asked=need, found=memory, unit=node.unit)


def _insufficient(ask: Ask, devices: list[_FreeShare], unit: str) -> Reason:
    """The free memory of every device, or its free compute if only that is insufficient."""
    if any(free.memory >= free.need for free in devices):
        compute = tuple((free.position, free.core) for free in devices)
        return Reason("004.filter", asked=ask.core, found=compute, kind="core")
    need = min((free.need for free in devices), default=ask.share)
    return Reason("004.filter", asked=need, found=tuple((free.position, free.memory) for free in devices), unit=unit)


def _free_shares(node: Node, shares: Mapping[str, tuple[int, ...]]) -> list[_FreeShare]:
    memory, lost, devices = node.room(), losses_of_unused(node), []
    for device in node.healthy():
        if device.id not in shares:
            continue
        use = node.use(device)
        core = 0 if use.whole else max(0, WHOLE_CORE - use.core - node.unattributed_core)
        loss = lost.get(device.id, NO_LOSS)
        devices.append(_FreeShare(memory[device.id], core, device.index, device.id, sum(shares[device.id]), loss))
    return devices


def _neighbours(node: Node, fitting: list[_FreeShare]) -> tuple[str, ...]:
    """The sharing domains whose pods use the devices that would fit."""
    return tuple(sorted({name for free in fitting for name in node.used[free.device].domains}))
