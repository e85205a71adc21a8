from __future__ import annotations

import pytest

from linkwise.testing.machines import topology_of
from linkwise.topology.canonical import clean_samples
from support.builders.seed_machines import M1, M2


@pytest.mark.rule("001.suspect")
def test_the_bad_samples_of_seed_001_are_found_and_replaced() -> None:
    first, second = clean_samples(M1), clean_samples(M2)
    assert (first.suspects, second.suspects) == (((0, 4), (1, 4)), ((2, 3),))
    assert (first.values[1][4], first.values[0][4], second.values[2][3]) == (16.81, 15.77, 96.48)


@pytest.mark.rule("001.suspect")
def test_a_suspect_takes_what_other_pairs_of_its_kind_have() -> None:
    links = topology_of("X SYS SYS SYS\nSYS X SYS NV1\nSYS SYS X NV1\nSYS NV1 NV1 X").links
    samples = ((0, 3.0, 11.0, 15.0), (30.0, 0, 13.0, 48.0), (11.0, 13.0, 0, 48.0), (15.0, 48.0, 48.0, 0))
    assert clean_samples(samples, links).values[0][1] == 13.0  # the middle of 11, 13 and 15


@pytest.mark.rule("001.suspect")
def test_a_suspect_without_kin_takes_the_usual_value_of_its_kind() -> None:
    links = topology_of("X NV2\nNV2 X").links
    assert clean_samples(((0, 4.0), (90.0, 0)), links).values[0][1] == 96.0


@pytest.mark.rule("001.suspect")
def test_a_suspect_of_unknown_kind_takes_the_faster_direction() -> None:
    links = topology_of("X ? SYS\n? X ?\nSYS ? X").links
    assert clean_samples(((0, 4.0, 16.0), (90.0, 0, 50.0), (16.0, 50.0, 0)), links).values[0][1] == 90.0


@pytest.mark.rule("001.bottleneck")
def test_of_two_directions_the_slower_counts() -> None:
    assert clean_samples(((0, 50.0), (40.0, 0))).values == ((0, 40.0), (40.0, 0))


def test_exactly_half_is_still_believed() -> None:
    assert clean_samples(((0, 50.0), (25.0, 0))).suspects == ()
    assert clean_samples(((0, 50.0), (24.9, 0))).suspects == ((0, 1),)


def test_a_dead_direction_is_suspect() -> None:
    assert clean_samples(((0, 50.0), (0.0, 0))).suspects == ((0, 1),)
