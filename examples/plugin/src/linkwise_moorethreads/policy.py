"""A policy that keeps the lowest devices free."""

from linkwise import Ask, Node, Offer, Reject
from linkwise.policies.policy import ByDevice, offer_by_container


class HighestFirst(ByDevice):
    """The highest free devices; nodes with the most free devices first."""

    name = "highest-first"
    terms = ("free",)
    leading = 0
    summary = "the highest free devices"

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The highest free devices, with those that are required among them."""
        free = [device.id for device in node.free()]
        others = [device for device in free if device not in ask.required][::-1]
        devices = [*ask.required, *others][: ask.devices]
        return offer_by_container(ask, node, devices, lambda count, left: left[:count])

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """More free devices are better."""
        return (len(node.free()),)
