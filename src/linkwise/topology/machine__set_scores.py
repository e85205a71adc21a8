"""The score of every set of devices at once: the sum over its pairs, by bit mask."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix

__all__ = ["pair_scores", "set_scores"]


def set_scores(pairs: Matrix) -> list[float]:
    """Score of mask m at index m, for all 2^n masks; one addition a mask.

    Sets whose last device is i are the sets without it, plus what i adds: a sum of its row that
    doubles with every device before i.
    """
    scores = [0.0]
    for i, row in enumerate(pairs):
        added = [0.0]
        for value in row[:i]:
            added += [total + value for total in added]
        scores += map(add, scores, added)
    return scores


def pair_scores(pairs: Matrix) -> list[float]:
    """The same for sets of two devices or fewer, and nothing for others: all that partitions into pairs need."""
    scores = [0.0] * (1 << len(pairs))
    for i, row in enumerate(pairs):
        for j, value in enumerate(row[:i]):
            scores[1 << i | 1 << j] = value
    return scores
