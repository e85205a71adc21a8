from __future__ import annotations

import random
from functools import cache
from itertools import combinations

import pytest

from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import Packing, neighbours
from support.profile import examples


def most_disjoint(values: list[list[float]], size: int, mask: int) -> int:
    """The plain way: try every good set."""
    good = [
        mask_of(found)
        for found in combinations(range(len(values)), size)
        if all(values[i][j] >= 1 for i, j in combinations(found, 2))
    ]

    @cache
    def most(left: int) -> int:
        return max((1 + most(left & ~found) for found in good if found & ~left == 0), default=0)

    return most(mask)


@pytest.mark.rule("001.near-ties")
@pytest.mark.parametrize("seed", range(examples(40)))
def test_good_sets_are_counted_as_trying_everything_does(seed: int) -> None:
    chooser = random.Random(seed)
    count, density = chooser.randint(2, 8), chooser.random()
    values = [[0.0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        values[i][j] = values[j][i] = float(chooser.random() < density)
    graph = neighbours(tuple(map(tuple, values)), 1)
    for size in (2, 4):
        packing = Packing(graph, size)
        for mask in chooser.sample(range(1 << count), min(16, 1 << count)):
            assert packing.count(mask) == most_disjoint(values, size, mask)
