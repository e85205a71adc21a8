"""Records of pods, inventories and agents that contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.testing.cluster import (
    MEMORY,
    FakeNode,
    broker_of,
    device_pod,
    place,
)
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.engine.drift import DriftKind

NOW = 100.0
WHOLE, SHARE = device_pod("whole"), device_pod("share", 4, MEMORY)


def drift(broker: Broker, node: str = "n") -> list[DriftKind]:
    return [found.kind for found in state_of(broker).cluster.drift.get(node, ())]


def used(broker: Broker, node: str = "n") -> set[str]:
    return set(state_of(broker).cluster.index.nodes[node].used)


def test_an_agent_that_lists_pods_of_other_nodes_takes_nothing_from_these() -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m"))
    pod = place(broker, WHOLE, "m")
    broker.observe([FakeNode("n", allocations={pod.uid: ("n-d1", "m-d1")}).inventory_object()], NOW)
    assert (used(broker, "n"), used(broker, "m")) == ({"n-d1"}, {"m-d0"})
    assert drift(broker, "n") == ["stranger"]


def test_two_nodes_that_claim_the_same_devices_are_two_nodes() -> None:
    broker = broker_of(FakeNode("n", ids=("x0", "x1")), FakeNode("m", ids=("x0", "x1")))
    place(broker, device_pod("a", 2), "n")
    place(broker, device_pod("b", 2), "m")
    assert used(broker, "n") == used(broker, "m") == {"x0", "x1"}


def test_an_agent_that_reports_two_pods_on_one_device_is_believed_and_the_drift_reported() -> None:
    broker = broker_of(FakeNode("n", count=3))
    pods = [place(broker, device_pod(name), "n") for name in ("a", "b")]
    broker.observe([FakeNode("n", count=3, allocations={pod.uid: ("n-d1",) for pod in pods}).inventory_object()], NOW)
    assert used(broker) == {"n-d1"}
    assert drift(broker) == ["record", "record", "twice"]


def test_two_records_of_one_device_take_two_devices_because_no_device_is_handed_out_twice() -> None:
    known = FakeNode("n", count=4)
    pod = place(broker_of(known), device_pod("a"), "n")
    record = {GRANT: pod.annotations[GRANT].replace('"indices":[0],', "")}
    broker = Broker()
    broker.observe([known.view(), replace(pod, annotations=record)], NOW)
    place(broker, device_pod("b"), "n")  # which device the first has is not known, so it may be the same
    broker.observe(known.events(), NOW)
    assert drift(broker) == ["twice"]
    assert broker.filter(device_pod("c", 3), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("d", 2), ["n"], NOW).nodes == ["n"]


def test_a_record_copied_from_another_pod_is_not_believed() -> None:
    broker = broker_of(FakeNode("n"))
    theirs = place(broker, WHOLE, "n")
    copied = replace(device_pod("thief"), node="n", annotations=theirs.annotations, version=2)
    broker.observe([copied], NOW)
    assert used(broker) == {"n-d0"}
    assert state_of(broker).cluster.index.nodes["n"].unattributed == 1
    assert "not for this one" in state_of(broker).cluster.problems[copied.uid][0].sentence
