"""Unhealthy devices are named where they are why a pod waits."""

from __future__ import annotations

import pytest

from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import ASCEND, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, place


def lines(box: FakeNode, amount: int, resource: str) -> list[str]:
    broker = broker_of(box)
    broker.observe([device_pod("p", amount, resource)], 1.0)
    report = explain_pod(broker, "uid-p", 1.0)
    assert report is not None
    return explanation_lines(report)


def test_a_node_with_too_few_healthy_devices_says_which_are_unhealthy() -> None:
    said = lines(FakeNode("a", count=8, unhealthy=frozenset(range(1, 8))), 2, NVIDIA)
    assert said[1:3] == [
        "0 of 1 nodes are feasible (not resolved by other pods finishing)",
        "node a: 2 devices requested, but 7 of 8 are unhealthy or cordoned: 1, 2, 3, 4, 5, 6, 7",
    ]


def test_the_event_says_so_too_and_preemption_is_not_tried() -> None:
    broker, view = broker_of(FakeNode("a", count=8, unhealthy=frozenset(range(1, 8)))), device_pod("p", 2)
    broker.observe([view], 1.0)
    answer = broker.filter(view, ["a"], 1.0)
    assert dict(answer.unresolvable) == {"a": "node(s) had too few usable devices"}


def test_a_pod_that_waits_for_others_reads_of_unhealthy_devices_as_well() -> None:
    broker, view = broker_of(FakeNode("a", count=4, unhealthy=frozenset({3}))), device_pod("p", 2)
    place(broker, device_pod("other", 2), "a")
    broker.observe([view], 1.0)
    report = explain_pod(broker, view.uid, 1.0)
    assert report is not None
    said = explanation_lines(report)
    assert "node a: 2 devices requested, but only 1 of 4 is free; 1 of 4 devices is unhealthy: 3" in said
    assert dict(broker.filter(view, ["a"], 1.0).failed) == {"a": "node(s) had too few free devices"}


@pytest.mark.parametrize(
    ("family", "resource", "amount", "line"),
    [
        (
            "ring",
            ASCEND,
            4,
            "node a: ring 0 has 2 idle, ring 1 has 3 idle; 4 are needed in one ring; 3 of 8 devices are unhealthy: 0, 1, 4",
        ),
        ("share", MEMORY, 17, "node a: 17 GiB requested on one device, but the largest has 16 GiB"),
    ],
)
def test_other_policies_name_them_where_they_matter(family: str, resource: str, amount: int, line: str) -> None:
    box = FakeNode("a", family, count=8, unhealthy=frozenset({0, 1, 4}))  # type: ignore[arg-type]  # a parameter
    assert any(each.startswith(line) for each in lines(box, amount, resource))
