"""Bandwidth policy: whole devices with the largest bottleneck, leaving good sets to other pods.

Source: seed 001, "Pick GPUs of Node", for one pod.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.model.settings import BandwidthSettings
from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.alignment import is_aligned, locality, locality_terms
from linkwise.policies.policy import ByDevice, first_of, offer_by_container
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.canonical import canonical_of
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import SIZES, fabric_of, loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.topology.numa import Locality

__all__ = ["Bandwidth"]

_DEFAULT: Final = BandwidthSettings()


class Bandwidth(ByDevice):
    """Picks by the node's own samples, but scores by class values, so that noise does not order nodes."""

    name = "bandwidth"
    terms = ("known", "bottleneck", *(f"sets of {size}" for size in SIZES), "numa", "nic", "packing")
    leading = 2

    def __init__(self, settings: BandwidthSettings = _DEFAULT, *, nic: bool = False) -> None:
        self._settings = settings
        self._nic = nic

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The free set that leaves the most good sets, among those within 5% of the largest bottleneck."""
        free = [device.id for device in node.free()]
        near = locality(node, nics=self._nic)
        best = _best(node, ask.devices, free, near, ask.required)
        # rule 001.best-effort: a slow set is better than none, unless the administrator set a floor.
        value = best[1] if best else 0.0
        if value < self._settings.floor and ask.devices > 1:
            kind = "" if best else "unknown"
            return Reject(node.name, Reason("001.best-effort", asked=self._settings.floor, found=value, kind=kind))
        devices = best[0] if best else first_of(node, free, ask.devices, ask.required)
        offer = offer_by_container(ask, node, devices, lambda count, left: _choose(node, count, left, near))
        return Offer(offer.node, offer.parts, notes=() if best else ("link data is incomplete",))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Whether links are known, the bottleneck's class in tenths of GB/s, what others lose, locality, and packing."""
        left, near = len(node.free()) - ask.devices, locality_terms(node, offer.devices, nics=self._nic)
        values = canonical_of(node.topology) if node.topology else ()
        places = node.positions()
        if not values or not all(device in places for device in offer.devices):
            return (int(ask.devices == 1), 0, *_negative(loss(node, offer.devices)), *near, -left)
        free = [places[device.id] for device in node.free() if device.id in places]
        if is_aligned(node):  # only the devices that the kubelet can give to the pod
            free = [places[device] for device in offer.devices]
        best = best_bottleneck(values, ask.devices, free)
        if not isinstance(best, Bottleneck):
            return (0, 0, *_negative(loss(node, offer.devices)), *near, -left)
        free = [places[device.id] for device in node.free() if device.id in places]
        lost = fabric_of(values).lost(mask_of(free), mask_of(best.devices))
        return (1, round(10 * best.value) if isfinite(best.value) else 0, *_negative(lost), *near, -left)


def _negative(lost: tuple[int, ...]) -> list[int]:
    return [-amount for amount in lost]


def _best(
    node: Node, count: int, available: Sequence[str], near: Locality, required: Sequence[str] = ()
) -> tuple[list[str], float] | None:
    """`count` of the available devices with their bottleneck; None without enough link data."""
    places = node.positions()
    known = {places[device]: device for device in available if device in places}
    topology = node.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    if not all(device in places for device in required):
        return None
    best = best_bottleneck(
        topology.bandwidth, count, known, [places[device] for device in required], links=topology.links, near=near
    )
    if not isinstance(best, Bottleneck):
        return None
    return [known[position] for position in best.devices], best.value


def _choose(node: Node, count: int, left: Sequence[str], near: Locality) -> Sequence[str]:
    best = _best(node, count, left, near)
    return best[0] if best else first_of(node, left, count)
