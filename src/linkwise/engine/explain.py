"""Sentences: why something is refused, and why one choice was preferred to another."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.topology.fabric import NEAR
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.model.verdict import Fact, Reason
    from linkwise.topology.bottleneck import Bottleneck
    from linkwise.topology.partition import Partition

__all__ = ["bottleneck_lost", "devices_text", "partition_lost", "refusal", "set_lost", "single_lost"]

# One line a refusal: its rule and kind, and the sentence for what was asked and what was found.
_REFUSALS: Final[dict[tuple[str, str], Callable[[Fact, Fact], str]]] = {
    ("000.partition", "no size"): lambda asked, _: f"{asked} devices are asked for; ask for at least 1",
    ("000.partition", "too few"): lambda asked, found: (
        f"{_count(asked, 'device')} {_verb(asked)} asked for and {found} {_verb(found)} available"
    ),
    ("000.required", "not free"): lambda asked, found: (
        f"{_named(asked)} {_verb(_length(asked))} required and not available; available: {_listed(found) or 'none'}"
    ),
    ("000.required", "too many"): lambda asked, found: (
        f"{_count(_length(found), 'device')} {_verb(_length(found))} required ({_listed(found)}) "
        f"and only {asked} {_verb(asked)} asked for"
    ),
}


def refusal(reason: Reason) -> str:
    """What was asked, what was found, in a sentence."""
    return _REFUSALS[reason.rule, reason.kind](reason.asked, reason.found)


def partition_lost(winner: Partition, loser: Partition) -> str:
    """Why the loser was not chosen, by link kinds."""
    if loser.total < winner.total:
        return f"the best partition with it totals {loser.total:g}, {winner.total - loser.total:g} less"
    same = f"its partition totals {loser.total:g} as well"
    if winner.devices in loser.sets and loser.score < winner.score:
        return f"{same}, but the set itself scores {winner.score - loser.score:g} less"
    alone = "the set alone scores more, but " if loser.score > winner.score else ""
    return f"{alone}{same}: of equal partitions the first by sorted positions is taken"


def single_lost(winner_loss: float, loser_loss: float) -> str:
    """Why one device was not chosen, by what the other free devices lose with it."""
    if loser_loss > winner_loss:
        return "taking it would cost the others more"
    return "taking it would cost the others as much; the lower position is taken"


def set_lost(winner: Partition, loser: Partition) -> str:
    """Why the loser was not chosen, where only the set counts."""
    if loser.score < winner.score:
        return f"the set scores {winner.score - loser.score:g} less"
    return "the set scores as much; sorted positions decide"


def bottleneck_lost(winner: Bottleneck, loser: Bottleneck) -> str:
    """Why the loser was not chosen, by bandwidth."""
    if isfinite(loser.value) and loser.value < NEAR * winner.value:
        return f"its slowest pair has {loser.value:g} GB/s instead of {winner.value:g}"
    for size, kept, lost in zip(SIZES, winner.left, loser.left, strict=False):
        if kept != lost:
            tie = f"{loser.value:g} and {winner.value:g} GB/s count as equal (within 5 %)"
            left = f"it would leave {_count(lost, 'good set')} of {size} instead of {kept}"
            return f"{tie}, but {left}" if isfinite(winner.value) else left
    return "equal within 5 % and in what it leaves to others; sorted positions decide"


def devices_text(devices: Iterable[int]) -> str:
    """A set of devices as people write it: {0,3}."""
    return "{" + ",".join(map(str, devices)) + "}"


def _count(number: Fact, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verb(number: Fact) -> str:
    return "is" if number == 1 else "are"


def _length(fact: Fact) -> int:
    return len(fact) if isinstance(fact, tuple) else 1


def _listed(fact: Fact) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def _named(fact: Fact) -> str:
    return f"device{'s' if _length(fact) > 1 else ''} {_listed(fact)}"
