"""A device that failed is used again only after a while without a fault, and a cordoned one is not allocated."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, strategies as st

from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.node.health import Recovery, with_cordons

DEVICES = tuple(Device(f"GPU-{index}", index) for index in range(3))
GOOD = Discovery("nvidia", DEVICES)
LOST = "device 1 is lost"
BAD = replace(GOOD, devices=(DEVICES[0], replace(DEVICES[1], healthy=False), DEVICES[2]), faults={"GPU-1": LOST})
HELD = f"{LOST}; it has no fault now, and is used again after 60 s without one"


def unhealthy(found: Discovery) -> list[int]:
    return [device.index for device in found.devices if not device.healthy]


def test_a_device_that_failed_is_held_back_until_it_was_clean_for_long_enough() -> None:
    recovery = Recovery(60)
    assert unhealthy(recovery.apply(BAD, 100)) == [1]
    held = recovery.apply(GOOD, 110)
    assert (unhealthy(held), held.faults) == ([1], {"GPU-1": HELD})
    assert recovery.apply(GOOD, 169) == held  # nothing to publish meanwhile
    assert recovery.apply(GOOD, 170) == GOOD


def test_another_fault_starts_the_time_again() -> None:
    recovery = Recovery(60)
    for found, now in ((BAD, 0), (GOOD, 10), (BAD, 60), (GOOD, 65)):
        recovery.apply(found, now)
    assert unhealthy(recovery.apply(GOOD, 71)) == [1]
    assert unhealthy(recovery.apply(GOOD, 125)) == []


def test_a_device_that_never_failed_is_not_held_back() -> None:
    assert Recovery(60).apply(GOOD, 0) == GOOD
    assert Recovery(60).remaining(0) is None


def test_without_a_recovery_time_a_clean_device_is_used_at_once() -> None:
    recovery = Recovery(0)
    recovery.apply(BAD, 0)
    assert recovery.apply(GOOD, 0) == GOOD


def test_the_next_recovery_is_known_so_that_it_is_not_late() -> None:
    recovery = Recovery(60)
    recovery.apply(BAD, 0)
    assert recovery.remaining(5) == 5  # it still has its fault, and may lose it soon
    recovery.apply(GOOD, 10)
    assert recovery.remaining(15) == 55


def test_a_clock_that_jumps_back_neither_releases_a_device_nor_keeps_it_for_long() -> None:
    recovery = Recovery(60)
    recovery.apply(BAD, 1000)
    recovery.apply(GOOD, 1000)
    assert unhealthy(recovery.apply(GOOD, 10)) == [1]
    assert unhealthy(recovery.apply(GOOD, 70)) == []


def test_faults_of_the_process_before_hold_devices_back_as_well() -> None:
    recovery = Recovery(60)
    assert recovery.remember({"GPU-1": HELD, "GPU-gone": "lost"})
    assert recovery.apply(GOOD, 0).faults == {"GPU-1": HELD}
    assert not recovery.remember({"GPU-1": "x"})


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=30))
def test_no_device_is_used_within_the_time_after_a_fault(steps: list[tuple[bool, float]]) -> None:
    recovery, now, clean = Recovery(60), 0.0, 0.0
    failed = False
    for healthy, pause in steps:
        now += pause
        clean = now if failed and clean < 0 and healthy else clean
        if not healthy:
            failed, clean = True, -1.0
        usable = not unhealthy(recovery.apply(GOOD if healthy else BAD, now))
        assert usable == (healthy and (not failed or now - clean >= 60))


def test_a_cordoned_device_is_not_allocated_and_says_why() -> None:
    found = with_cordons(GOOD, {"GPU-1": "ticket 4711", "#2": "", "GPU-9": "of another machine"})
    assert unhealthy(found) == [1, 2]
    assert found.faults == {"GPU-1": "it is cordoned: ticket 4711", "GPU-2": "it is cordoned"}
    assert with_cordons(GOOD, {}) is GOOD
