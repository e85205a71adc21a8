"""All subsets of a mask that hold its lowest bit: one by one in order, or as products of ready-made halves."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import MAX_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bit_values", "products", "sets_with", "with_lowest"]

_BYTE: Final = 8
_LOW: Final = (1 << _BYTE) - 1
_BITS: Final = tuple(1 << i for i in range(MAX_DEVICES))


def bit_values(mask: int) -> list[int]:
    """The bits of a mask as masks of one bit, ascending."""
    return [bit for bit in _BITS[: mask.bit_length()] if mask & bit]


def with_lowest(mask: int, size: int) -> Iterator[int]:
    """All subsets of `size` bits that hold the lowest bit of the mask, in lexicographic order of positions."""
    low, *others = bit_values(mask)
    return (low + sum(chosen) for chosen in combinations(others, size - 1))


def sets_with(mask: int, required: int, size: int) -> Iterator[int]:
    """All subsets of `size` bits that hold the required bits, in lexicographic order of positions."""
    chosen = combinations(bit_values(mask & ~required), size - required.bit_count())
    return (required + sum(bits) for bits in chosen)


def products(mask: int, size: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The same subsets in no order: every x | y of every pair (xs, ys).

    The xs are subsets of the mask's lower byte and the ys of its upper byte, from tables made once: a comprehension
    over both is the fastest way that plain Python has to walk through all subsets. For masks of 16 bits.
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
    return tuple(found << shift for found in with_lowest(byte, size))
