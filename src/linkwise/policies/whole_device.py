"""Whole device policy: devices by count alone, packed so that larger requests still fit.

Source: seed 002, "Scheduling", both stories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.policies.policy import ByDevice, first_of, offer_by_container

if TYPE_CHECKING:
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.model.verdict import Offer, Reject

__all__ = ["WholeDevice"]


class WholeDevice(ByDevice):
    """The lowest free devices of as few NUMA nodes as possible, on the node with the fewest free devices."""

    name = "whole-device"
    terms = ("packing",)
    leading = 0
    summary = "the lowest free devices; only their number counts"

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The requested number of free devices, on as few NUMA nodes as possible and from the lowest index."""
        devices = first_of(node, [device.id for device in node.free()], ask.devices, ask.required)
        return offer_by_container(ask, node, devices, lambda count, left: first_of(node, left, count))

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Packing: fewer free devices are better, so that empty nodes stay empty for larger requests."""
        del ask, offer
        # rule 002.pack
        return (-len(node.free()),)
