"""The cluster on the page: strips of nodes, totals, capacities, and what waits, as a reader may see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.model.views import PodCondition
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, in_gang, place
from linkwise.vendors.machines import profile
from linkwise.views.cluster import ClusterView
from linkwise.views.page.cluster import Sentences, Strips, model_fits, waiting_list

if TYPE_CHECKING:
    from linkwise.views.page.documents import NodeStrip


def two_namespaces() -> Broker:
    broker = broker_of(FakeNode("a", count=4), FakeNode("s", "share"))
    place(broker, device_pod("own", 1, namespace="team-a"), "a")
    place(broker, device_pod("rival", 2, namespace="team-b"), "a")
    place(broker, device_pod("sharer", 4, MEMORY, namespace="team-b"), "s")
    return broker


def seen(broker: Broker, *only: str) -> ClusterView:
    return ClusterView(broker, 1.0, "default", is_service=True, only=frozenset(only) if only else None)


def strips(cluster: ClusterView) -> dict[str, NodeStrip]:
    made = Strips()
    assert made.refresh(cluster)
    return made.by_name


def test_a_strip_has_a_bar_per_pod_with_its_devices() -> None:
    held = strips(seen(two_namespaces()))["a"].held
    assert [(one.pod, len(one.devices), one.state) for one in held] == [
        ("team-a/own", 1, "bound"),
        ("team-b/rival", 2, "bound"),
    ]
    assert len({place for one in held for place in one.devices}) == 3


def test_pods_of_namespaces_that_the_reader_may_not_see_have_no_name() -> None:
    held = strips(seen(two_namespaces(), "team-a"))["a"].held
    assert [one.pod for one in held] == ["team-a/own", ""]
    assert "rival" not in str(held)


def test_a_strip_numbers_its_devices_where_they_do_not_begin_at_zero() -> None:
    node, published = fleet_node(profile("a100-bridged"), "n")
    assert isinstance(published, NodeObject)
    document: Any = published.document
    for device in document["spec"]["devices"]:
        device["index"] += 4
    broker = Broker()
    broker.observe([node, published], 0.0)
    assert strips(seen(broker))["n"].indices == tuple(range(4, 12))
    assert strips(seen(two_namespaces()))["a"].indices is UNSET


def test_a_share_is_a_part_of_its_device() -> None:
    (held,) = strips(seen(two_namespaces()))["s"].held
    assert held.part is not UNSET
    assert 0 < held.part < 100


def test_a_cordoned_node_and_one_that_is_not_ready_offer_no_device() -> None:
    broker = broker_of(FakeNode("a", cordoned=True), FakeNode("b", ready=False))
    found = strips(seen(broker))
    assert {found["a"].marks, found["b"].marks} == {"c" * len(found["a"].marks), "x" * len(found["b"].marks)}
    assert (found["a"].note, found["b"].note) == ("cordoned", "NotReady")


def test_only_nodes_that_changed_are_made_again() -> None:
    broker = broker_of(FakeNode("a"), FakeNode("b"))
    made = Strips()
    made.refresh(seen(broker))
    before = dict(made.by_name)
    made.changed.clear()
    place(broker, device_pod("p", 1), "a")
    made.refresh(seen(broker))
    assert list(made.changed) == ["a"]
    assert made.by_name["b"] is before["b"]


def test_a_node_that_is_gone_has_no_strip() -> None:
    broker = broker_of(FakeNode("a"), FakeNode("b"))
    made = Strips()
    made.refresh(seen(broker))
    made.changed.clear()
    broker.observe([NodeGone("b")], 0.0)
    made.refresh(seen(broker))
    assert made.changed == {"b": None}


def test_a_refresh_can_stop_after_some_nodes_and_go_on() -> None:
    cluster = seen(broker_of(*(FakeNode(name) for name in "abc")))
    made = Strips()
    assert not made.refresh(cluster, most=2)
    assert len(made.by_name) == 2
    assert made.refresh(cluster, most=2)
    assert len(made.by_name) == 3


def test_totals_count_each_device_once_and_follow_changes() -> None:
    broker = two_namespaces()
    made = Strips()
    made.refresh(seen(broker))
    before = made.totals(0)
    place(broker, device_pod("more", 1, namespace="team-a"), "a")
    broker.observe([NodeGone("s")], 0.0)
    made.refresh(seen(broker))
    after = made.totals(3)
    assert (before.devices, before.in_use, before.idle) == (6, 4, 2)
    assert (after.devices, after.in_use, after.idle, after.waiting_pods) == (4, 4, 0, 3)


def test_capacities_say_how_many_pods_of_each_size_still_fit() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("p", 1), "a")
    (fit,) = model_fits(seen(broker))
    assert (fit.devices, fit.free, fit.largest) == (4, 3, 2)
    assert fit.fits == {"1": 3, "2": 1, "4": 0}


def test_what_waits_is_a_row_per_pod_and_per_group() -> None:
    broker = two_namespaces()
    members = in_gang(device_pod("m0", 4), device_pod("m1", 4), least=2)
    broker.observe([device_pod("big", 4, namespace="team-a"), *members], 2.0)
    cluster = seen(broker)
    sentences = Sentences(cluster)
    reasons = {key: found for key in sentences.first() if (found := sentences.of(key))}
    rows, pods = waiting_list(cluster, reasons)
    assert {(row.kind, row.name, row.pods, row.devices) for row in rows} == {
        ("pod", "big", 1, 4),
        ("group", "g", 2, 8),
    }
    assert pods == 3
    assert all(row.sentence and row.code for row in rows)


def test_a_pod_that_fits_and_has_scheduling_gates_says_both() -> None:
    broker = broker_of(FakeNode("a"))
    broker.observe([replace(device_pod("held"), gates=("example.com/approval",)), device_pod("free")], 0.5)
    sentences = Sentences(seen(broker))
    reasons = [reason[0] for key in sentences.first() if (reason := sentences.of(key))]
    assert sorted(reasons) == ["fits on a now", "it has scheduling gates: example.com/approval; fits on a now"]


def test_a_reader_of_one_namespace_sees_what_waits_there() -> None:
    broker = two_namespaces()
    broker.observe([device_pod(f"{name}-big", 4, namespace=name) for name in ("team-a", "team-b")], 2.0)
    rows, pods = waiting_list(seen(broker, "team-a"), {})
    assert ([row.namespace for row in rows], pods) == (["team-a"], 1)


def test_until_a_pod_is_explained_its_row_says_what_is_published() -> None:
    broker = two_namespaces()
    known = PodCondition(status=False, reason="NoRoom", message="pod team-a/big is pending: ...", since=1.0)
    broker.observe([replace(device_pod("big", 4, namespace="team-a"), condition=known)], 2.0)
    ((row,), _) = waiting_list(seen(broker), {})
    assert (row.sentence, row.code) == ("pod team-a/big is pending: ...", "NoRoom")
