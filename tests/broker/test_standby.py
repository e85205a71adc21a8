"""A broker that stands by while another instance decides, and what it knows when it takes over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.explain.pod import explain_pod
from linkwise.testing.cluster import FakeNode, device_pod, in_gang
from support.restarts import ApiObjects

if TYPE_CHECKING:
    from linkwise.model.snapshot import Snapshot

NOW = 2000.0


def cluster() -> ApiObjects:
    """Three nodes, a gang of which one member is bound, and a single pod."""
    members = in_gang(*(device_pod(f"g{number}", 2) for number in range(3)), least=3)
    api = ApiObjects([FakeNode(f"n{number}") for number in range(3)], members)
    api.place("g0")
    api.pods["single"] = device_pod("single", 2)
    return api


def seen(api: ApiObjects, broker: Broker) -> Broker:
    broker.see([event for node in api.nodes.values() for event in node.events()])
    broker.see(list(api.pods.values()))
    return broker


def started(broker: Broker) -> Snapshot[object]:
    """The state of a broker that recovers now, as a snapshot; the order of deleted pods does not matter."""
    while broker.prepare(10):
        pass
    while broker.recover(NOW):
        pass
    broker.step(NOW)
    broker.unanswered()
    snapshot = broker.snapshot(NOW)
    assert snapshot.state is not None
    return replace(snapshot, state=replace(snapshot.state, deleted={}))


def take_over(broker: Broker) -> Snapshot[object]:
    for _ in broker.start_over(2):
        pass
    return started(broker)


def test_a_standby_that_takes_over_knows_what_an_instance_knows_that_has_just_listed_the_cluster() -> None:
    api = cluster()
    broker = seen(api, Broker())
    while broker.stand_by(1):
        pass
    explain_pod(broker, "uid-g1", NOW)  # which plans, and reserves
    broker.see([PodDeleted("uid-g0")])
    api.pods.pop("g0")
    api.pods["late"] = device_pod("late", 1)
    broker.see([api.pods["late"]])
    while broker.stand_by(1):
        pass
    assert take_over(broker) == started(seen(api, Broker()))


def test_plans_that_an_observer_made_reserve_nothing_after_it_took_over() -> None:
    api = cluster()
    broker = seen(api, Broker())
    broker.recover(NOW)
    broker.filter(api.pods["single"], list(api.nodes), NOW)
    assert len(list(broker.entries())) > 1
    for _ in broker.start_over():
        pass
    assert [entry.pod for entry in broker.entries()] == ["uid-g0"]
    assert broker.plans() == {}


def test_no_effect_is_left_from_the_time_as_a_standby() -> None:
    api = cluster()
    broker = seen(api, Broker())
    while broker.stand_by(1):
        pass
    assert broker.observe([], NOW) == ()


def test_what_is_observed_while_it_starts_over_counts() -> None:
    api = cluster()
    broker = seen(api, Broker())
    work = broker.start_over(1)
    next(work)
    broker.see([PodDeleted("uid-single"), device_pod("new", 1)])
    for _ in work:
        pass
    assert {pod.name for pod in broker.pods.values()} == {"g0", "g1", "g2", "new"}


def test_an_inventory_that_was_deleted_shortly_before_is_still_used() -> None:
    node = FakeNode("n0")
    broker = Broker()
    broker.see(node.events())
    (inventory,) = [event for event in node.events() if isinstance(event, NodeObject)]
    broker.see([NodeObject(inventory.node, inventory.kind, None)])
    for _ in broker.start_over():
        pass
    while broker.prepare(10):
        pass
    assert broker.node_object("n0", inventory.kind) == inventory.document
    broker.observe([NodeObject(inventory.node, inventory.kind, None)], NOW)
    broker.step(NOW + broker.settings.inventory_grace + 1.0)
    assert broker.node_object("n0", inventory.kind) is None
