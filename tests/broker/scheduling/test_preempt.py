"""Which evictions would serve a pod: not the number of devices alone decides, but also how they lie."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import PodDeleted
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import AMD, ASCEND, MEMORY, NVIDIA, FakeNode, binds, broker_of, device_pod, in_gang, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

NOW = 100.0
RING = FakeNode("n", "ring", 8)


def ring(taken: dict[str, tuple[int, ...]]) -> Broker:
    """A node of two rings of four, of which the pods hold the devices given."""
    broker = broker_of(replace(RING, allocations={f"uid-{name}": RING.devices(*held) for name, held in taken.items()}))
    broker.observe([replace(device_pod(name, len(held), ASCEND), node="n") for name, held in taken.items()], NOW)
    return broker


def test_evictions_that_free_enough_devices_help() -> None:
    broker = broker_of(FakeNode("n"))
    for name in "ab":
        place(broker, device_pod(name), "n")
    wanted = device_pod("urgent", 2)
    assert broker.preempt(wanted, {"n": ["uid-a", "uid-b"]}, NOW) == {"n": ["uid-a", "uid-b"]}
    assert broker.preempt(device_pod("small"), {"n": ["uid-b"]}, NOW) == {"n": ["uid-b"]}


def test_evictions_that_leave_too_few_devices_do_not_help() -> None:
    broker = broker_of(FakeNode("n"))
    for name in "ab":
        place(broker, device_pod(name), "n")
    assert broker.preempt(device_pod("urgent", 2), {"n": ["uid-a"]}, NOW) == {}
    assert broker.preempt(device_pod("large", 3), {"n": ["uid-a", "uid-b"]}, NOW) == {}


def test_enough_devices_in_two_rings_do_not_help_and_as_many_in_one_do() -> None:
    broker = ring({"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)})
    wanted = device_pod("urgent", 4, ASCEND)
    assert broker.preempt(wanted, {"n": ["uid-a", "uid-c"]}, NOW) == {}
    assert broker.preempt(wanted, {"n": ["uid-a", "uid-b"]}, NOW) == {"n": ["uid-a", "uid-b"]}


def test_devices_that_are_free_already_are_counted_with_those_of_the_victims() -> None:
    broker = ring({"a": (0, 1), "c": (4, 5), "d": (6, 7)})
    wanted = device_pod("urgent", 4, ASCEND)
    assert broker.preempt(wanted, {"n": ["uid-a"]}, NOW) == {"n": ["uid-a"]}
    assert broker.preempt(wanted, {"n": ["uid-c"]}, NOW) == {}


def test_memory_must_come_free_on_one_device() -> None:
    broker = broker_of(FakeNode("n", "share", 2, 16))
    for name in "abcd":
        place(broker, device_pod(name, 8, MEMORY), "n")
    wanted = device_pod("urgent", 16, MEMORY)
    assert broker.preempt(wanted, {"n": ["uid-a", "uid-c"]}, NOW) == {}
    assert broker.preempt(wanted, {"n": ["uid-a", "uid-b"]}, NOW) == {"n": ["uid-a", "uid-b"]}


def test_victims_that_are_on_another_node_do_not_help() -> None:
    broker = broker_of(FakeNode("n0", count=1), FakeNode("n1", count=1))
    place(broker, device_pod("a"), "n0")
    place(broker, device_pod("b"), "n1")
    wanted = device_pod("urgent")
    assert broker.preempt(wanted, {"n0": ["uid-b"], "n1": ["uid-b"]}, NOW) == {"n1": ["uid-b"]}


def test_each_node_is_judged_by_its_own_victims_and_keeps_its_place() -> None:
    broker = broker_of(FakeNode("n0"), FakeNode("n1"), FakeNode("n2"))
    for name, node in [("a", "n0"), ("b", "n1"), ("c", "n2")]:
        place(broker, device_pod(name, 2), node)
    victims = {"n2": ["uid-c"], "n0": ["uid-c"], "n1": ["uid-b"]}
    assert list(broker.preempt(device_pod("urgent"), victims, NOW)) == ["n2", "n1"]


def test_a_node_without_victims_is_left_out() -> None:
    broker = broker_of(FakeNode("n0", count=1), FakeNode("n1", count=1))
    place(broker, device_pod("a"), "n0")
    assert broker.preempt(device_pod("urgent"), {"n0": [], "n1": []}, NOW) == {}
    assert broker.preempt(device_pod("urgent"), {}, NOW) == {}


def test_victims_and_nodes_that_are_not_known_do_not_help() -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("other", "amd", 1))
    place(broker, device_pod("a"), "n")
    wanted = device_pod("urgent")
    assert broker.preempt(wanted, {"n": ["uid-x"], "never-seen": ["uid-a"], "other": ["uid-a"]}, NOW) == {}


def test_a_victim_that_is_gone_already_makes_room_as_well() -> None:
    broker = broker_of(FakeNode("n", count=1))
    gone = place(broker, device_pod("a"), "n")
    broker.observe([PodDeleted(gone.uid)], NOW)
    assert broker.preempt(device_pod("urgent"), {"n": ["uid-a"]}, NOW) == {"n": ["uid-a"]}


def test_an_unhealthy_device_does_not_become_free_with_its_pod() -> None:
    broker = broker_of(FakeNode("n", count=1))
    place(broker, device_pod("a"), "n")
    broker.observe(FakeNode("n", count=1, unhealthy=frozenset({0})).events(), NOW)
    assert broker.preempt(device_pod("urgent"), {"n": ["uid-a"]}, NOW) == {}


def test_what_the_agent_sees_in_use_by_a_stranger_does_not_come_free() -> None:
    box = FakeNode("n")
    broker = broker_of(box)
    place(broker, device_pod("a"), "n")
    broker.observe(replace(box, allocations={"stranger": box.devices(1)}).events(), NOW)
    assert broker.preempt(device_pod("urgent", 2), {"n": ["uid-a"]}, NOW) == {}
    assert broker.preempt(device_pod("small"), {"n": ["uid-a"]}, NOW) == {"n": ["uid-a"]}


@pytest.mark.parametrize("ask", [{}, {NVIDIA: "0"}], ids=["none", "zero"])
def test_a_pod_that_asks_for_no_device_is_left_to_the_scheduler(ask: dict[str, str]) -> None:
    plain = PodView("default", "web", "uid-web", (ContainerView("main", limits=ask),))
    victims = {"n": ["uid-a"], "never-seen": ["uid-b"]}
    assert broker_of(FakeNode("n")).preempt(plain, victims, NOW) == victims


def test_a_node_without_victims_is_left_out_for_a_pod_that_asks_for_no_device_as_well() -> None:
    plain = PodView("default", "web", "uid-web", (ContainerView("main"),))
    assert broker_of(FakeNode("n")).preempt(plain, {"n": [], "other": ["uid-a"]}, NOW) == {"other": ["uid-a"]}


def test_nothing_comes_of_asking() -> None:
    broker = broker_of(FakeNode("n", count=1))
    place(broker, device_pod("a"), "n")
    before = broker.snapshot(NOW)
    assert broker.preempt(device_pod("urgent"), {"n": ["uid-a"]}, NOW)
    assert broker.snapshot(NOW) == before


@pytest.mark.rule("001.fewest-nodes")
def test_a_question_about_evictions_does_not_change_the_plan_that_follows() -> None:
    broker = broker_of(FakeNode("n0", count=4), FakeNode("n1", count=4))
    victim = place(broker, device_pod("victim"), "n0")
    # Others bound these, and which devices they have is unknown: two on the one node, one on the other.
    unrecorded = [replace(device_pod(name), node=node) for name, node in (("x", "n0"), ("y", "n0"), ("z", "n1"))]
    gang = in_gang(*(device_pod(name) for name in "abc"), least=3)
    broker.observe([*unrecorded, *gang], NOW)
    assert broker.preempt(gang[0], {"n0": [victim.uid]}, NOW) == {"n0": [victim.uid]}
    assert broker.filter(gang[0], ["n0", "n1"], NOW).nodes == ["n1"]


def test_evicting_on_a_node_of_another_vendor_helps_no_pod() -> None:
    broker = broker_of(FakeNode("n", "amd"))
    place(broker, device_pod("a", 2, AMD), "n")
    assert broker.preempt(device_pod("whole"), {"n": ["uid-a"]}, NOW) == {}


def test_finished_pods_that_an_agent_still_lists_do_not_prevent_an_eviction() -> None:
    broker = broker_of(FakeNode("n"))
    done, stays = place(broker, device_pod("done"), "n"), place(broker, device_pod("stays"), "n")
    listing = FakeNode("n", allocations={done.uid: ("n-d0",), stays.uid: ("n-d1",)})
    broker.observe([replace(done, phase="Succeeded", version=9), listing.inventory_object()], NOW)
    assert broker.preempt(device_pod("new", 2), {"n": [stays.uid]}, NOW)


def test_a_pod_with_a_bind_of_unknown_outcome_preempts_no_pod() -> None:
    broker = broker_of(FakeNode("a", count=8), FakeNode("b", count=8))
    victim, pod = device_pod("victim", 8), device_pod("x", 8)
    broker.filter(victim, ["b"], NOW)
    broker.bind(victim.uid, "b", NOW)
    broker.filter(pod, ["a"], NOW)
    (bound,) = binds(broker.bind(pod.uid, "a", NOW).effects)
    broker.outcome(bound, "unknown", NOW)
    assert broker.filter(pod, ["b"], NOW).failed == {}
    assert broker.preempt(pod, {"b": [victim.uid]}, NOW) == {}
