"""Rows of `linkwise top`: what agents have published, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.linkwise.usage import usage_fields, with_usage
from linkwise.explain.published.allocations import STALE, node_usage_rows, pod_usage_rows
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

GIB = 1 << 30
NOW = 1_800_000_000.0


def publish(broker: Broker, node: str, usage: NodeUsage, at: float = NOW) -> None:
    known = broker.state_at(NOW).cluster.objects.of(node).get(KIND) or {"metadata": {"name": node}, "spec": {}}
    time = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    broker.observe([NodeObject(node, KIND, dict(with_usage(known, usage_fields(usage, time))))], NOW)


def busy(pod: str, *, share: int | None = None) -> NodeUsage:
    devices = (DeviceUsage("GPU-0", 16 * GIB, 8 * GIB, 50), DeviceUsage("GPU-1", 16 * GIB, 0, 0))
    return NodeUsage(devices, (PodUsage(f"uid-{pod}", "default", pod, "GPU-0", 6 * GIB, 40, share),))


@pytest.fixture
def broker() -> Broker:
    made = broker_of(FakeNode("a", count=2), FakeNode("b", count=2))
    place(made, device_pod("p", 1), "a")
    place(made, replace(device_pod("q", 1), namespace="team-b"), "b")
    return made


@pytest.mark.rule("002.usage")
def test_a_node_is_the_sum_of_its_devices(broker: Broker) -> None:
    publish(broker, "a", busy("p"), NOW - 20)
    row = node_usage_rows(broker, NOW).nodes[0]
    assert (row.name, row.devices, row.idle) == ("a", 2, 1)
    assert (row.used, row.total, row.utilization, row.age) == (8 * GIB, 32 * GIB, 25, 20.0)


@pytest.mark.rule("002.usage")
def test_a_pod_is_measured_by_what_it_was_allocated(broker: Broker) -> None:
    publish(broker, "a", busy("p"))
    (whole,) = pod_usage_rows(broker, NOW, "default").pods
    assert (whole.name, whole.node, whole.used, whole.total) == ("p", "a", 6 * GIB, 16 * GIB)
    publish(broker, "a", busy("p", share=8 * GIB))
    (shared,) = pod_usage_rows(broker, NOW, "default").pods
    assert shared.total == 8 * GIB


def test_nodes_that_publish_nothing_are_named(broker: Broker) -> None:
    publish(broker, "a", busy("p"))
    found = node_usage_rows(broker, NOW)
    assert [(row.name, row.used is None) for row in found.nodes] == [("a", False), ("b", True)]
    (note,) = found.notes
    assert note.startswith("node b: no usage is published: check that the agent runs there")


def test_usage_of_an_agent_that_is_gone_is_named(broker: Broker) -> None:
    publish(broker, "a", busy("p"), NOW - STALE - 1)
    (note,) = pod_usage_rows(broker, NOW, "default").notes
    assert note == "node a: the published usage is older than 10 minutes: check that the agent runs there"


def test_a_pod_that_is_not_measured_yet_is_listed_as_unknown(broker: Broker) -> None:
    publish(broker, "a", NodeUsage((DeviceUsage("GPU-0", 16 * GIB, 0, 0),)))
    found = pod_usage_rows(broker, NOW, "default")
    assert [(row.name, row.used, row.devices) for row in found.pods] == [("p", None, 0)]
    assert found.notes == ("pod default/p: no usage is published yet",)


def test_one_value_that_is_unknown_makes_the_sum_unknown(broker: Broker) -> None:
    devices = (DeviceUsage("GPU-0", 16 * GIB, None, 50), DeviceUsage("GPU-1", 16 * GIB, GIB, None))
    publish(broker, "a", NodeUsage(devices))
    row = node_usage_rows(broker, NOW).nodes[0]
    assert (row.used, row.total, row.utilization) == (None, 32 * GIB, None)


def test_pods_of_other_namespaces_are_not_listed(broker: Broker) -> None:
    assert [row.name for row in pod_usage_rows(broker, NOW, "default").pods] == ["p"]
    assert [row.name for row in pod_usage_rows(broker, NOW, None).pods] == ["p", "q"]


def test_a_summary_of_usage_changes_no_decision(broker: Broker) -> None:
    before = broker.state_at(NOW).cluster
    publish(broker, "a", busy("p"))
    known = before.inventories["a"]
    for step in range(20):
        usage = busy("p", share=step * GIB)
        document = with_usage(before.objects.of("a")[KIND], usage_fields(usage))
        before.see_object("a", KIND, dict(document))
        assert not before.unsettled()
    assert before.inventories["a"] is known
    healthy = {**before.objects.of("a")[KIND], "spec": {}}
    before.see_object("a", KIND, healthy)
    assert before.unsettled()


def test_a_time_that_is_garbage_is_no_age(broker: Broker) -> None:
    document = dict(
        with_usage({"metadata": {"name": "a"}, "spec": {}}, {**usage_fields(busy("p")), "time": "yesterday"})
    )
    broker.observe([NodeObject("a", KIND, document)], NOW)
    assert node_usage_rows(broker, NOW, "a").nodes[0].age is None


@pytest.mark.rule("002.usage")
def test_no_usage_is_expected_of_nodes_without_devices() -> None:
    made = broker_of(FakeNode("plain", inventory=False, registered=False), FakeNode("a", count=2))
    place(made, device_pod("p", 1), "a")
    made.observe([replace(device_pod("web", resource="cpu"), node="plain")], NOW)
    assert "plain" not in " ".join(pod_usage_rows(made, NOW, None).notes)
