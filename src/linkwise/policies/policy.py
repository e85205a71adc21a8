"""What a policy answers: is the ask well formed, which devices of a node, and how good is that beside other nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from linkwise.model.verdict import Offer, Part, Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["ByDevice", "Policy", "first_of", "misfit", "offer_by_container"]


class Policy(ABC):
    """One set of rules; it knows no resource name, annotation or vendor."""

    name: ClassVar[str]
    terms: ClassVar[tuple[str, ...]]
    """what the numbers of a score mean, in order"""
    leading: ClassVar[int]
    """how many of them make the class: nodes that agree in these are equally good"""

    @abstractmethod
    def admit(self, ask: Ask) -> Reason | None:
        """Why no node whatever could serve the ask; None if it is well formed."""

    @abstractmethod
    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices of this node for a well-formed ask, or why there are none."""

    @abstractmethod
    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """How good the offer is beside those of other nodes; larger is better, term by term."""


class ByDevice(Policy):
    """A policy that hands out whole devices, any that are free; which of them is what the rules differ in."""

    def admit(self, ask: Ask) -> Reason | None:
        """At least one device."""
        wrong = ask.devices < 1 or ask.is_invalid()
        return Reason("002.whole", asked=ask.devices, kind="no size") if wrong else None

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """Enough free devices, and of those the ones that the rules choose."""
        return misfit(ask, node, ask.devices) or self.choose(ask, node)

    @abstractmethod
    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices of a node that has enough of them."""


def misfit(ask: Ask, node: Node, size: int) -> Reject | None:
    """Why a node can't serve an ask for so many whole devices, whichever they are."""
    # rule 004.mode: a node hands out whole devices or parts of them, never both.
    if node.mode not in {"any", ask.mode}:
        return Reject(node.name, Reason("004.mode", asked=ask.mode, found=node.mode))
    # rule 002.whole: whole devices are only those of which nothing is taken, known or not.
    free = len(node.free()) - node.unattributed - (node.unattributed_share > 0) * len(node.devices)
    if free < size:
        final = len(node.devices) < size
        return Reject(node.name, Reason("002.whole", asked=size, found=(max(0, free), len(node.devices))), final=final)
    missing = set(ask.required) - {device.id for device in node.free()}
    if missing or len(ask.required) > size:
        named = tuple(sorted(missing)) or ask.required
        return Reject(node.name, Reason("000.required", asked=named, found=_ids(node), kind="not free"))
    return None


def _ids(node: Node) -> tuple[str, ...]:
    return tuple(device.id for device in node.free())


def first_of(free: Sequence[str], ask: Ask) -> list[str]:
    """As many as asked, the required ones among them, the others from the lowest index."""
    others = [device for device in free if device not in ask.required][: ask.devices - len(ask.required)]
    return [device for device in free if device in ask.required or device in others]


def offer_by_container(
    ask: Ask, node: Node, devices: Sequence[str], choose: Callable[[int, Sequence[str]], Sequence[str]]
) -> Offer:
    """The devices divided among the containers, in the order of the pod; `choose` takes so many of those left."""
    left, parts = list(devices), []
    for container in ask.containers:
        if container.devices:
            own = choose(container.devices, left) if container.devices < len(left) else left
            parts.append(Part(container.container, tuple(own)))
            left = [device for device in left if device not in own]
    return Offer(node.name, tuple(parts))
