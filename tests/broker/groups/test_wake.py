"""Members that were refused are woken when they would get a better answer, also as pods without a group."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.conventions import SCHEDULER_PLUGINS
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, woken_set


def test_a_pod_that_leaves_its_group_is_woken() -> None:
    broker = broker_of(FakeNode("n", count=4))
    alone = device_pod("a")
    (member,) = in_gang(alone, least=2)
    broker.observe([member], 0.0)
    assert broker.filter(member, ["n"], 0.0).nodes == []
    assert woken_set(broker.observe([replace(alone, version=9)], 1.0)) == {"a"}
    assert broker.filter(alone, ["n"], 2.0).nodes == ["n"]


def test_a_member_without_devices_is_woken_when_its_group_is_no_gang_any_more() -> None:
    broker = broker_of(FakeNode("n", count=1))
    labels = {SCHEDULER_PLUGINS: "g"}
    large, small = (replace(pod, labels=labels) for pod in (device_pod("a", 4), device_pod("b")))
    small = replace(small, containers=())
    broker.observe([pod_group({"minMember": 3}), large, small], 0.0)
    assert broker.filter(small, ["n"], 0.0).nodes == []
    effects = broker.observe([pod_group({})], 1.0)
    assert woken_set((*effects, *broker.step(2.0, 1000))) == {"b"}
    assert broker.filter(small, ["n"], 3.0).nodes == ["n"]
    assert broker.filter(large, ["n"], 3.0).nodes == []


def pod_group(spec: dict[str, object]) -> ClusterObject:
    return ClusterObject(KINDS["scheduler-plugins"], "default/g", {"spec": spec})
