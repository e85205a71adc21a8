"""Requests that any vendor can serve: which vendor's resource replaces them, and why none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.linkwise.require import REQUIRE
from linkwise.dialects.pod_resources import with_resources_renamed
from linkwise.model.access_policy import Requester
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.testing.cluster import AMD, ASCEND, NVIDIA, FakeNode, broker_of, in_gang
from support.builders.access_objects import access_policy

pytestmark = pytest.mark.rule("002.agnostic")

EVE = Requester("eve", ("system:authenticated",))
GREEN = FakeNode("green", count=4, memory=40)
RED = FakeNode("red", "amd", count=8, memory=64)
RINGS = FakeNode("rings", "ring", count=8)


def asking(count: str, name: str = "p", **fields: object) -> PodView:
    main = ContainerView("main", limits={ACCELERATOR: count}, requests={ACCELERATOR: count})
    return replace(PodView("team", name, f"uid-{name}", (main,)), **fields)  # type: ignore[arg-type]


def chosen(broker: Broker, pod: PodView) -> str:
    additions = broker.additions(pod, EVE)
    assert not additions.refusal
    return additions.renamed[ACCELERATOR]


def refused(broker: Broker, pod: PodView) -> str:
    additions = broker.additions(pod, EVE)
    assert ACCELERATOR not in additions.renamed
    return additions.refusal


def test_a_request_is_served_by_the_only_vendor_in_the_cluster() -> None:
    assert chosen(broker_of(GREEN), asking("2")) == NVIDIA
    assert chosen(broker_of(RED), asking("2")) == AMD


def test_of_several_vendors_that_fit_the_one_with_the_most_room_serves_it() -> None:
    assert chosen(broker_of(GREEN, RED), asking("2")) == AMD
    assert chosen(broker_of(GREEN, replace(RED, count=2)), asking("2")) == NVIDIA


def test_a_count_that_a_vendor_s_hardware_does_not_support_goes_to_another() -> None:
    assert chosen(broker_of(GREEN, RINGS), asking("3")) == NVIDIA
    assert "huawei.com/Ascend910" in refused(broker_of(RINGS), asking("3"))


def test_a_requirement_excludes_vendors() -> None:
    assert chosen(broker_of(GREEN, RED), asking("1", annotations={REQUIRE: "vendor=nvidia"})) == NVIDIA


def in_two_halves(name: str, policy: str) -> tuple[NodeView, NodeObject]:
    """A node with four devices on each of two NUMA nodes, and this policy of the Topology Manager."""
    amounts = {NVIDIA: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    devices = [{"uuid": f"{name}{index}", "index": index, "healthy": True, "numa": index // 4} for index in range(8)]
    spec = {"mode": "whole", "enforced": True, "devices": devices, "kubelet": {"topologyManagerPolicy": policy}}
    inventory = {"metadata": {"name": name}, "spec": spec}
    return NodeView(name, capacity=amounts, allocatable=amounts), NodeObject(name, "DeviceInventory", inventory)


def test_nodes_that_differ_only_in_the_alignment_of_their_kubelets_are_judged_separately() -> None:
    broker = Broker()
    for number in range(20):
        broker.observe(in_two_halves(f"strict-{number}", "single-numa-node"), 0.0)
    assert f"{NVIDIA}: 20 node(s)" in refused(broker, asking("8"))
    broker.observe(in_two_halves("lax", "none"), 0.0)
    assert chosen(broker, asking("8")) == NVIDIA


def test_nodes_that_accept_no_pods_serve_nothing() -> None:
    drained = replace(RED, cordoned=True)
    assert chosen(broker_of(GREEN, drained), asking("1")) == NVIDIA
    assert f"{AMD}: 1 node(s) were unschedulable" in refused(broker_of(drained), asking("1"))


def test_a_vendor_whose_devices_are_in_use_is_chosen_only_if_no_other_fits() -> None:
    broker = broker_of(GREEN, RED)
    holder = with_resources_renamed(asking("8", "holder"), {ACCELERATOR: AMD})
    broker.observe([holder], 0.0)
    broker.filter(holder, ["red"], 0.0)
    broker.bind(holder.uid, "red", 0.0)
    assert chosen(broker, asking("2")) == NVIDIA
    assert chosen(broker, asking("6")) == AMD  # no other has so many; it waits


def test_devices_that_pending_pods_request_are_not_counted_as_room() -> None:
    broker = broker_of(GREEN, replace(RED, count=4))
    for number in range(4):
        resource = chosen(broker, asking("2", f"p{number}"))
        broker.observe([with_resources_renamed(asking("2", f"p{number}"), {ACCELERATOR: resource})], 0.0)
    requested = [broker.request(pod).ask for pod in broker.pods.values()]
    assert sorted(ask.resource for ask in requested if ask) == [AMD, AMD, NVIDIA, NVIDIA]


def test_members_of_a_group_get_devices_of_one_vendor() -> None:
    broker = broker_of(GREEN, replace(RED, count=4))
    first, second = in_gang(asking("1", "first"), asking("1", "second"), least=2)
    other = {AMD: NVIDIA, NVIDIA: AMD}[chosen(broker, first)]
    broker.observe([with_resources_renamed(first, {ACCELERATOR: other})], 0.0)
    assert chosen(broker, second) == other


def test_members_that_are_created_at_once_get_devices_of_one_vendor_whatever_happens_between() -> None:
    broker = broker_of(GREEN, replace(RED, count=4))
    first, second, later = in_gang(*(asking("1", name) for name in ("first", "second", "later")), least=3)
    vendor = chosen(broker, first)
    crowd = {AMD: "red", NVIDIA: "green"}[vendor]
    holder = with_resources_renamed(asking("4", "holder"), {ACCELERATOR: vendor})
    broker.observe([replace(holder, node=crowd)], 0.0)
    assert chosen(broker, second) == vendor
    assert chosen(broker, asking("1", "other")) != vendor
    broker.step(60.0)
    broker.step(120.0)
    assert chosen(broker, later) != vendor  # no member was created after all


@pytest.mark.parametrize("resource", [AMD, NVIDIA])
def test_replicas_that_know_of_different_pending_pods_choose_one_vendor_for_a_group(resource: str) -> None:
    """Each replica answers some of the API server's calls, and its watch may be behind that of the other one."""
    ahead, behind = (broker_of(replace(GREEN, count=8), replace(RED, count=8)) for _ in range(2))
    ahead.observe([with_resources_renamed(asking("1", "other"), {ACCELERATOR: resource})], 0.0)
    first, second = in_gang(asking("1", "first"), asking("1", "second"), least=2)
    assert chosen(ahead, first) == chosen(behind, second)


def test_a_workload_that_is_only_validated_does_not_decide_for_its_pods() -> None:
    broker = broker_of(GREEN, replace(RED, count=4))
    (first,) = in_gang(asking("1", "first"), least=1)
    vendor = broker.additions(first, EVE, keep=False).renamed[ACCELERATOR]
    crowd = {AMD: "red", NVIDIA: "green"}[vendor]
    holder = with_resources_renamed(asking("4", "holder"), {ACCELERATOR: vendor})
    broker.observe([replace(holder, node=crowd)], 0.0)
    assert chosen(broker, first) != vendor


def test_a_request_that_no_vendor_can_serve_is_refused_with_the_reason_of_each() -> None:
    sentence = refused(broker_of(GREEN, RED), asking("16"))
    assert sentence.startswith(f"{ACCELERATOR}: no vendor's devices can serve this request. ")
    assert f"{AMD}: " in sentence
    assert f"{NVIDIA}: " in sentence


def test_a_cluster_without_devices_refuses_it() -> None:
    assert refused(Broker(), asking("1")) == (
        f"{ACCELERATOR}: no node provides devices of any vendor; see `linkwise get nodes`"
    )


def test_policies_exclude_vendors() -> None:
    broker = broker_of(GREEN, RED)
    broker.observe([access_policy("p", {"users": ["eve"]}, resources=[NVIDIA])], 0.0)
    assert chosen(broker, asking("1")) == NVIDIA


def test_without_the_webhook_the_request_is_refused_with_what_to_do() -> None:
    broker = broker_of(GREEN)
    pod = asking("1")
    broker.observe([pod], 0.0)
    answer = broker.filter(pod, ["green"], 0.0)
    assert "admission webhook" in next(iter({**answer.failed, **answer.unresolvable}.values()))


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "many", ""])
def test_amounts_that_are_not_a_number_of_devices_choose_no_vendor(count: str) -> None:
    additions = broker_of(GREEN).additions(asking(count), EVE)
    assert additions.refusal or ACCELERATOR not in additions.renamed or count == "0"


def test_a_pod_that_mixes_it_with_a_vendor_s_resource_is_left_to_validation() -> None:
    main = ContainerView("main", limits={ACCELERATOR: "1", NVIDIA: "1"})
    pod = replace(asking("1"), containers=(main,))
    additions = broker_of(GREEN).additions(pod, EVE)
    assert ACCELERATOR not in additions.renamed
    assert "use one of them" in broker_of(GREEN).admit(pod, EVE).refusal


def test_rings_serve_it_where_their_chips_fit() -> None:
    assert chosen(broker_of(RINGS), asking("4")) == ASCEND
