"""Ring affinity policy: whole devices in layouts of rings, meshes, modules or cards, by one function per span.

The allowed counts and their layouts are data of a hardware profile; this module serves every profile. Source: seed 003,
"Affinity Policy Description" and "Scenario Classification".

Groups with the same number of idle devices are interchangeable, so a layout differs only by what it takes of how many.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.alignment import is_aligned, within
from linkwise.policies.policy import Policy, misfit, offer_by_container
from linkwise.policies.ring_profiles import RING_PROFILES, known_profile, ring_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.device import HardwareProfile, Span
    from linkwise.model.node import Node

__all__ = ["LAYOUTS", "SPANS", "RingAffinity", "RingPlacement", "group_letter", "place_in_rings", "single_number"]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_RANKS: Final = 256
"""more than the groups that a placement can break, so that a rank never outweighs health"""
Idle = list[tuple[int, ...]]
"""the idle devices of every group"""


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


class RingPlacement(NamedTuple):
    """Devices in the required layout."""

    devices: tuple[int, ...]
    rank: int
    """0 is the best possible for this count"""


def anywhere(idle: Idle, count: int, profile: HardwareProfile) -> RingPlacement | None:
    """Any idle devices, the lowest first."""
    del profile
    return _enough(chain.from_iterable(idle), count)


def one_group(idle: Idle, count: int, profile: HardwareProfile) -> RingPlacement | None:
    """Devices of the group whose idle count the profile prefers; by default the tightest group."""
    preferred = profile.preference.get(count, range(count, profile.group + 1))
    fitting = [(preferred.index(len(group)), group) for group in idle if len(group) in preferred]
    if not fitting:
        return None
    rank, group = min(fitting, key=lambda entry: entry[0])  # of equal groups the first
    return RingPlacement(group[:count], rank)


def whole_groups(idle: Idle, count: int, profile: HardwareProfile) -> RingPlacement | None:
    """Fully idle groups."""
    whole = [group for group in idle if len(group) == profile.group]
    return _enough(chain.from_iterable(whole), count)


def even_split(idle: Idle, count: int, profile: HardwareProfile) -> RingPlacement | None:
    """Half in each of two groups, at matching positions."""
    half = count // 2
    for number, first in enumerate(idle):
        for other, second in enumerate(idle[number + 1 :], number + 1):
            away = (other - number) * profile.group
            matching = [device for device in first if device + away in second][:half]
            if len(matching) == half:
                left = len(first) + len(second) - count
                return RingPlacement((*matching, *(device + away for device in matching)), min(left, profile.group - 1))
    return None


def whole_groups_first(idle: Idle, count: int, profile: HardwareProfile) -> RingPlacement | None:
    """Fully idle groups first, then groups that are partly used already; breaking a group costs rank."""
    whole = [group for group in idle if len(group) == profile.group]
    broken = [group for group in idle if 0 < len(group) < profile.group]
    full = whole[: count // profile.group]
    others: Sequence[tuple[int, ...]] = [*broken, *whole[len(full) :]]
    placement = _enough(chain.from_iterable([*full, *others]), count)
    if placement is None:
        return None
    rest = count - len(full) * profile.group
    split = count // profile.group - len(full)
    newly_broken = 0 if rest <= sum(map(len, broken)) else 1
    return RingPlacement(tuple(sorted(placement.devices)), 2 * split + newly_broken)


def _enough(devices: Iterable[int], count: int) -> RingPlacement | None:
    first = tuple(islice(devices, count))
    return RingPlacement(first, 0) if len(first) == count else None


SPANS: Final[dict[Span, Callable[[Idle, int, HardwareProfile], RingPlacement | None]]] = {
    "count": anywhere,
    "one group": one_group,
    "whole groups": whole_groups,
    "even split": even_split,
    "whole groups first": whole_groups_first,
}


def _in_one_group(idle: Idle, count: int, profile: HardwareProfile) -> Iterator[tuple[int, ...]]:
    del profile
    groups = {len(group): group for group in reversed(idle) if len(group) >= count}
    return (groups[size][:count] for size in sorted(groups))


def _in_any_groups(idle: Idle, count: int, profile: HardwareProfile) -> Iterator[tuple[int, ...]]:
    del profile
    groups = sorted(idle, key=len)

    def taken(place: int, left: int, most: int) -> Iterator[tuple[int, ...]]:
        """What groups from `place` on contribute; of equal ones none more than the one before it, which took `most`."""
        if place == len(groups):
            yield from [()] if not left else []
            return
        group = groups[place]
        equal = place > 0 and len(groups[place - 1]) == len(group)
        for own in range(min(left, len(group), most if equal else left), -1, -1):
            for rest in taken(place + 1, left - own, own):
                yield (*group[:own], *rest)

    return taken(0, count, count)


def _only_the_best(idle: Idle, count: int, profile: HardwareProfile) -> Iterator[tuple[int, ...]]:
    """None besides the best: whole groups are all equal, and of two groups an even split has no choice."""
    del idle, count, profile
    return iter(())


LAYOUTS: Final[dict[Span, Callable[[Idle, int, HardwareProfile], Iterator[tuple[int, ...]]]]] = {
    "count": _in_any_groups,
    "one group": _in_one_group,
    "whole groups": _only_the_best,
    "even split": _only_the_best,
    "whole groups first": _in_any_groups,
}
