"""Whole devices by the groups they form: rings, meshes, modules, cards.

Source: seed 003, "Affinity Policy Description" and "Scenario Classification". Which counts may be asked and how each
must lie is a profile's data; what is here serves every profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.policy import Policy, misfit, offer_by_container
from linkwise.policies.ring_profiles import known_profile, ring_profile
from linkwise.policies.ring_spans import SPANS, RingPlacement

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.model.ask import Ask
    from linkwise.model.device import HardwareProfile
    from linkwise.model.node import Node

__all__ = ["RingAffinity", "group_letter", "place_in_rings", "single_number"]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_RANKS: Final = 256


class RingAffinity(Policy):
    """Devices that may lie together, on the soundest and fullest node."""

    name = "ring-affinity"
    terms = ("health", "group", "packing")
    leading = 3  # the seed's table orders all nodes: no two states of it are equally good

    def admit(self, ask: Ask) -> Reason | None:
        """A count that the hardware can serve; a pod that names no hardware keeps to the 910's counts."""
        profile = known_profile(ask.profile)
        if profile is None:
            return Reason("003.predicate", asked=ask.profile, kind="unknown profile")
        return _count_refused(profile, ask)

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """Devices that lie as the count demands; the lowest of the best group."""
        profile = known_profile(node.profile)
        wanted = known_profile(ask.profile) if ask.profile else profile
        if profile is None or wanted is None:
            unknown = node.profile if profile is None else ask.profile
            return Reject(node.name, Reason("003.predicate", asked=unknown, kind="unknown profile"), final=True)
        if wanted is not profile:
            other = Reason("003.predicate", asked=wanted.name, found=profile.name, kind="profile")
            return Reject(node.name, other, final=True)
        refused = _count_refused(profile, ask)
        if refused:
            return Reject(node.name, refused, final=True)
        short = misfit(ask, node, ask.devices)
        if short:
            return short
        ids = {device.index: device.id for device in node.devices}
        required = {index for index, device in ids.items() if device in ask.required}
        lying = place_in_rings(profile, node, ask.devices, required)
        if lying is None:
            # rule 003.predicate: enough devices, and none of them lie as they must; every group's number is told.
            idle = tuple(map(len, _idle(profile, node)))
            kind = profile.span(ask.devices) or ""
            return Reject(
                node.name, Reason("003.predicate", asked=ask.devices, found=idle, kind=kind, noun=profile.noun)
            )
        devices = [ids[index] for index in lying.devices]
        return offer_by_container(ask, node, devices, lambda count, left: left[:count])

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Sound devices of the node, how well the group fits, and how few devices are idle."""
        del offer
        profile = ring_profile(node.profile)
        lying = place_in_rings(profile, node, ask.devices)
        rank = lying.rank if lying else profile.group
        healthy, idle = len(node.healthy()), len(node.free())
        # rule 003.order: one tuple orders all nodes that fit.
        if profile.order == "health and fit":
            return (healthy - rank, 0, -idle)
        # rule 003.faulty: a faulty device counts as used, and a sounder node goes first whatever the group.
        # rule 003.groups: then the group, A before D.
        # rule 003.full: then the fuller node; with the group fixed that is the other ring ascending.
        # rule 003.even: nothing is left to decide: these three fix how many devices both rings have.
        return (healthy, -rank, -idle)


def place_in_rings(
    profile: HardwareProfile, node: Node, count: int, required: Collection[int] = ()
) -> RingPlacement | None:
    """Which devices lie as so many must, the required ones among them, and how good that is; None if none do."""
    span, idle = profile.span(count), _idle(profile, node)
    if required:
        home = span == "one group"
        idle = [() if home and not set(group) >= set(required) else _first(group, required) for group in idle]
    lying = SPANS[span](idle, count, profile) if span else None
    return lying if lying and set(lying.devices) >= set(required) else None


def _first(group: tuple[int, ...], required: Collection[int]) -> tuple[int, ...]:
    return tuple(sorted(group, key=lambda device: (device not in required, device)))


def group_letter(lying: RingPlacement) -> str:
    """The priority group as the seed names it: A is the best."""
    return LETTERS[min(lying.rank, len(LETTERS) - 1)]


def single_number(profile: HardwareProfile, score: tuple[int, ...]) -> int:
    """A score as one number in the same order; for the 910 it is the vendor's own formula."""
    health, rank, idle = score
    ranks = 1 if profile.order == "health and fit" else MOST_RANKS if profile.ranks_by_breaks() else profile.group
    devices = profile.devices or 64
    return devices * (ranks * health + rank) + (devices + idle)


def _count_refused(profile: HardwareProfile, ask: Ask) -> Reason | None:
    # rule 003.count: a count that no row of the table has is refused before any node is looked at.
    if profile.span(ask.devices) is not None and not ask.is_invalid():
        return None
    return Reason("003.count", asked=ask.devices, found=profile.counts(), noun=profile.name)


def _idle(profile: HardwareProfile, node: Node) -> list[tuple[int, ...]]:
    """The idle devices of every group, by index."""
    free = {device.index for device in node.free()}
    count = max([profile.devices, *(device.index + 1 for device in node.devices)])
    return [tuple(index for index in group if index in free) for group in profile.groups(count)]
