"""Sets of device positions as bit masks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from linkwise.errors import AskError

__all__ = ["mask_of", "named_mask", "positions"]


def mask_of(members: Iterable[int]) -> int:
    """The mask with a bit for every position."""
    mask = 0
    for position in members:
        mask |= 1 << position
    return mask


@lru_cache(maxsize=4096)
def positions(mask: int) -> tuple[int, ...]:
    """The positions of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def named_mask(members: Iterable[object], count: int, what: str) -> int:
    """The mask of positions that a person or a program named; AskError if one is no device or named twice."""
    mask = 0
    if not isinstance(members, Iterable):
        raise AskError(f"{what} is {members!r}: a list of devices is expected")
    for position in members:
        if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < count:
            there = f"devices 0 to {count - 1}" if count else "no devices"
            raise AskError(f"{what} names device {position!r}: the machine has {there}")
        if mask >> position & 1:
            raise AskError(f"{what} names device {position} twice")
        mask |= 1 << position
    return mask
