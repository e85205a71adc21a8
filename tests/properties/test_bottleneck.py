"""Over generated machines: the bottleneck is within 5 % of the largest, and nothing near it leaves more to others."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings

from linkwise import Bottleneck, best_bottleneck
from linkwise.testing.enumeration import largest_bottleneck
from linkwise.testing.generated import Question, questions
from linkwise.topology.bits import mask_of
from linkwise.topology.fabric import fabric_of

pytestmark = pytest.mark.rule("001.single", "001.near-ties")


@settings(max_examples=300, deadline=None)
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


@settings(deadline=None)
@given(questions())
def test_the_answer_does_not_depend_on_the_order_of_the_input(asked: Question) -> None:
    first = best_bottleneck(asked.matrix, asked.size, asked.available, asked.required)
    backwards = best_bottleneck(asked.matrix, asked.size, asked.available[::-1], asked.required[::-1])
    assert first == backwards
