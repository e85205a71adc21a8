"""Shared devices of a node: free memory after changes of capacity, units, indices, health and foreign pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_object
from linkwise.explain.inspect import inspect_nodes
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0
INDEX = "ALIYUN_COM_GPU_MEM_IDX"


def pod(name: str, amount: int | str = 8) -> PodView:
    return device_pod(name, amount, MEMORY)


def box(name: str = "n", count: int = 1, memory: int = 16) -> FakeNode:
    return FakeNode(name, "share", count, memory)


def counted(name: str = "n", count: int = 1, memory: int = 16) -> FakeNode:
    """A node of which only the reference's plugin tells."""
    return replace(box(name, count, memory), inventory=False)


def foreign(name: str, amount: int, index: int = 0, node: str = "n") -> PodView:
    """A pod that the reference's scheduler has placed."""
    return replace(pod(name, amount), node=node, annotations={INDEX: str(index)})


def rooms(broker: Broker, node: str = "n") -> list[int]:
    (found,) = inspect_nodes(broker, node, NOW)
    return [device.room for device in found.devices]


def unhealthy(text: str) -> NodeObject:
    return NodeObject("n", "ConfigMap/unhealthy-gpu-n", {"data": {"gpus": text}})


def test_a_recorded_pod_on_a_deleted_node_does_not_stop_the_start_and_counts_when_the_node_returns() -> None:
    broker = broker_of(counted("other"))
    broker.observe([foreign("a", 12)], NOW)
    assert inspect_nodes(broker, "n", NOW) == ()
    assert broker.filter(pod("b"), ["n", "other"], NOW).nodes == ["other"]
    broker.observe(counted().events(), NOW)
    assert rooms(broker) == [4]
    broker.observe([NodeGone("n")], NOW)
    assert broker.entry("uid-a")


def test_where_more_is_taken_than_there_is_nothing_is_left() -> None:
    broker = broker_of(counted())
    effects = broker.observe([foreign("a", 12), foreign("b", 12)], NOW)
    (event,) = [effect for effect in effects if isinstance(effect, Event)]
    assert event.sentence == "node n: default/a and default/b claim more of device #0 than it has"
    assert rooms(broker) == [0]
    assert broker.filter(pod("c", 1), ["n"], NOW).failed == {"n": "node(s) had no device with enough free memory"}


def test_every_change_of_capacity_counts_also_while_pods_are_there() -> None:
    broker = broker_of(counted())
    broker.observe([foreign("a", 12)], NOW)
    found = []
    for memory, count in [(24, 1), (8, 1), (16, 2)]:
        broker.observe(counted(memory=memory, count=count).events(), NOW)
        found.append(rooms(broker))
    assert found == [[12], [0], [4, 16]]


def test_a_node_that_changes_its_unit_is_counted_in_the_new_one() -> None:
    broker = broker_of(counted())
    assert broker.filter(pod("a", 8138), ["n"], NOW).unresolvable
    broker.observe(counted(memory=16276).events(), NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert (found.unit, rooms(broker)) == ("MiB", [16276])
    assert broker.filter(pod("a", 8138), ["n"], NOW).nodes == ["n"]


def test_what_was_placed_before_the_unit_changed_is_never_converted() -> None:
    broker = broker_of(counted())
    place(broker, pod("a", 12), "n", NOW)
    broker.observe(counted(memory=16276).events(), NOW)
    assert rooms(broker) == [16276 - 12]  # as kubelet counts it


def test_nodes_of_one_cluster_may_count_in_different_units() -> None:
    broker = broker_of(counted("gib"), counted("mib", memory=16276))
    assert [found.unit for found in inspect_nodes(broker, None, NOW)] == ["GiB", "MiB"]
    assert broker.filter(pod("a", 8138), ["gib", "mib"], NOW, keep=False).nodes == ["mib"]
    place(broker, pod("b", 8138), "mib", NOW)
    assert (rooms(broker, "gib"), rooms(broker, "mib")) == ([16], [8138])


def test_devices_of_a_node_may_differ_and_their_indices_have_gaps() -> None:
    devices = (Device("GPU-a", 0, 4, memory=8), Device("GPU-b", 3, 1, memory=24))
    facts = NodeFacts(SOURCE, devices, mode="share", unit="GiB")
    broker = broker_of(box(count=2))
    broker.observe([NodeObject("n", KIND, inventory_object("n", facts, enforced=True))], NOW)
    seen = place(broker, pod("a", 20), "n", NOW)
    assert seen.annotations[INDEX] == "3"
    assert '"GPU-b"' in seen.annotations[GRANT]
    assert rooms(broker) == [8, 4]


def test_a_grant_follows_the_device_when_indices_are_reassigned() -> None:
    before = replace(box(count=2), ids=("GPU-a", "GPU-b"))
    broker = broker_of(before)
    seen = place(broker, pod("a", 12), "n", NOW)
    assert seen.annotations[INDEX] == "0"
    broker.observe(replace(before, ids=("GPU-b", "GPU-a")).events(), NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert {device.id: device.room for device in found.devices} == {"GPU-a": 4, "GPU-b": 16}


@pytest.mark.parametrize(
    ("text", "positions"),
    [("", []), ("  ", []), ("0,1", [0, 1]), (" 1 , 0", [0, 1]), ("x,1,,-1", [1]), ("7", []), ("01", [])],
)
def test_a_garbled_list_of_unhealthy_devices_marks_only_those_it_names(text: str, positions: list[int]) -> None:
    broker = broker_of(counted(count=3))
    broker.observe([unhealthy(text)], NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert [device.index for device in found.devices if not device.healthy] == positions


def test_a_garbled_list_of_unhealthy_devices_is_reported() -> None:
    broker = broker_of(counted())
    broker.observe([unhealthy("x")], NOW)
    (problem,) = broker.inventories["n"].problems
    assert "'x' names no device" in problem.sentence


def test_pods_on_an_unhealthy_device_are_counted_and_it_is_usable_again_when_it_recovers() -> None:
    broker = broker_of(counted(count=2))
    broker.observe([foreign("a", 12)], NOW)
    for _ in range(2):
        broker.observe([unhealthy("0")], NOW)
        (found,) = inspect_nodes(broker, "n", NOW)
        assert [(device.share, device.room) for device in found.devices] == [(12, 0), (0, 16)]
        assert broker.filter(pod("b", 4), ["n"], NOW, keep=False).nodes == ["n"]
        broker.observe([unhealthy("")], NOW)
        assert rooms(broker) == [4, 16]


def test_a_pod_whose_node_was_preset_is_found_and_counted_on_every_device_it_may_be_on() -> None:
    broker = broker_of(box(count=2))
    broker.observe([replace(pod("a", 10), node="n", scheduler="")], NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert [(holder.name, holder.share) for holder in found.unattributed] == [("a", 10)]
    assert rooms(broker) == [6, 6]
    broker.observe(replace(box(count=2), allocations={"uid-a": ("n-d1",)}).events(), NOW)
    assert rooms(broker) == [16, 6]


def test_a_pod_of_another_scheduler_is_counted_by_its_record() -> None:
    broker = broker_of(box(count=2))
    broker.observe([foreign("a", 10, index=1)], NOW)
    assert rooms(broker) == [16, 6]
