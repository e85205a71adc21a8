"""What a replica does about the Lease, by what it has seen of it on its own clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.kube.leader.election import (
    Fence,
    LeaseSpec,
    LeaseTimes,
    Sighting,
    decide,
    observe,
    released,
    renewed,
    taken,
)

TIMES = LeaseTimes(15.0, 10.0, 2.0)
ME, OTHER = "a_1", "b_2"
HELD = LeaseSpec(OTHER, 15, "t0", "t1", 3, "100")


def seen(*specs: LeaseSpec | None, at: float = 100.0) -> Sighting:
    """A replica that saw these, one second after the other."""
    last = Sighting()
    for number, spec in enumerate(specs):
        last = observe(last, spec, ME, at + number, TIMES)
    return last


def test_nothing_is_done_before_the_lease_was_looked_for() -> None:
    assert decide(Sighting(), ME, 1e9) == "wait"


def test_an_absent_lease_is_created_at_once() -> None:
    assert decide(seen(None), ME, 100.0) == "create"


def test_a_released_lease_is_taken_at_once() -> None:
    assert decide(seen(HELD, replace(HELD, holder="", version="101")), ME, 101.0) == "take"


def test_the_lease_of_another_is_taken_a_full_duration_after_its_last_renewal_was_seen() -> None:
    last = seen(HELD, replace(HELD, version="101"))
    assert [decide(last, ME, now) for now in (101.0, 115.9, 116.0)] == ["wait", "wait", "take"]


def test_looking_again_at_the_same_lease_does_not_prolong_it() -> None:
    assert seen(HELD, HELD, HELD) == seen(HELD)


def test_a_renewal_is_seen_by_its_version_even_if_the_clock_of_the_holder_stands_still() -> None:
    last = seen(HELD, replace(HELD, version="101"))
    assert decide(last, ME, 115.0) == "wait"


def test_the_longer_of_two_durations_counts() -> None:
    last = seen(replace(HELD, duration=60))
    assert [decide(last, ME, now) for now in (159.9, 160.0)] == ["wait", "take"]


def test_a_lease_that_was_deleted_under_its_holder_is_created_only_when_the_holder_has_stopped_writing() -> None:
    last = seen(HELD, None)
    assert [decide(last, ME, now) for now in (114.9, 115.0)] == ["wait", "create"]


def test_a_lease_of_this_replica_is_renewed_however_late() -> None:
    assert decide(seen(replace(HELD, holder=ME)), ME, 1e6) == "renew"


@pytest.mark.parametrize("found", [HELD, replace(HELD, holder=""), None])
def test_a_replica_that_led_and_finds_the_lease_changed_has_lost_it(found: LeaseSpec | None) -> None:
    assert decide(seen(replace(HELD, holder=ME), found), ME, 1e6) == "lost"


def test_a_lease_that_is_taken_counts_another_transition_and_one_that_is_renewed_does_not() -> None:
    mine = taken(HELD, ME, 15, "t2")
    assert mine == LeaseSpec(ME, 15, "t2", "t2", 4)
    assert renewed(mine, 20, "t3") == replace(mine, duration=20, renewed="t3")
    assert taken(None, ME, 15, "t2").transitions == 0


def test_a_released_lease_has_no_holder_and_a_valid_duration() -> None:
    given_up = released(HELD, "t9")
    assert (given_up.holder, given_up.duration, given_up.renewed, given_up.transitions) == ("", 1, "t9", 3)


def test_writes_are_allowed_from_the_start_of_a_renewal_until_the_deadline() -> None:
    fence = Fence(10.0, open=True)
    assert not fence.may_write(0.0)
    fence.renew(100.0)
    assert [fence.may_write(now) for now in (100.0, 109.9, 110.0)] == [True, True, False]


def test_nothing_may_be_written_before_the_replica_has_taken_over() -> None:
    fence = Fence(10.0)
    fence.renew(100.0)
    assert (fence.holds(101.0), fence.may_write(101.0)) == (True, False)
