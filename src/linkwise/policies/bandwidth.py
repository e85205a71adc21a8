"""Whole devices by bandwidth: the set with the largest bottleneck, leaving good sets to others.

Source: seed 001, "Pick GPUs of Node", for one pod.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.model.settings import BandwidthSettings
from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.policy import ByDevice, first_of, offer_by_container
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.canonical import canonical
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["Bandwidth"]

_DEFAULT: Final = BandwidthSettings()


class Bandwidth(ByDevice):
    """Picks by the node's own samples, scores by classes, so that noise does not order nodes."""

    name = "bandwidth"
    terms = ("known", "bottleneck", *(f"sets of {size}" for size in SIZES), "packing")
    leading = 2

    def __init__(self, settings: BandwidthSettings = _DEFAULT) -> None:
        self._settings = settings

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The free set with the largest bottleneck, within 5 %, that leaves most; a poor set rather than none."""
        free = [device.id for device in node.free()]
        found = _best(node, ask.devices, free, ask.required)
        # rule 001.best-effort: a poor set is given, unless the administrator set a floor.
        value = found[1] if found else 0.0
        if value < self._settings.floor and ask.devices > 1:
            kind = "" if found else "unknown"
            return Reject(node.name, Reason("001.best-effort", asked=self._settings.floor, found=value, kind=kind))
        devices = found[0] if found else first_of(free, ask)
        offer = offer_by_container(ask, node, devices, lambda count, left: _choose(node, count, left))
        return Offer(offer.node, offer.parts, notes=() if found else ("too little is known of the links",))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Whether bandwidth is known, the bottleneck's class in tenths of GB/s, the good sets lost, and packing."""
        left = len(node.free()) - ask.devices
        values = canonical(node.topology) if node.topology else ()
        places = node.positions()
        unknown = (0,) * (2 + len(SIZES))
        if not values or not all(device in places for device in offer.devices):
            return (*((1, *unknown[1:]) if ask.devices == 1 else unknown), -left)
        free = [places[device.id] for device in node.free() if device.id in places]
        found = best_bottleneck(values, ask.devices, free)
        if not isinstance(found, Bottleneck):
            return (*unknown, -left)
        fabric, whole = fabric_of(values), mask_of(free)
        lost = (0,) * len(SIZES)
        if found.proven:
            after, before = fabric.left(whole ^ mask_of(found.devices)), fabric.left(whole)
            lost = tuple(now - was for now, was in zip(after, before, strict=True))
        return (1, round(10 * found.value) if isfinite(found.value) else 0, *lost, -left)


def _best(
    node: Node, count: int, available: Sequence[str], required: Sequence[str] = ()
) -> tuple[list[str], float] | None:
    """So many of the available devices with their bottleneck; None where too little is known of them."""
    places = node.positions()
    known = {places[device]: device for device in available if device in places}
    topology = node.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    if not all(device in places for device in required):
        return None
    found = best_bottleneck(
        topology.bandwidth, count, known, [places[device] for device in required], links=topology.links
    )
    if not isinstance(found, Bottleneck):
        return None
    return [known[position] for position in found.devices], found.value


def _choose(node: Node, count: int, left: Sequence[str]) -> Sequence[str]:
    found = _best(node, count, left)
    return found[0] if found else left[:count]
