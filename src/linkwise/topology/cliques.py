"""Sets of devices of which every pair is at least so fast: cliques of a graph, as bit masks.

A set's bottleneck is at least t exactly when the set is a clique of the pairs worth t or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["cliques", "has_clique", "joined", "neighbours"]

Graph = tuple[int, ...]


def neighbours(values: Matrix, threshold: float) -> Graph:
    """For every device, the mask of the others whose pair with it is worth the threshold or more."""
    return tuple(
        sum(1 << j for j, value in enumerate(row) if value >= threshold and j != i) for i, row in enumerate(values)
    )


def joined(graph: Graph, members: Sequence[int], candidates: int) -> int | None:
    """The candidates that are neighbours of all members; None if the members are no clique themselves."""
    for number, member in enumerate(members):
        candidates &= graph[member]
        if any(not graph[member] >> other & 1 for other in members[number + 1 :]):
            return None
    return candidates


def has_clique(graph: Graph, candidates: int, size: int) -> bool:
    """Whether some `size` of the candidates are all neighbours of each other."""
    return size <= 0 or any(True for _ in cliques(graph, candidates, size))


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
