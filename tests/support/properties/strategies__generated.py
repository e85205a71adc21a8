"""Generated questions about machines, for tests with hypothesis."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

__all__ = ["Question", "questions"]

# Few values make ties, many make every pair differ; both kinds of machine exist.
_KINDS = st.sampled_from([(10,), (10, 110), (10, 20, 30, 50, 110, 230, 250), tuple(range(0, 2000, 7))])


class Question(NamedTuple):
    """So many of the available devices of a machine, the required ones among them."""

    matrix: list[list[int]]
    size: int
    available: list[int]
    required: list[int]


@st.composite
def questions(draw: st.DrawFn, most: int = 8) -> Question:
    """A question that has an answer, about a machine with a symmetric matrix."""
    count = draw(st.integers(1, most))
    values = st.sampled_from(draw(_KINDS))
    matrix = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            matrix[i][j] = matrix[j][i] = draw(values)
    available = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
    size = draw(st.integers(1, len(available)))
    required = sorted(draw(st.sets(st.sampled_from(available), max_size=size)))
    return Question(matrix, size, available, required)
