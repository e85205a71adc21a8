"""Whole devices by count alone, packed so that larger asks still fit.

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
    """The lowest free devices; nodes with the fewest free ones first."""

    name = "whole-device"
    terms = ("packing",)
    leading = 0

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """As many free devices as asked, from the lowest index."""
        devices = first_of([device.id for device in node.free()], ask)
        return offer_by_container(ask, node, devices, lambda count, left: left[:count])

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Fewer free devices are better: single asks fill used nodes, and whole nodes stay whole."""
        del ask, offer
        # rule 002.pack
        return (-len(node.free()),)
