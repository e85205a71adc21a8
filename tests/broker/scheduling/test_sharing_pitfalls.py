"""What goes wrong where pods share memory of devices: races, restarts, changes of nodes and devices, odd asks."""

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
from linkwise.model.views import PodView
from linkwise.testing.cluster import MEMORY, FakeNode, binds, broker_of, device_pod, place, seen_bound
from support.properties.broker_invariants import claims

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

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


@pytest.mark.rule("004.no-fit")
def test_of_many_binds_for_the_last_room_one_wins_and_the_others_are_told_why() -> None:
    broker = broker_of(box(memory=8))
    pods = [pod(f"p{number}") for number in range(10)]
    broker.observe(pods, NOW)
    answers = [broker.bind(found.uid, "n", NOW) for found in pods]
    assert [len(binds(answer.effects)) for answer in answers] == [1] + [0] * 9
    assert {answer.error for answer in answers[1:]} == {
        "node n: device 0 has 0 GiB left; 8 GiB are needed on one device",
    }
    assert [entry.pod for entry in broker.entries()] == ["uid-p0"]


def test_a_restart_before_the_binding_leaves_nothing_taken() -> None:
    old = broker_of(box())
    old.observe([pod("a")], NOW)
    assert binds(old.bind("uid-a", "n", NOW).effects)
    new = broker_of(box())
    new.observe([pod("a")], NOW)
    assert rooms(new) == [16]
    assert new.filter(pod("a"), ["n"], NOW).nodes == ["n"]


def test_a_restart_before_the_watch_event_rebuilds_the_same_state() -> None:
    old = broker_of(box(count=2))
    place(old, pod("a", 10), "n", NOW)
    old.observe([pod("b", 4)], NOW)
    (bound,) = binds(old.bind("uid-b", "n", NOW).effects)
    old.outcome(bound, "written", NOW)
    new = broker_of(box(count=2))
    new.observe([*(found for found in old.pods.values() if found.node)], NOW)
    new.observe([seen_bound(pod("b", 4), bound)], NOW)
    old.observe([seen_bound(pod("b", 4), bound)], NOW)
    assert rooms(new) == [2, 16]
    assert claims(new) == claims(old)


def test_a_promise_outlives_a_restart_from_a_snapshot() -> None:
    old = broker_of(box())
    old.observe([pod("a")], NOW)
    (bound,) = binds(old.bind("uid-a", "n", NOW).effects)
    new = type(old).restore(old.snapshot(NOW))
    assert claims(new) == claims(old)
    new.outcome(bound, "written", NOW)
    new.observe([seen_bound(pod("a"), bound)], NOW)
    assert rooms(new) == [8]


def test_a_recorded_pod_on_a_deleted_node_does_not_stop_the_start_and_counts_when_the_node_returns() -> None:
    broker = broker_of(counted("other"))
    broker.observe([foreign("a", 12)], NOW)
    assert inspect_nodes(broker, "n", NOW) == ()
    assert broker.filter(pod("b"), ["n", "other"], NOW).nodes == ["other"]
    broker.observe(counted().sights(), NOW)
    assert rooms(broker) == [4]
    broker.observe([NodeGone("n")], NOW)
    assert broker.entry("uid-a")


def test_where_more_is_taken_than_there_is_nothing_is_left() -> None:
    broker = broker_of(counted())
    effects = broker.observe([foreign("a", 12), foreign("b", 12)], NOW)
    (event,) = [effect for effect in effects if isinstance(effect, Event)]
    assert event.sentence == "node n: more of device #0 is claimed by default/a and default/b than it has"
    assert rooms(broker) == [0]
    assert broker.filter(pod("c", 1), ["n"], NOW).failed == {"n": "no device has enough room"}


def test_every_change_of_capacity_counts_also_while_pods_are_there() -> None:
    broker = broker_of(counted())
    broker.observe([foreign("a", 12)], NOW)
    found = []
    for memory, count in [(24, 1), (8, 1), (16, 2)]:
        broker.observe(counted(memory=memory, count=count).sights(), NOW)
        found.append(rooms(broker))
    assert found == [[12], [0], [4, 16]]


def test_a_node_that_changes_its_unit_is_counted_in_the_new_one() -> None:
    broker = broker_of(counted())
    assert broker.filter(pod("a", 8138), ["n"], NOW).unresolvable
    broker.observe(counted(memory=16276).sights(), NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert (found.unit, rooms(broker)) == ("MiB", [16276])
    assert broker.filter(pod("a", 8138), ["n"], NOW).nodes == ["n"]


def test_what_was_placed_before_the_unit_changed_is_never_converted() -> None:
    broker = broker_of(counted())
    place(broker, pod("a", 12), "n", NOW)
    broker.observe(counted(memory=16276).sights(), NOW)
    assert rooms(broker) == [16276 - 12]  # as kubelet counts it


def test_nodes_of_one_cluster_may_count_in_different_units() -> None:
    broker = broker_of(counted("gib"), counted("mib", memory=16276))
    assert [found.unit for found in inspect_nodes(broker, None, NOW)] == ["GiB", "MiB"]
    assert broker.filter(pod("a", 8138), ["gib", "mib"], NOW).nodes == ["mib"]
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


def test_a_grant_follows_the_device_when_indices_are_dealt_out_anew() -> None:
    before = replace(box(count=2), ids=("GPU-a", "GPU-b"))
    broker = broker_of(before)
    seen = place(broker, pod("a", 12), "n", NOW)
    assert seen.annotations[INDEX] == "0"
    broker.observe(replace(before, ids=("GPU-b", "GPU-a")).sights(), NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert {device.id: device.room for device in found.devices} == {"GPU-a": 4, "GPU-b": 16}


@pytest.mark.parametrize(
    ("text", "sick"),
    [("", []), ("  ", []), ("0,1", [0, 1]), (" 1 , 0", [0, 1]), ("x,1,,-1", [1]), ("7", []), ("01", [])],
)
def test_a_garbled_list_of_unhealthy_devices_marks_only_those_it_names(text: str, sick: list[int]) -> None:
    broker = broker_of(counted(count=3))
    broker.observe([unhealthy(text)], NOW)
    (found,) = inspect_nodes(broker, "n", NOW)
    assert [device.index for device in found.devices if not device.healthy] == sick


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
    broker.observe(replace(box(count=2), allocations={"uid-a": ("n-d1",)}).sights(), NOW)
    assert rooms(broker) == [16, 6]


def test_a_pod_of_another_scheduler_is_counted_by_its_record() -> None:
    broker = broker_of(box(count=2))
    broker.observe([foreign("a", 10, index=1)], NOW)
    assert rooms(broker) == [16, 6]


def test_without_nodes_there_is_nothing_to_offer_and_unknown_ones_are_named() -> None:
    broker = broker_of()
    assert broker.filter(pod("a"), [], NOW).nodes == []
    answer = broker.filter(pod("a"), ["x"], NOW)
    assert (answer.nodes, answer.failed) == ([], {"x": "the node was not seen yet"})
    broker.observe([pod("a")], NOW)
    assert broker.bind("uid-a", "x", NOW).error == "node x is not known"
    assert inspect_nodes(broker, "x", NOW) == ()


@pytest.mark.parametrize("empty", [PodView("default", "a", "uid-a"), pod("a", 0)], ids=["no containers", "asks for 0"])
def test_a_pod_that_asks_for_no_memory_is_let_pass_and_takes_nothing(empty: PodView) -> None:
    broker = broker_of(box(memory=8))
    place(broker, pod("full"), "n", NOW)
    assert broker.filter(empty, ["n"], NOW).nodes == ["n"]
    broker.observe([empty], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert (bound.grant, bound.annotations) == (None, {})


@pytest.mark.parametrize(("amount", "taken"), [("1k", 1000), ("2000m", 2), ("1e3", 1000), ("1Ki", 1024), ("4.0", 4)])
def test_an_amount_may_be_written_in_any_way_that_kubernetes_reads(amount: str, taken: int) -> None:
    broker = broker_of(counted(memory=16276))
    place(broker, pod("a", amount), "n", NOW)
    assert rooms(broker) == [16276 - taken]


def test_bytes_in_the_place_of_units_are_more_than_any_device_has() -> None:
    broker = broker_of(counted(memory=16276))
    assert broker.filter(pod("a", "10G"), ["n"], NOW).unresolvable == {"n": "more is asked for than a device has"}
    broker.observe([pod("a", "10G")], NOW)
    assert "10000000000 MiB is asked for of one device" in broker.bind("uid-a", "n", NOW).error


@pytest.mark.parametrize("amount", ["-1", "1.5", "500m", "x", "", "1GB"])
def test_an_amount_that_is_no_count_is_refused_for_good_and_nothing_is_taken(amount: str) -> None:
    broker = broker_of(counted())
    wrong = pod("a", amount)
    assert broker.filter(wrong, ["n"], NOW).unresolvable.keys() == {"n"}
    broker.observe([wrong], NOW)
    assert MEMORY in broker.bind("uid-a", "n", NOW).error
    assert broker.admit(wrong).refusal
    assert rooms(broker) == [16]
