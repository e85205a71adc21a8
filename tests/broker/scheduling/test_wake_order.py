"""Who is first in line when room appears, and who is passed over because it could not go there anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Wake
from linkwise.broker.watch_events import NodeGone, PodDeleted
from linkwise.model.views import Taint
from linkwise.testing.cluster import AMD, MEMORY, FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

NOW = 100.0


def woken(effects: Iterable[Effect]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Wake)]


def full(box: FakeNode) -> tuple[Broker, PodView]:
    """A broker whose one node is taken by the pod returned."""
    broker = broker_of(box)
    return broker, place(broker, device_pod("holder", box.count), box.name)


def refuse(broker: Broker, *pods: PodView) -> None:
    broker.observe(pods, NOW)
    for pod in pods:
        assert broker.filter(pod, ["n"], NOW).nodes == []


def test_the_oldest_pod_that_fits_is_woken_with_the_name_of_the_node() -> None:
    broker, holder = full(FakeNode("n", count=1))
    refuse(broker, device_pod("young", created=9.0), device_pod("old", created=1.0))
    effects = broker.observe([PodDeleted(holder.uid)], NOW)
    assert effects == (Wake("default", "old", "uid-old", "it may fit on node n now", fits=True),)


def test_a_pod_of_higher_priority_is_woken_before_older_ones() -> None:
    broker, holder = full(FakeNode("n", count=1))
    refuse(broker, device_pod("old", created=1.0), device_pod("urgent", created=9.0, priority=5))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["urgent"]


def test_an_older_pod_that_is_too_large_is_passed_over() -> None:
    broker = broker_of(FakeNode("n"))
    holder = place(broker, device_pod("one"), "n")
    place(broker, device_pod("two"), "n")
    refuse(broker, device_pod("large", 2, created=1.0), device_pod("small", created=2.0))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["small"]


def test_pods_that_select_other_nodes_are_passed_over() -> None:
    broker, holder = full(FakeNode("n", count=1))
    choosy = replace(device_pod("choosy", created=1.0), node_selector={"zone": "a"})
    refuse(broker, choosy, device_pod("modest", created=2.0))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["modest"]


def test_no_pod_is_woken_for_a_node_that_is_tainted() -> None:
    broker, holder = full(FakeNode("n", count=1))
    refuse(broker, device_pod("a"))
    broker.observe([replace(FakeNode("n", count=1).view(), taints=(Taint("maintenance"),))], NOW)
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == []


def test_no_pod_is_woken_for_devices_of_another_kind() -> None:
    broker, holder = full(FakeNode("n"))
    refuse(broker, device_pod("other", resource=AMD), device_pod("part", 4, MEMORY))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == []


def test_as_many_are_woken_as_a_shared_device_has_room_for() -> None:
    broker = broker_of(FakeNode("n", "share", 1, 16))
    holder = place(broker, device_pod("holder", 10, MEMORY), "n")
    refuse(broker, *(device_pod(name, 8, MEMORY, created=float(ord(name))) for name in "abc"))
    assert woken(broker.observe([replace(holder, phase="Succeeded", version=9)], NOW)) == ["a", "b"]


def test_a_node_that_was_gone_wakes_when_it_returns_and_takes_pods() -> None:
    broker = broker_of(FakeNode("n"))
    broker.observe([NodeGone("n")], NOW)
    refuse(broker, device_pod("a"))
    assert woken(broker.observe(FakeNode("n", ready=False).events(), NOW)) == []
    assert woken(broker.observe(FakeNode("n").events(), NOW)) == ["a"]


def test_who_asks_for_nonsense_is_never_woken() -> None:
    broker, holder = full(FakeNode("n"))
    refuse(broker, device_pod("nonsense", "-1"))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == []


def test_no_pod_is_woken_twice_in_one_answer() -> None:
    broker = broker_of(FakeNode("n0", count=1), FakeNode("n1", count=1))
    for name in ("first", "second"):
        broker.filter(device_pod(name), ["n0", "n1"], NOW)
    broker.observe([device_pod("a")], NOW)
    assert broker.filter(device_pod("a"), ["n0", "n1"], NOW).nodes == []
    assert woken(broker.bind("uid-first", "n1", NOW + 2.0).effects) == ["a"]  # both offers are over
