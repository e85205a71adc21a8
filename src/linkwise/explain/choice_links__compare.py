"""Why one choice of devices was preferred to another, as a sentence about the one that lost."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from linkwise.topology.device_sets__bits import mask_of
from linkwise.topology.fabric import NEAR
from linkwise.topology.residual import SIZES

if TYPE_CHECKING:
    from linkwise.topology.bottleneck import Bottleneck
    from linkwise.topology.fabric import Fabric
    from linkwise.topology.partition import Partition

__all__ = ["bottleneck_lost", "partition_lost", "set_lost", "single_lost"]


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


def bottleneck_lost(fabric: Fabric, free: int, winner: Bottleneck, loser: Bottleneck) -> str:
    """Why the loser was not chosen, by bandwidth and by what both would leave of the free devices."""
    if isfinite(loser.value) and loser.value < NEAR * winner.value:
        return f"its slowest pair has {loser.value:g} GB/s instead of {winner.value:g}"
    left = [fabric.left(free & ~mask_of(choice.devices)) for choice in (winner, loser)]
    for size, kept, lost in zip(SIZES, *left, strict=True):
        if kept != lost:
            fewer = f"it would leave {lost} good set{'' if lost == 1 else 's'} of {size} instead of {kept}"
            tie = f"{loser.value:g} and {winner.value:g} GB/s count as equal (within 5 %)"
            return f"{tie}, but {fewer}" if isfinite(winner.value) else fewer
    return "equal within 5 % and in what it leaves to others; sorted positions decide"
