"""Policy of jobs that run on several nodes: another policy, without the devices that other nodes can't reach.

Source: contract ascend, section 2: chips with a faulty network port serve jobs of one pod only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["AcrossNodes"]


class AcrossNodes(Policy):
    """The choice and the order of another policy, among the devices that other nodes can reach."""

    across_nodes = True

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.terms = policy.terms
        self.leading = policy.leading
        self.summary = policy.summary
        self.for_hardware = policy.for_hardware
        self.all_layouts = policy.all_layouts

    def admit(self, ask: Ask) -> Reason | None:
        """The same requests as for a job of one pod."""
        return self._policy.admit(ask)

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices, or a refusal that names the unreachable ones if they alone are the reason."""
        offer = self._policy.pick(ask, node.reachable())
        if isinstance(offer, Offer) or node.reachable() is node:
            return offer
        alone = self._policy.pick(ask, node)
        if isinstance(alone, Reject):
            return alone
        # rule 003.faulty: a chip with a faulty network port is excluded, but does not lower its node.
        unreachable = tuple(device.index for device in node.devices if not device.reachable)
        final = len(node.devices) - len(unreachable) < ask.devices
        return Reject(node.name, Reason("003.faulty", ask.devices, unreachable, "unreachable"), final=final)

    def layouts(self, ask: Ask, node: Node) -> Iterator[Offer]:
        """The layouts of reachable devices."""
        return self._policy.layouts(ask, node.reachable())

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """The score as if the unreachable devices were in use."""
        return self._policy.score(ask, node.reachable(), offer)
