"""Sets of device positions as bit masks, their subsets, and validated questions about one machine.

Bound: subsets are generated as products of cached halves, the fastest way to enumerate them in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.errors import AskError
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Question",
    "bit_values",
    "mask_of",
    "named_mask",
    "positions",
    "products",
    "question",
    "sets_with",
    "with_lowest",
]


def mask_of(members: Iterable[int]) -> int:
    """The mask of the given positions."""
    mask = 0
    for position in members:
        mask |= 1 << position
    return mask


@lru_cache(maxsize=4096)
def positions(mask: int) -> tuple[int, ...]:
    """The positions of a mask, ascending."""
    bits = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return tuple(bits)


def named_mask(members: Iterable[object], count: int, what: str) -> int:
    """The mask of positions in user input; AskError if one is not a device or is named twice."""
    mask = 0
    if not isinstance(members, Iterable):
        raise AskError(f"{what} is {members!r}: a list of devices is expected")
    for position in members:
        if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < count:
            devices = f"devices 0 to {count - 1}" if count else "no devices"
            raise AskError(f"{what} names device {position!r}: the machine has {devices}")
        if mask >> position & 1:
            raise AskError(f"{what} names device {position} twice")
        mask |= 1 << position
    return mask


_BYTE: Final = 8
_LOW: Final = (1 << _BYTE) - 1
_BITS: Final = tuple(1 << i for i in range(MAX_DEVICES))


def bit_values(mask: int) -> list[int]:
    """The bits of a mask as masks of one bit, ascending."""
    return [bit for bit in _BITS[: mask.bit_length()] if mask & bit]


def with_lowest(mask: int, size: int) -> Iterator[int]:
    """All subsets of `size` bits with the lowest bit of the mask, in lexicographic order of positions."""
    low, *others = bit_values(mask)
    return (low + sum(chosen) for chosen in combinations(others, size - 1))


def sets_with(mask: int, required: int, size: int) -> Iterator[int]:
    """All subsets of `size` bits with the required bits, in lexicographic order of positions."""
    chosen = combinations(bit_values(mask & ~required), size - required.bit_count())
    return (required + sum(bits) for bits in chosen)


def products(mask: int, size: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The subsets of `with_lowest` in no particular order: every x | y of every pair (xs, ys).

    The xs are subsets of the mask's lower byte and the ys of its upper byte, from cached tables: a comprehension over
    both is the fastest way to enumerate all subsets in plain Python. For masks of up to 16 bits.
    """
    lower, upper = mask & _LOW, mask >> _BYTE
    if not upper:
        return [(_with_lowest(lower, size, 0), (0,))]
    if not lower:
        return [(_with_lowest(upper, size, _BYTE), (0,))]
    fewest, most = max(1, size - upper.bit_count()), min(size, lower.bit_count())
    return [(_with_lowest(lower, count, 0), _subsets(upper, size - count, _BYTE)) for count in range(fewest, most + 1)]


@cache
def _subsets(byte: int, size: int, shift: int) -> tuple[int, ...]:
    return tuple(sum(chosen) << shift for chosen in combinations(bit_values(byte), size))


@cache
def _with_lowest(byte: int, size: int, shift: int) -> tuple[int, ...]:
    return tuple(subset << shift for subset in with_lowest(byte, size))


class Question(NamedTuple):
    """A request for `size` of the free devices, including the required ones."""

    free: int
    required: int
    size: int


def question(
    count: int, size: object, available: Iterable[object] | None, required: Iterable[object]
) -> Question | Reason:
    """A question that has an answer, or the reason why it has none; AskError if it is invalid."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise AskError(f"size is {size!r}: a whole number is expected")
    free = (1 << count) - 1 if available is None else named_mask(available, count, "available")
    needed = named_mask(required, count, "required")
    if size < 1:
        return Reason("000.partition", asked=size, kind="no size")
    if missing := needed & ~free:
        # rule 000.required: all required devices are chosen, or none is.
        return Reason("000.required", asked=positions(missing), found=positions(free), kind="not free")
    if needed.bit_count() > size:
        return Reason("000.required", asked=size, found=positions(needed), kind="too many")
    if free.bit_count() < size:
        return Reason("000.partition", asked=size, found=free.bit_count(), kind="too few")
    return Question(free, needed, size)
