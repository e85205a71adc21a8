"""Over generated machines: the bottleneck is within 5 % of the largest, and nothing near it leaves more to others."""

from __future__ import annotations

from itertools import combinations
from math import inf

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Bottleneck, best_bottleneck
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of
from support.profile import examples
from support.properties.enumeration import largest_bottleneck
from support.properties.strategies import Question, questions

pytestmark = pytest.mark.rule("001.single", "001.near-ties")


@settings(max_examples=examples(300), deadline=None)
@given(questions())
def test_no_set_within_five_percent_leaves_more_or_comes_earlier(asked: Question) -> None:
    found = best_bottleneck(asked.matrix, asked.size, asked.available, asked.required)
    best = largest_bottleneck(asked.matrix, asked.size, asked.available, asked.required)
    assert isinstance(found, Bottleneck)
    assert best is not None
    assert found.value >= 0.95 * best
    fabric = fabric_of(asked.matrix)
    ties = [
        devices
        for devices in combinations(asked.available, asked.size)
        if set(asked.required) <= set(devices) and fabric.bottleneck(mask_of(devices)) >= 0.95 * best
    ]
    free = mask_of(asked.available)
    assert found.devices == max(ties, key=lambda devices: fabric.left(free ^ mask_of(devices)))


@settings(max_examples=examples(150), deadline=None)
@given(
    questions(most=6),
    st.lists(st.sampled_from([0.0, 5.0, 15.5, 16.4, 48.3, 48.4, 96.2, 96.5]), min_size=36, max_size=36),
)
def test_noisy_directions_are_mended_and_what_is_left_is_counted_as_the_plain_way_does(
    asked: Question, samples: list[float]
) -> None:
    count = len(asked.matrix)
    matrix = [samples[i * count : (i + 1) * count] for i in range(count)]
    slower = {(i, j): min(matrix[i][j], matrix[j][i]) for i, j in combinations(range(count), 2)}
    faster = {(i, j): max(matrix[i][j], matrix[j][i]) for i, j in combinations(range(count), 2)}
    value = {pair: faster[pair] if slower[pair] < faster[pair] / 2 else slower[pair] for pair in slower}

    def worst(devices: tuple[int, ...]) -> float:
        return min((value[pair] for pair in combinations(sorted(devices), 2)), default=inf)

    def most_disjoint(left: frozenset[int], size: int) -> int:
        best = max((worst(found) for found in combinations(range(count), size)), default=inf)
        good = [frozenset(found) for found in combinations(sorted(left), size) if worst(found) >= 0.95 * best]
        return max((1 + most_disjoint(left - found, size) for found in good), default=0)

    sets = [found for found in combinations(asked.available, asked.size) if set(asked.required) <= set(found)]
    ties = [found for found in sets if worst(found) >= 0.95 * max(map(worst, sets))]
    free = frozenset(asked.available)
    expected = max(ties, key=lambda found: tuple(most_disjoint(free - set(found), size) for size in (4, 2)))
    answer = best_bottleneck(matrix, asked.size, asked.available, asked.required)
    assert isinstance(answer, Bottleneck)
    assert (answer.devices, answer.value) == (expected, worst(expected))


@settings(deadline=None)
@given(questions())
def test_the_answer_does_not_depend_on_the_order_of_the_input(asked: Question) -> None:
    first = best_bottleneck(asked.matrix, asked.size, asked.available, asked.required)
    backwards = best_bottleneck(asked.matrix, asked.size, asked.available[::-1], asked.required[::-1])
    assert first == backwards
