"""Policy interface: whether an ask is valid, which devices of a node serve it, and how the offer compares.

Jobs that run on several nodes are placed by another policy, without the devices that other nodes can't reach. Source: contract
ascend, section 2: chips with a faulty network port serve jobs of one pod only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from linkwise.model.verdict import Offer, Part, Reason, Reject
from linkwise.policies.alignment import pick_aligned
from linkwise.topology.numa import on_fewest_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node

__all__ = ["AcrossNodes", "ByDevice", "Policy", "first_of", "misfit", "offer_by_container"]


class Policy(ABC):
    """One set of rules, independent of resource names, annotations and vendors."""

    name: str
    terms: tuple[str, ...]
    """the names of the score's terms, in order"""
    leading: int
    """the number of leading terms that define a class: nodes that agree in them are equally good"""
    summary: str = ""
    """which devices it takes, for explanations: `the lowest free devices`"""
    for_hardware: bool = False
    """whether it enforces rules of some hardware: requests for that hardware have no other policy, and others not it"""
    across_nodes: bool = False
    """whether it leaves out devices that other nodes can't reach, for pods of a job of several pods"""
    all_layouts: bool = False
    """whether `layouts` returns every choice that makes a difference, so that a search over them is exhaustive"""

    @abstractmethod
    def admit(self, ask: Ask) -> Reason | None:
        """The reason why no node could ever serve the ask; None if it is valid."""

    @abstractmethod
    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices of this node for a valid ask, or a refusal."""

    def layouts(self, ask: Ask, node: Node) -> Iterator[Offer]:
        """The choices of devices that make a difference to other pods, the pick first; by default only the pick."""
        offer = self.pick(ask, node)
        if isinstance(offer, Offer):
            yield offer

    @abstractmethod
    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """The score of an offer, compared with other nodes term by term; larger is better."""


class ByDevice(Policy):
    """Base of policies that allocate whole devices in any layout and differ only in which free devices they choose."""

    all_layouts = True  # any free devices will do, so one choice is as good for other pods as another

    def admit(self, ask: Ask) -> Reason | None:
        """At least one device."""
        invalid = ask.devices < 1 or ask.is_invalid()
        return Reason("002.whole", asked=ask.devices, kind="no size") if invalid else None

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """The chosen devices, if enough are free."""
        return misfit(ask, node, ask.devices) or pick_aligned(ask, node, self.choose)

    @abstractmethod
    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices for an ask, on a node that has enough free ones."""


def misfit(ask: Ask, node: Node, size: int) -> Reject | None:
    """The refusal of a node that can't allocate `size` whole devices in any layout; None if it can."""
    # rule 004.mode: a node allocates whole devices or shares of them, never both.
    if node.mode not in {"any", ask.mode}:
        return Reject(node.name, Reason("004.mode", asked=ask.mode, found=node.mode))
    # rule 002.whole: only devices without any usage are allocated; unattributed usage counts against all of them.
    free = len(node.free()) - node.unattributed - (node.unattributed_share > 0) * len(node.devices)
    if free < size:
        final = len(node.devices) < size
        unhealthy = () if final else tuple(device.index for device in node.devices if not device.healthy)
        if len(node.devices) - len(unhealthy) < size and not final:
            return Reject(
                node.name, Reason("002.whole", size, (len(node.devices), *unhealthy), "unhealthy"), final=True
            )
        kind = "too small" if final else ""
        return Reject(node.name, Reason("002.whole", size, (max(0, free), len(node.devices)), kind), final=final)
    missing = set(ask.required) - {device.id for device in node.free()}
    if missing or len(ask.required) > size:
        named = tuple(sorted(missing)) or ask.required
        return Reject(node.name, Reason("000.required", asked=named, found=_ids(node), kind="not free"))
    return None


def first_of(node: Node, available: Sequence[str], count: int, required: Collection[str] = ()) -> list[str]:
    """`count` of these devices on as few NUMA nodes as possible: the required ones, and others from the lowest index."""
    numa = {device.id: device.numa for device in node.devices}
    places = [place for place, device in enumerate(available) if device in required]
    return [available[place] for place in on_fewest_nodes([numa[device] for device in available], count, places)]


def offer_by_container(
    ask: Ask, node: Node, devices: Sequence[str], choose: Callable[[int, Sequence[str]], Sequence[str]]
) -> Offer:
    """The devices divided among the containers in the pod's order; `choose` takes a count and the remaining devices."""
    left, parts = list(devices), []
    for container in ask.containers:
        if container.devices:
            own = choose(container.devices, left) if container.devices < len(left) else left
            parts.append(Part(container.container, tuple(own)))
            left = [device for device in left if device not in own]
    return Offer(node.name, tuple(parts))


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


def _ids(node: Node) -> tuple[str, ...]:
    return tuple(device.id for device in node.free())
