"""Over generated machines: the chosen partition is the best there is, and always the same one."""

from __future__ import annotations

from random import Random  # noqa: TC003 - hypothesis reads the annotation

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Partition, best_partition
from support.profile import examples
from support.properties.enumeration import enumerate_best_partition
from support.properties.strategies import Question, questions

pytestmark = pytest.mark.rule("000.partition", "000.padding", "000.required", "000.ties")


@settings(max_examples=examples(300), deadline=None)
@given(questions())
def test_the_answer_is_that_of_looking_at_every_partition(asked: Question) -> None:
    expected = enumerate_best_partition(asked.matrix, asked.size, asked.available, asked.required)
    found = best_partition(asked.matrix, asked.size, asked.available, asked.required)
    assert isinstance(found, Partition)
    assert expected is not None
    assert (found.score, found.total) == (expected.score, expected.total)
    if asked.size > 1:
        assert (found.devices, found.sets) == (expected.devices, expected.sets)


@settings(deadline=None)
@given(questions(), st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_the_input(asked: Question, chooser: Random) -> None:
    shuffled = chooser.sample(asked.available, len(asked.available))
    required = chooser.sample(asked.required, len(asked.required))
    first = best_partition(asked.matrix, asked.size, asked.available, asked.required)
    assert best_partition(asked.matrix, asked.size, shuffled, required) == first


@settings(deadline=None)
@given(questions())
def test_the_partition_uses_every_available_device_once(asked: Question) -> None:
    found = best_partition(asked.matrix, asked.size, asked.available, asked.required)
    assert isinstance(found, Partition)
    assert sorted(device for members in found.sets for device in members) == sorted(asked.available)
    assert found.devices in found.sets
    assert set(asked.required) <= set(found.devices)
    assert len(found.devices) == asked.size
