"""Codes of explanations: by whom a pending pod can be helped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import ASCEND, MEMORY, FakeNode, broker_of, device_pod, in_gang, place


def code(pod: PodView, *nodes: FakeNode, taken: dict[str, int] | None = None) -> str:
    """The code of a pod on these nodes, of which so many devices are taken."""
    broker = broker_of(*nodes)
    for node, count in (taken or {}).items():
        place(broker, device_pod(f"on-{node}", count), node)
    broker.observe([pod], 1.0)
    report = explain_pod(broker, pod.uid, 1.0)
    assert report is not None
    return report.code


def test_a_pod_waits_for_room_if_too_little_is_free_in_sum() -> None:
    assert code(device_pod("p", 4), FakeNode("a", count=4), FakeNode("b", count=4), taken={"a": 3, "b": 2}) == "NoRoom"


def test_enough_in_sum_but_not_on_one_node_is_fragmented() -> None:
    nodes = (FakeNode("a", count=4), FakeNode("b", count=4))
    assert code(device_pod("p", 4), *nodes, taken={"a": 1, "b": 2}) == "Fragmented"


def test_enough_idle_chips_in_the_wrong_rings_are_fragmented() -> None:
    broker = broker_of(FakeNode("a", "ring", count=8))
    for number in range(3):
        place(broker, device_pod(f"p{number}", 2, ASCEND), "a")
    broker.observe([device_pod("q", 4, ASCEND)], 1.0)
    report = explain_pod(broker, "uid-q", 1.0)
    assert report is not None
    assert report.code in {"Fragmented", "NoRoom"}


def test_memory_that_is_free_on_several_cards_only_is_fragmented() -> None:
    broker = broker_of(FakeNode("a", "share", memory=16))
    for number in range(2):
        place(broker, device_pod(f"p{number}", 9, MEMORY), "a")
    broker.observe([device_pod("q", 10, MEMORY)], 1.0)
    report = explain_pod(broker, "uid-q", 1.0)
    assert report is not None
    assert report.code == "Fragmented"


@pytest.mark.parametrize("nodes", [(), (FakeNode("a", count=2),), (FakeNode("a", "ring", count=8),)])
def test_hardware_that_is_not_there_is_no_topology(nodes: tuple[FakeNode, ...]) -> None:
    assert code(device_pod("p", 4), *nodes) == "NoTopology"


def test_a_cordoned_node_with_free_devices_excludes_the_pod() -> None:
    assert code(device_pod("p", 2), FakeNode("a", cordoned=True)) == "Excluded"


def test_an_invalid_request_is_invalid() -> None:
    assert code(device_pod("p", 3, ASCEND), FakeNode("a", "ring", count=8)) == "Invalid"
    assert code(device_pod("p", "x"), FakeNode("a")) == "Invalid"


def test_a_pod_that_fits_waits_for_its_scheduler() -> None:
    assert code(replace(device_pod("p", 1), scheduler="linkwise-scheduler"), FakeNode("a")) == "Planned"


def test_a_pod_of_a_scheduler_that_never_asked_is_left_to_it() -> None:
    broker = broker_of(FakeNode("a"))
    broker.observe([replace(device_pod("p", 1), scheduler="volcano")], 1.0)
    report = explain_pod(broker, "uid-p", 1.0)
    assert report is not None
    assert report.code == "OtherScheduler"


def test_a_gated_pod_and_an_incomplete_gang_wait_for_their_owners() -> None:
    assert code(replace(device_pod("p", 1), gates=("example.com/wait",)), FakeNode("a")) == "GangIncomplete"
    (member,) = in_gang(device_pod("m", 1), least=2, total=2)
    assert code(member, FakeNode("a")) == "GangIncomplete"


@pytest.mark.parametrize(("free", "expected"), [(4, "Fragmented"), (1, "NoRoom")])
def test_the_code_of_a_gang_says_whether_enough_is_free_in_sum(free: int, expected: str) -> None:
    broker = broker_of(FakeNode("a", count=8), FakeNode("b", count=8))
    for name in "ab":
        place(broker, device_pod(f"on-{name}", 8 - free), name)
    members = (
        in_gang(device_pod("m0", 8), least=1)
        if free == 4
        else in_gang(*(device_pod(f"m{n}", 8) for n in "01"), least=2)
    )
    broker.observe(members, 1.0)
    report = explain_group(broker, "default/g", 1.0)
    assert report is not None
    assert report.code == expected
    member = explain_pod(broker, members[0].uid, 1.0)
    assert member is not None
    assert member.code == expected


def test_a_bound_pod_is_placed_and_one_without_devices_has_no_code() -> None:
    broker = broker_of(FakeNode("a"))
    place(broker, device_pod("p", 1), "a")
    broker.observe([PodView("default", "q", "uid-q", (ContainerView("main"),))], 1.0)
    reports = [explain_pod(broker, uid, 1.0) for uid in ("uid-p", "uid-q")]
    assert [report.code for report in reports if report] == ["Placed", ""]
