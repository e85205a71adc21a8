"""Devices that the agent holds for a measurement: no pod is placed on them until the hold ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Wake
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.explain.node import explain_node, node_lines
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.model.views import PodView

NOW = 1_000_000.0  # 1970-01-12T13:46:40Z
UNTIL = "1970-01-12T13:56:40Z"
END = NOW + 600
BOX = FakeNode("n", count=4)


def held(*holds: Any) -> NodeObject:  # noqa: ANN401 - a test may hold anything
    document: Any = BOX.inventory_object().document
    return NodeObject("n", KIND, {**document, "spec": {**document["spec"], "holds": list(holds)}})


def hold(device: str, until: str = UNTIL) -> dict[str, str]:
    return {"uuid": device, "reason": "bandwidth measurement", "until": until}


def devices_of(pod: PodView) -> set[str]:
    containers = json.loads(pod.annotations[GRANT])["containers"].values()
    return {device for part in containers for device in part["devices"]}


def test_a_held_device_is_not_granted() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"), hold("n-d1"))], NOW)
    assert broker.filter(device_pod("large", 3), ["n"], NOW).nodes == []
    assert devices_of(place(broker, device_pod("w", 2), "n", NOW)) == {"n-d2", "n-d3"}


def test_a_hold_of_an_agent_that_died_ends_by_the_clock_and_wakes_who_waits() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"))], NOW)
    pod = device_pod("large", 4)
    broker.observe([pod], NOW)
    assert broker.filter(pod, ["n"], NOW).nodes == []
    assert broker.next_deadline() is not None
    assert not [one for one in broker.step(END - 1) if isinstance(one, Wake)]
    assert [one.name for one in broker.step(END) if isinstance(one, Wake)] == ["large"]
    assert broker.filter(pod, ["n"], END).nodes == ["n"]


def test_the_next_deadline_is_the_end_of_the_first_hold() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"), hold("n-d1", "1970-01-12T13:50:00Z"))], NOW)
    assert broker.next_deadline() == NOW + 200
    broker.step(NOW + 200)
    assert broker.next_deadline() == END


def test_an_ended_hold_that_is_shown_again_holds_nothing() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"))], END + 1)
    assert broker.filter(device_pod("large", 4), ["n"], END + 1).nodes == ["n"]


def test_a_hold_that_the_agent_removes_ends_at_once() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"))], NOW)
    broker.observe([BOX.inventory_object()], NOW + 1)
    assert broker.filter(device_pod("large", 4), ["n"], NOW + 1).nodes == ["n"]
    assert broker.next_deadline() is None or broker.next_deadline() != END


def test_a_pod_that_has_a_held_device_keeps_it_and_is_no_drift() -> None:
    broker = broker_of(BOX)
    first = place(broker, device_pod("w", 2), "n", NOW)
    broker.observe([held(*map(hold, sorted(devices_of(first))))], NOW)
    assert (set(broker.usage["n"].used), dict(broker.drift)) == (devices_of(first), {})


def test_explain_says_who_holds_a_device_and_until_when() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d1"))], NOW)
    report = explain_node(broker, "n", NOW)
    assert report is not None
    assert f"device 1: held by the agent until {UNTIL}: bandwidth measurement" in node_lines(report)
    assert "3 idle" in node_lines(report)[0]


def test_a_node_whose_agent_has_ended_is_refused_with_a_reason_until_an_agent_serves_it_again() -> None:
    broker, why = broker_of(BOX), "the kubelet has no connection to the device plugin"
    pod = device_pod("w", 2)
    broker.observe([pod], NOW)
    assert broker.filter(pod, ["n"], NOW).nodes == ["n"]
    broker.observe([held(*({**hold(f"n-d{index}"), "reason": why} for index in range(4)))], NOW)
    assert "2 devices requested, but none of 4 is free" in broker.bind(pod.uid, "n", NOW).error
    assert broker.filter(pod, ["n"], NOW).nodes == []
    report = explain_pod(broker, pod.uid, NOW)
    assert report is not None
    remark = f"devices 0, 1, 2, 3 are held by the node agent: {why}"
    assert any(remark in line for line in explanation_lines(report))
    woken = broker.observe([BOX.inventory_object()], NOW + 1)
    assert [one.name for one in (*woken, *broker.step(NOW + 1)) if isinstance(one, Wake)] == ["w"]
    assert broker.filter(pod, ["n"], NOW + 1).nodes == ["n"]
    assert broker.bind(pod.uid, "n", NOW + 1).error == ""


@pytest.mark.parametrize(
    "broken",
    [
        "n-d0",
        {"uuid": "n-d0"},
        {"uuid": "n-d0", "until": 5},
        {"uuid": "n-d0", "until": "tomorrow"},
        {"uuid": "n-d0", "until": "2026-01-01T00:00:00"},
        {"uuid": "", "until": UNTIL},
        {"uuid": ["n-d0"], "until": UNTIL},
    ],
)
def test_an_invalid_hold_is_a_problem_and_holds_nothing(broken: object) -> None:
    broker = broker_of(BOX)
    broker.observe([held(broken)], NOW)
    assert broker.filter(device_pod("large", 4), ["n"], NOW).nodes == ["n"]
    assert any("spec.holds[0]" in problem.sentence for problem in broker.inventories["n"].problems)


def test_a_hold_on_a_device_that_the_node_does_not_have_changes_nothing() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("other"))], NOW)
    assert broker.filter(device_pod("large", 4), ["n"], NOW).nodes == ["n"]


def test_a_restored_broker_still_holds() -> None:
    broker = broker_of(BOX)
    broker.observe([held(hold("n-d0"))], NOW)
    restored = Broker.restore(broker.snapshot(NOW))
    assert restored.filter(device_pod("large", 4), ["n"], NOW).nodes == []
