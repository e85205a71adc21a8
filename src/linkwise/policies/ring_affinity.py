"""Ring affinity policy: whole devices in layouts of rings, meshes, modules or cards.

The allowed counts and their layouts are data of a hardware profile; this module serves every profile. Source: seed 003,
"Affinity Policy Description" and "Scenario Classification".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.alignment import is_aligned, within
from linkwise.policies.policy import Policy, misfit, offer_by_container
from linkwise.policies.ring_profiles import RING_PROFILES, known_profile, ring_profile
from linkwise.policies.ring_spans import LAYOUTS, SPANS, RingPlacement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.model.ask import Ask
    from linkwise.model.device import HardwareProfile
    from linkwise.model.node import Node

__all__ = ["RingAffinity", "group_letter", "place_in_rings", "single_number"]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_RANKS: Final = 256


class RingAffinity(Policy):
    """Devices in an allowed layout, on the node with the most healthy and the fewest idle devices."""

    name = "ring-affinity"
    terms = ("health", "group", "packing")
    leading = 3  # the vendor's table is a total order: no two different states are equally good
    for_hardware = True
    all_layouts = True

    def admit(self, ask: Ask) -> Reason | None:
        """A count that the pod's hardware profile allows; without a profile, the counts of the Ascend 910."""
        profile = known_profile(ask.profile)
        if profile is None:
            return Reason("003.predicate", asked=ask.profile, found=tuple(RING_PROFILES), kind="unknown profile")
        return _count_refused(profile, ask)

    def pick(self, ask: Ask, node: Node) -> Offer | Reject:
        """The devices in the layout that the count requires, the lowest of the best group."""
        profile = known_profile(node.profile)
        requested = known_profile(ask.profile) if ask.profile else profile
        if profile is None or requested is None:
            unknown = node.profile if profile is None else ask.profile
            return Reject(node.name, Reason("003.predicate", asked=unknown, kind="unknown profile"), final=True)
        if requested is not profile:
            other = Reason("003.predicate", asked=requested.name, found=profile.name, kind="profile")
            return Reject(node.name, other, final=True)
        refused = _count_refused(profile, ask)
        if refused:
            return Reject(node.name, refused, final=True)
        there = misfit(ask, node, ask.devices) or within(ask, node)
        if isinstance(there, Reject):
            return there
        node = there
        ids = {device.index: device.id for device in node.devices}
        required = {index for index, device in ids.items() if device in ask.required}
        placement = place_in_rings(profile, node, ask.devices, required)
        if placement is None:
            # rule 003.predicate: enough devices, but not in the layout; the reason has the idle count of every group.
            idle = tuple(map(len, _idle(profile, node)))
            kind = profile.span(ask.devices) or ""
            return Reject(
                node.name, Reason("003.predicate", asked=ask.devices, found=idle, kind=kind, noun=profile.noun)
            )
        devices = [ids[index] for index in placement.devices]
        return offer_by_container(ask, node, devices, lambda count, left: left[:count])

    def layouts(self, ask: Ask, node: Node) -> Iterator[Offer]:
        """The pick, then the same layout in other groups: which groups are left decides on what other pods fit."""
        offer = self.pick(ask, node)
        if not isinstance(offer, Offer):
            return
        yield offer
        profile = ring_profile(node.profile)
        span = profile.span(ask.devices)
        if span is None or ask.required or is_aligned(node):
            return
        ids = {device.index: device.id for device in node.devices}
        for chosen in LAYOUTS[span](_idle(profile, node), ask.devices, profile):
            devices = [ids[index] for index in chosen]
            yield offer_by_container(ask, node, devices, lambda count, left: left[:count])

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """The number of healthy devices, the rank of the placement, and packing."""
        del offer
        profile = ring_profile(node.profile)
        there = within(ask, node)
        placement = None if isinstance(there, Reject) else place_in_rings(profile, there, ask.devices)
        rank = placement.rank if placement else profile.group
        healthy, idle = len(node.healthy()), len(node.free())
        # rule 003.order: one tuple orders all nodes that fit.
        if profile.order == "health and fit":
            return (healthy - rank, 0, -idle)
        # rule 003.faulty: an unhealthy device counts as used, and a node with more healthy devices goes first.
        # rule 003.groups: then the priority group, A before D.
        # rule 003.full: then the node with fewer idle devices, which is the vendor's order of the other ring.
        # rule 003.even: these three terms determine the idle devices of both rings, so nothing is left to decide.
        return (healthy, -rank, -idle)


def place_in_rings(
    profile: HardwareProfile, node: Node, count: int, required: Collection[int] = ()
) -> RingPlacement | None:
    """The devices in the layout that the count requires, with the required ones, and their rank; None if there are none."""
    span, idle = profile.span(count), _idle(profile, node)
    if required:
        home = span == "one group"
        idle = [() if home and not set(group) >= set(required) else _first(group, required) for group in idle]
    placement = SPANS[span](idle, count, profile) if span else None
    return placement if placement and set(placement.devices) >= set(required) else None


def _first(group: tuple[int, ...], required: Collection[int]) -> tuple[int, ...]:
    return tuple(sorted(group, key=lambda device: (device not in required, device)))


def group_letter(placement: RingPlacement) -> str:
    """The priority group as the vendor names it: A is the best."""
    return LETTERS[min(placement.rank, len(LETTERS) - 1)]


def single_number(profile: HardwareProfile, score: tuple[int, ...]) -> int:
    """A score as one number of the same order; for the Ascend 910 it is the vendor's own formula."""
    health, rank, idle = score
    ranks = 1 if profile.order == "health and fit" else MOST_RANKS if profile.ranks_by_breaks() else profile.group
    devices = profile.devices or 64
    return devices * (ranks * health + rank) + (devices + idle)


def _count_refused(profile: HardwareProfile, ask: Ask) -> Reason | None:
    # rule 003.count: a count that the table does not have is refused before any node is evaluated.
    if profile.span(ask.devices) is not None and not ask.is_invalid():
        return None
    return Reason("003.count", asked=ask.devices, found=profile.counts(), noun=profile.name)


def _idle(profile: HardwareProfile, node: Node) -> list[tuple[int, ...]]:
    """The idle devices of every group, by index."""
    free = {device.index for device in node.free()}
    count = max([profile.devices, *(device.index + 1 for device in node.devices)])
    return [tuple(index for index in group if index in free) for group in profile.groups(count)]
