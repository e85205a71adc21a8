"""Measured bandwidth belongs to pairs of UUIDs: never to another card, and never invented."""

from __future__ import annotations

from dataclasses import replace

from linkwise.model.device import Device
from linkwise.model.inventory import Discovery, Measurement
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology
from linkwise.node.measured_bandwidth import FACT, MAX_MEASUREMENTS, with_measurement, with_measurements

TOOL = "nvbandwidth write_ce"


def machine(*ids: str, link: str = "NV2") -> Discovery:
    devices = tuple(Device(id_, index) for index, id_ in enumerate(ids))
    links = tuple(tuple(SELF if a == b else Link(link) for b in ids) for a in ids) if link else ()
    return Discovery("nvidia", devices, Topology(ids, links))


def measured(*ids: str, value: float = 40.0, tool: str = TOOL, time: float = 0.0) -> Measurement:
    return Measurement(tool, time, ids, tuple(tuple(0.0 if a == b else value for b in ids) for a in ids))


def bandwidth(found: Discovery) -> object:
    return found.topology.bandwidth if found.topology else None


def test_rows_follow_the_devices_whatever_their_order() -> None:
    one = Measurement(TOOL, 0.0, ("a", "b", "c"), ((0, 1, 2), (3, 0, 4), (5, 6, 0)))
    found = with_measurements(machine("c", "a", "b"), [one])
    assert bandwidth(found) == ((0.0, 5, 6), (2, 0.0, 1), (4, 3, 0.0))
    assert found.facts[FACT] == f"{TOOL}, 1970-01-01T00:00:00Z"


def test_values_of_a_replaced_card_are_dropped_and_its_pairs_have_their_link_kind() -> None:
    found = with_measurements(machine("a", "b", "new"), [measured("a", "b", "old")])
    assert bandwidth(found) == ((0.0, 40.0, 40.0), (40.0, 0.0, 40.0), (40.0, 40.0, 0.0))
    assert found.topology is not None
    assert found.topology.warnings == ("no bandwidth is measured between 0-2, 1-2: the value of the link kind is used",)


def test_without_links_a_new_card_leaves_the_bandwidth_out() -> None:
    before = machine("a", "b", "new", link="")
    found = with_measurements(before, [measured("a", "b", "old")])
    assert replace(found, problems=()) == before
    assert found.problems == (
        "no bandwidth is measured between 0-2, 1-2, and their links are not known; run `linkwise agent measure`",
    )


def test_measurements_of_another_machine_are_not_used() -> None:
    before = machine("x", "y")
    found = with_measurements(before, [measured("a", "b")])
    assert replace(found, problems=()) == before
    assert "of devices that this node does not have" in found.problems[0]


def test_parts_of_a_machine_that_were_idle_at_different_times_make_one_matrix() -> None:
    parts = with_measurement([measured("a", "b", "c", value=40)], measured("b", "c", value=20, time=5))
    found = with_measurements(machine("a", "b", "c"), parts)
    assert bandwidth(found) == ((0.0, 40, 40), (40, 0.0, 20), (40, 20, 0.0))


def test_a_bad_sample_does_not_stand_for_its_link_kind() -> None:
    one = Measurement(TOOL, 0.0, ("a", "b", "c"), ((0, 40, 40), (40, 0, 4), (40, 40, 0)))
    found = with_measurements(machine("a", "b", "c", "new"), [one])
    assert found.topology is not None
    assert found.topology.bandwidth[0][3] == 40
    assert found.topology.bandwidth[1][2] == 4  # as measured: topologies clean samples themselves


def test_values_of_different_tests_are_never_mixed() -> None:
    assert with_measurement([measured("a", "b", "c")], measured("a", "b", tool="p2p")) == (
        measured("a", "b", tool="p2p"),
    )


def test_a_measurement_of_the_same_devices_replaces_the_older_one() -> None:
    known = [measured("a", "b"), measured("b", "c")]
    assert with_measurement(known, measured("b", "a", time=1)) == (measured("b", "a", time=1), measured("b", "c"))


def test_a_bounded_number_of_measurements_is_kept() -> None:
    kept: tuple[Measurement, ...] = ()
    for number in range(50):
        kept = with_measurement(kept, measured(f"d{number}", f"d{number + 1}"))
    assert len(kept) == MAX_MEASUREMENTS


def test_a_node_without_devices_or_measurements_is_left_alone() -> None:
    assert with_measurements(Discovery(""), [measured("a", "b")]) == Discovery("")
    assert with_measurements(machine("a"), []) == machine("a")
