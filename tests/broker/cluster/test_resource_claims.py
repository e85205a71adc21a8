"""Nodes whose devices ResourceClaims allocate: recognised, placed by count, and never given a record."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, binds, device_pod, in_gang, place, seen_bound, woken
from linkwise.wire.snapshot import decode_snapshot
from support.builders.dra_objects import GPU, claim, device, device_class, resource_slice
from support.profile import examples
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.model.views import PodView

NOW = 100.0
BARE = FakeNode("n", registered=False, inventory=False)
"""no device plugin and no inventory"""


def seen(document: dict[str, Any], *, gone: bool = False) -> ClusterObject:
    about = document["metadata"]
    name = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
    return ClusterObject(f"{document['kind']}.resource.k8s.io", name, None if gone else json.dumps(document).encode())


def broker_with(*documents: dict[str, Any], nodes: tuple[FakeNode, ...] = (BARE,)) -> Broker:
    """A broker that has observed nodes, the class of GPUs and further objects."""
    broker = Broker()
    events = [event for node in nodes for event in node.events()]
    broker.observe([*events, *map(seen, (device_class(), *documents))], NOW)
    return broker


def idle(broker: Broker, node: str = "n") -> int:
    (found,) = inspect_nodes(broker, node, NOW)
    return found.idle


def filtered(broker: Broker, pod: PodView, *names: str) -> list[str]:
    broker.observe([pod], NOW)
    return broker.filter(pod, names or ["n"], NOW).nodes


def test_a_node_without_a_device_plugin_serves_the_devices_of_its_slices() -> None:
    broker = broker_with(resource_slice("n", 4))
    assert idle(broker) == 4
    assert filtered(broker, device_pod("a", 4)) == ["n"]
    assert filtered(broker, device_pod("b", 1)) == []


def test_the_bind_writes_no_record_and_the_event_names_no_device() -> None:
    broker, pod = broker_with(resource_slice("n", 4)), device_pod("a", 2)
    assert filtered(broker, pod) == ["n"]
    (bound,) = binds(broker.bind(pod.uid, "n", NOW).effects)
    assert dict(bound.annotations) == {}
    (event,) = [effect for effect in broker.outcome(bound, "written", NOW) if isinstance(effect, Event)]
    assert (event.reason, event.sentence) == (
        "NodeChosen",
        "node n, chosen by link-affinity; a ResourceClaim allocates the devices",
    )
    broker.observe([seen_bound(pod, bound)], NOW)
    assert idle(broker) == 2
    assert not broker.drift.get("n")


def test_a_pod_counts_once_whatever_is_observed_first() -> None:
    broker, pod = broker_with(resource_slice("n", 8)), device_pod("a", 2)
    filtered(broker, pod)
    assert idle(broker) == 6
    made = claim("a-extended-resources-x", "n", ["gpu-5", "gpu-6"], pod=pod.uid)
    broker.observe([seen(made)], NOW)
    assert idle(broker) == 6
    (bound,) = binds(broker.bind(pod.uid, "n", NOW).effects)
    assert idle(broker) == 6
    broker.outcome(bound, "written", NOW)
    broker.observe([seen_bound(pod, bound)], NOW)
    assert idle(broker) == 6
    assert set(state_of(broker).cluster.index.nodes["n"].used) == {"GPU-gpu-5", "GPU-gpu-6"}


def test_devices_are_free_again_when_pod_and_claim_are_gone() -> None:
    broker, pod = broker_with(resource_slice("n", 4)), device_pod("a", 4)
    made = claim("a-x", "n", [f"gpu-{index}" for index in range(4)], pod=pod.uid)
    place(broker, pod, "n", NOW)
    broker.observe([seen(made)], NOW)
    assert filtered(broker, device_pod("b", 4)) == []
    assert woken(broker.observe([PodDeleted(pod.uid)], NOW)) == []
    assert idle(broker) == 0
    assert woken(broker.observe([seen(made, gone=True)], NOW)) == ["b"]
    assert idle(broker) == 4


def test_a_finished_pod_has_its_devices_until_its_claim_gives_them_up() -> None:
    broker, pod = broker_with(resource_slice("n", 4)), device_pod("a", 4)
    bound = place(broker, pod, "n", NOW)
    broker.observe([seen(claim("a-x", "n", ["gpu-0", "gpu-1", "gpu-2", "gpu-3"], pod=pod.uid))], NOW)
    broker.observe([replace(bound, phase="Succeeded", version=9)], NOW)
    assert idle(broker) == 0
    broker.observe([seen(claim("a-x", "n", [], pod=pod.uid))], NOW)
    assert idle(broker) == 4


def test_claims_that_pods_name_themselves_have_devices_too() -> None:
    broker = broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-0", "gpu-3"]))
    assert idle(broker) == 2
    assert not broker.drift.get("n")
    assert idle(broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-0"], admin=True))) == 4


def test_a_restart_from_the_lists_and_one_from_a_snapshot_count_the_same() -> None:
    broker, pod = broker_with(resource_slice("n", 8), claim("mine", "n", ["gpu-7"])), device_pod("a", 2)
    bound = place(broker, pod, "n", NOW)
    filtered(broker, device_pod("b", 3))
    again = Broker.restore(broker.snapshot(NOW))
    assert (idle(broker), idle(again)) == (2, 2)
    assert again.snapshot(NOW) == broker.snapshot(NOW)
    fresh = broker_with(resource_slice("n", 8), claim("mine", "n", ["gpu-7"]))
    fresh.observe([bound], NOW)
    assert idle(fresh) == 5


def test_a_bind_is_not_refused_once_kube_scheduler_has_allocated_the_devices() -> None:
    broker, pod = broker_with(resource_slice("n", 2)), device_pod("a", 2)
    broker.observe([pod, seen(claim("late", "n", ["gpu-0", "gpu-1"]))], NOW)
    assert broker.bind(pod.uid, "n", NOW).error
    broker.observe([replace(pod, hosted_by_claims=(GPU,), version=2)], NOW)
    answer = broker.bind(pod.uid, "n", NOW)
    assert not answer.error
    assert GRANT not in binds(answer.effects)[0].annotations


def test_a_pod_whose_status_names_a_claim_goes_only_where_claims_allocate() -> None:
    """kube-scheduler leaves the status of a failed bind, and with it kubelet asks no device plugin."""
    broker = broker_with(resource_slice("n", 2), nodes=(BARE, FakeNode("p", count=2)))
    pod = replace(device_pod("a", 2), hosted_by_claims=(GPU,))
    assert filtered(broker, pod, "n", "p") == ["n"]
    refused = broker.filter(pod, ["p"], NOW).unresolvable
    assert refused == {"p": "node(s) had a device plugin, but the pod's status names a ResourceClaim"}
    assert broker.bind(pod.uid, "p", NOW).error
    report = explain_pod(broker, pod.uid, NOW)
    assert report
    assert any("its status names a ResourceClaim" in note for note in report.notes)


def test_nodes_of_both_kinds_are_used_side_by_side() -> None:
    broker = broker_with(resource_slice("n", 8), nodes=(BARE, FakeNode("p", count=2)))
    pods = [device_pod(f"p{number}", 2) for number in range(5)]
    bound = []
    for pod in pods:
        (node,) = filtered(broker, pod, "n", "p")
        bound.append(place(broker, pod, node, NOW))
    assert [pod.node for pod in bound] == ["p", "n", "n", "n", "n"]
    assert [GRANT in pod.annotations for pod in bound] == [True, False, False, False, False]
    assert filtered(broker, device_pod("more", 1), "n", "p") == []


def test_a_gang_is_planned_by_counts_and_its_binds_write_no_record() -> None:
    broker = broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-0"]))
    pods = in_gang(*(device_pod(f"m{number}", 1) for number in range(3)), least=3)
    broker.observe(pods, NOW)
    assert [broker.filter(pod, ["n"], NOW).nodes for pod in pods] == [["n"], ["n"], ["n"]]
    for number, pod in enumerate(reversed(pods)):
        broker.observe([seen(claim(f"{pod.name}-x", "n", [f"gpu-{number + 1}"], pod=pod.uid))], NOW)
        (bound,) = binds(broker.bind(pod.uid, "n", NOW).effects)
        assert GRANT not in bound.annotations
        broker.outcome(bound, "written", NOW)
        broker.observe([seen_bound(pod, bound)], NOW)
    assert idle(broker) == 0


def test_a_node_that_gets_slices_later_is_offered_to_waiting_pods() -> None:
    broker = broker_with()
    assert filtered(broker, device_pod("a", 1)) == []
    assert woken(broker.observe([seen(resource_slice("n", 1))], NOW)) == ["a"]
    assert filtered(broker, device_pod("a", 1)) == ["n"]
    broker.observe([seen(resource_slice("n", 1), gone=True)], NOW)
    assert filtered(broker, device_pod("a", 1)) == []


def test_slices_of_one_pool_leave_one_by_one() -> None:
    halves = [resource_slice("n", [device(f"gpu-{part}")], name=f"part-{part}", total=2) for part in range(2)]
    broker = broker_with(*halves)
    assert idle(broker) == 2
    broker.observe([seen(halves[0], gone=True)], NOW)
    broker.observe([seen(halves[1], gone=True)], NOW)
    broker.observe([seen(resource_slice("n", 4))], NOW)
    assert idle(broker) == 4


def test_a_device_plugin_goes_first_and_claims_beside_it_count_as_used() -> None:
    plugin = FakeNode("n", count=4, inventory=False)
    broker = broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-1"]), nodes=(plugin,))
    assert idle(broker) == 3
    (problem,) = broker.inventories["n"].problems
    assert "published in ResourceSlices as well" in problem.sentence
    pod = place(broker, device_pod("a", 3), "n", NOW)
    assert json.loads(pod.annotations[GRANT])["containers"]["main"]["devices"] == ["#0", "#1", "#2"]
    apart = broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-1"]), nodes=(FakeNode("n", count=4),))
    assert (idle(apart), apart.inventories["n"].problems) == (4, ())


def test_of_two_classes_for_one_resource_the_newer_one_decides() -> None:
    other = device_class("other", GPU, "device.driver == 'other'", created="2026-02-01T00:00:00Z")
    broker = broker_with(resource_slice("n", 4), other)
    assert filtered(broker, device_pod("a", 1)) == []
    broker.observe([seen(other, gone=True)], NOW)
    assert filtered(broker, device_pod("a", 1)) == ["n"]


SINGLE = [
    device(f"gpu-{i}", consumesCounters=[{"counterSet": "c", "counters": {f"g{i}": {"value": "1"}}}]) for i in (0, 1)
]
PAIR = device("pair", consumesCounters=[{"counterSet": "c", "counters": {"g0": {"value": "1"}, "g1": {"value": "1"}}}])
COUNTERS = resource_slice(
    "n",
    [],
    name="counters",
    total=2,
    sharedCounters=[{"name": "c", "counters": {f"g{i}": {"value": "1"} for i in (0, 1)}}],
)


@pytest.mark.parametrize(
    ("documents", "free"),
    [
        ([resource_slice("n", 4, total=2)], 0),
        ([resource_slice("n", 4, name="old"), resource_slice("n", 2, name="new", generation=2)], 2),
        ([resource_slice("n", 4, name="old"), resource_slice("n", 2, name="new", generation=2, total=2)], 0),
        ([resource_slice("n", [device("gpu-0"), device("gpu-0")])], 0),
        ([resource_slice("n", [device("gpu-0"), device("mig-0", "mig")])], 1),
        ([resource_slice("n", [device("nic")], driver="dra.net")], 0),
        ([resource_slice("n", 4, nodeName=None, allNodes=True)], 0),
        ([resource_slice("n", 4, nodeName=None, nodeSelector={"nodeSelectorTerms": []})], 0),
        ([resource_slice("n", [device("a", nodeName="n"), device("b", nodeName="m")], nodeName=None)], 1),
        ([resource_slice("n", [device("gpu-0", taints=[{"key": "k", "effect": "NoExecute"}]), device("b")])], 1),
        ([resource_slice("n", [device("gpu-0", taints=[{"key": "k", "effect": "None"}])])], 1),
        ([resource_slice("n", [*SINGLE, PAIR], total=2), COUNTERS], 2),
        ([resource_slice("n", [*SINGLE, PAIR], total=2), COUNTERS, claim("c", "n", ["pair"])], 0),
        ([resource_slice("n", [*SINGLE, PAIR], total=2), COUNTERS, claim("c", "n", ["gpu-1"])], 1),
        ([resource_slice("n", [*SINGLE, PAIR])], 0),
        ([resource_slice("n", [device("a", allowMultipleAllocations=True)]), claim("c", "n", ["a"])], 0),
        ([resource_slice("n", 2), resource_slice("n", 2, name="other", pool="other")], 4),
        ([resource_slice("n", 2), claim("c", "n", ["gpu-0"]), claim("d", "n", ["gpu-0", "gone"])], 1),
        ([resource_slice("n", [{"name": "v1beta1", "basic": {"attributes": device("x")["attributes"]}}])], 1),
    ],
)
def test_only_what_can_be_allocated_counts(documents: list[dict[str, Any]], free: int) -> None:
    broker = broker_with(*documents)
    assert idle(broker) == free
    assert filtered(broker, device_pod("a", free + 1)) == []
    assert not free or filtered(broker, device_pod("b", free)) == ["n"]
    assert Broker.restore(broker.snapshot(NOW)).snapshot(NOW) == broker.snapshot(NOW)


def test_a_selector_that_is_not_understood_counts_the_devices_and_says_so() -> None:
    odd = device_class(
        "odd", GPU, "device.driver == 'gpu.nvidia.com' && x.matches('a')", created="2030-01-01T00:00:00Z"
    )
    broker = broker_with(resource_slice("n", 4), resource_slice("n", 4, driver="other"), odd)
    assert idle(broker) == 4
    assert "can't be evaluated" in broker.inventories["n"].problems[0].sentence


def test_explanations_name_what_claims_allocated() -> None:
    broker, pod = broker_with(resource_slice("n", 4), claim("mine", "n", ["gpu-3"])), device_pod("a", 2)
    place(broker, pod, "n", NOW)
    without = explain_pod(broker, pod.uid, NOW)
    assert without
    assert any(line.startswith("no ResourceClaim has devices for it") for line in explanation_lines(without))
    broker.observe([seen(claim("a-x", "n", ["gpu-0", "gpu-1"], pod=pod.uid))], NOW)
    report, node = explain_pod(broker, pod.uid, NOW), explain_node(broker, "n", NOW)
    assert report
    assert node
    assert "allocated by a ResourceClaim: GPU-gpu-0, GPU-gpu-1" in explanation_lines(report)
    lines = explanation_lines(node)
    assert "allocated by a ResourceClaim: GPU-gpu-0, GPU-gpu-1, GPU-gpu-3" in lines
    assert "device 3: ResourceClaim default/mine" in lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WHOLE = (resource_slice("n", [*SINGLE, PAIR], total=2), COUNTERS, device_class(), claim("c", "n", ["gpu-1"], pod="u"))


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_whatever_stands_in_a_field_no_more_devices_count_and_nothing_breaks(data: st.DataObject) -> None:
    documents = deepcopy(list(WHOLE))
    place = data.draw(st.integers(0, 3))
    path = data.draw(st.sampled_from([path for path in places(documents[place]) if path and path[0] != "metadata"]))
    holder: Any = documents[place]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(JSON)
    events = [seen({**document, "kind": kept["kind"]}) for document, kept in zip(documents, WHOLE, strict=True)]
    broker = broker_with()
    broker.observe(events, NOW)
    assert idle(broker) <= 2
    assert not any("bug" in problem.sentence for problem in broker.inventories["n"].problems)
    assert Broker.restore(broker.snapshot(NOW)).snapshot(NOW) == broker.snapshot(NOW)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_in_whatever_order_objects_come_and_go_the_counts_are_those_of_what_is_there(seed: int) -> None:
    chance, broker = Random(seed), broker_with()
    there: dict[str, ClusterObject] = {}
    for _ in range(30):
        document = chance.choice(
            [
                resource_slice("n", chance.randrange(4), generation=chance.randrange(3)),
                resource_slice("n", [device("x")], name="two", pool="two", total=chance.randrange(1, 3)),
                claim(chance.choice("ab"), "n", chance.sample(["gpu-0", "gpu-1"], chance.randrange(3))),
                claim("own", "n", ["gpu-2"], pod="uid-p"),
                device_class(created=chance.choice(["", "2026-01-01T00:00:00Z"])),
            ]
        )
        event = seen(document, gone=chance.random() < 0.3)
        there[f"{event.kind}/{event.name}"] = event
        broker.observe([event], NOW)
    fresh = Broker()
    fresh.observe([*BARE.events(), seen(device_class()), *there.values()], NOW)
    assert fresh.snapshot(NOW).shared == broker.snapshot(NOW).shared
    assert fresh.inventories == broker.inventories
    assert fresh.usage == broker.usage


def test_a_list_of_kubectl_with_slices_and_claims_counts_the_same() -> None:
    about = {"name": "n", "labels": {}}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": about,
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
        device_class(),
        resource_slice("n", 4),
        claim("mine", "n", ["gpu-0"]),
    ]
    broker = Broker.restore(decode_snapshot(json.dumps({"kind": "List", "items": items}).encode(), BrokerState))
    assert idle(broker) == 3
