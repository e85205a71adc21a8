"""Sets of devices of which every pair is at least so fast: cliques of a graph, as bit masks.

A set's bottleneck is at least t exactly when the set is a clique of the pairs worth t or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.topology import Matrix

__all__ = ["cliques", "neighbours"]

Graph = tuple[int, ...]


def neighbours(values: Matrix, threshold: float) -> Graph:
    """For every device, the mask of the others whose pair with it is worth the threshold or more."""
    return tuple(
        sum(1 << j for j, value in enumerate(row) if value >= threshold and j != i) for i, row in enumerate(values)
    )


def cliques(graph: Graph, candidates: int, size: int) -> Iterator[int]:
    """All sets of `size` candidates that are neighbours of each other, in lexicographic order of positions."""
    if size == 0:
        yield 0
        return
    while candidates.bit_count() >= size:
        low = candidates & -candidates
        candidates ^= low
        for rest in cliques(graph, candidates & graph[low.bit_length() - 1], size - 1):
            yield low | rest
