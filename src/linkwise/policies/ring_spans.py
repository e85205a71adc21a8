"""Device layouts, one function per span: the best devices with their rank, 0 being the best, and all layouts that differ.

Groups with the same number of idle devices are interchangeable, so a layout differs only by what it takes of how many.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from linkwise.model.device import HardwareProfile, Span

__all__ = ["LAYOUTS", "SPANS", "RingPlacement"]

Idle = list[tuple[int, ...]]
"""the idle devices of every group"""


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
