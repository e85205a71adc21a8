"""The bottleneck of every set of devices at once: its slowest pair, by bit mask."""

from __future__ import annotations

from array import array
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix

__all__ = ["set_bottlenecks"]


def set_bottlenecks(values: Matrix) -> array[float]:
    """Bottleneck of mask m at index m, for all 2^n masks; infinite where there is no pair.

    Sets whose last device is i are the sets without it, or what i has to them at worst: the smallest of its row, which
    is worked out by doubling with every device before i.
    """
    found = [inf]
    for i, row in enumerate(values):
        worst = [inf]
        for value in row[:i]:
            worst += [min(slowest, value) for slowest in worst]
        found += [min(other, one) for one, other in zip(found, worst, strict=True)]
    return array("d", found)
