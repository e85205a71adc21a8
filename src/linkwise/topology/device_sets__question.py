"""What is asked of one machine, checked and turned into masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from linkwise.errors import AskError
from linkwise.model.verdict import Reason
from linkwise.topology.device_sets__bits import named_mask, positions

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Question", "question"]


class Question(NamedTuple):
    """`size` devices of the free ones, the required ones among them."""

    free: int
    required: int
    size: int


def question(
    count: int, size: object, available: Iterable[object] | None, required: Iterable[object]
) -> Question | Reason:
    """A question that has an answer, or the reason why it has none; AskError if it makes no sense."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise AskError(f"size is {size!r}: a whole number is expected")
    free = (1 << count) - 1 if available is None else named_mask(available, count, "available")
    wanted = named_mask(required, count, "required")
    if size < 1:
        return Reason("000.partition", asked=size, kind="no size")
    if missing := wanted & ~free:
        # rule 000.required: included, or the answer is empty.
        return Reason("000.required", asked=positions(missing), found=positions(free), kind="not free")
    if wanted.bit_count() > size:
        return Reason("000.required", asked=size, found=positions(wanted), kind="too many")
    if free.bit_count() < size:
        return Reason("000.partition", asked=size, found=free.bit_count(), kind="too few")
    return Question(free, wanted, size)
