"""Requirements of pods in the broker's verbs: admission, filter, bind, preemption, groups, dry runs and explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.dialects.linkwise.require import REQUIRE
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.views import ContainerView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import (
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    in_gang,
    place,
    steers,
    woken,
)
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from linkwise.broker.effects import Bind
    from linkwise.model.node import Mode
    from linkwise.model.views import PodView
    from linkwise.testing.cluster import Family

pytestmark = pytest.mark.rule("002.versions")

OLD = FakeNode("old", facts={"cuda": "12.0", "driver": "525.60.13"}, model="NVIDIA A100-SXM4-40GB", count=4, memory=40)
NEW = replace(OLD, name="new", facts={"cuda": "12.4", "driver": "550.54.15"})
BLANK = replace(OLD, name="blank", facts={})
MIXED = FakeNode("mixed", models=("NVIDIA A100", "NVIDIA H100", "NVIDIA A100", "NVIDIA H100"), count=4, memory=40)
BELOW = "node(s) had CUDA below 12.2"
UNKNOWN = "node(s) had an unknown CUDA version"


def requiring(pod: PodView, text: str) -> PodView:
    return replace(pod, annotations={**pod.annotations, REQUIRE: text})


def with_variables(pod: PodView, **variables: str) -> PodView:
    (main,) = pod.containers
    return replace(pod, containers=(replace(main, variables=variables),))


def devices_of(bound: Bind) -> tuple[str, ...]:
    assert bound.grant
    return bound.grant.offer.devices


CUDA = requiring(device_pod("cuda"), "cuda>=12.2")


def test_a_pod_goes_to_the_node_that_meets_its_requirement() -> None:
    broker = broker_of(OLD, NEW, BLANK)
    broker.observe([CUDA], 0.0)
    assert broker.filter(CUDA, ["old", "new", "blank"], 0.0).nodes == ["new"]


def test_nodes_are_refused_for_the_fact_that_is_too_low_or_unknown_and_evicting_pods_would_not_help() -> None:
    broker = broker_of(OLD, replace(OLD, name="older", facts={"cuda": "11.4"}), BLANK)
    answer = broker.filter(CUDA, ["old", "older", "blank"], 0.0)
    assert (answer.nodes, answer.failed) == ([], {})
    assert answer.unresolvable == {"old": BELOW, "older": BELOW, "blank": UNKNOWN}


@pytest.mark.parametrize(("mode", "resource"), [("whole", NVIDIA), ("share", MEMORY), ("percent", KOORDINATOR)])
def test_the_memory_of_a_simulated_machine_is_known_in_every_sharing_mode(mode: Mode, resource: str) -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "v100", mode=mode), 0.0)
    pod = device_pod("p", 100 if mode == "percent" else 1, resource)
    assert broker.filter(requiring(pod, "memory>=15Gi"), ["v100"], 0.0).nodes == ["v100"]
    refused = broker.filter(requiring(pod, "memory>=40Gi"), ["v100"], 0.0).unresolvable
    assert refused == {"v100": "node(s) had device memory below 40Gi"}


def test_a_pod_without_a_requirement_goes_anywhere() -> None:
    broker = broker_of(OLD, BLANK)
    assert broker.filter(device_pod("any"), ["old", "blank"], 0.0).nodes


def test_the_requirement_of_an_image_counts_where_the_pod_has_it() -> None:
    broker = broker_of(OLD, NEW)
    image = with_variables(device_pod("image"), NVIDIA_REQUIRE_CUDA="cuda>=12.2 brand=tesla,driver>=525,driver<526")
    assert broker.filter(image, ["old"], 0.0).unresolvable == {"old": BELOW}
    assert broker.filter(image, ["old", "new"], 0.0).nodes == ["new"]
    off = with_variables(image, NVIDIA_REQUIRE_CUDA="cuda>=12.2", NVIDIA_DISABLE_REQUIRE="1")
    assert broker.filter(off, ["old"], 0.0).nodes == ["old"]


def test_a_container_without_devices_requires_nothing_of_them() -> None:
    broker = broker_of(OLD)
    side = ContainerView("side", variables={"NVIDIA_REQUIRE_CUDA": "cuda>=12.2"})
    pod = replace(device_pod("two"), containers=(*device_pod("two").containers, side))
    assert broker.filter(pod, ["old"], 0.0).nodes == ["old"]


def test_devices_of_other_models_are_not_given_on_a_node_with_several() -> None:
    broker = broker_of(MIXED)
    pod = requiring(device_pod("h", 2), "model=H100")
    broker.observe([pod], 0.0)
    (bound,) = binds(broker.bind(pod.uid, "mixed", 0.0).effects)
    assert set(devices_of(bound)) == set(MIXED.devices(1, 3))
    again = requiring(device_pod("h2", 1), "model=H100")
    assert "free" in broker.filter(again, ["mixed"], 0.0).failed["mixed"]


def test_a_node_with_several_models_and_a_device_plugin_of_the_vendor_serves_only_what_all_devices_meet() -> None:
    broker = broker_of(replace(MIXED, enforced=False))
    assert broker.filter(requiring(device_pod("h"), "model=H100"), ["mixed"], 0.0).nodes == []
    assert broker.filter(requiring(device_pod("b"), "model in (A100, H100)"), ["mixed"], 0.0).nodes == ["mixed"]


@pytest.mark.parametrize(("family", "resource", "amount"), [("share", MEMORY, 4), ("percent", KOORDINATOR, 50)])
def test_parts_of_devices_meet_requirements_too(family: Family, resource: str, amount: int) -> None:
    nodes = [replace(node, family=family) for node in (OLD, NEW, replace(MIXED, facts={"cuda": "12.4"}))]
    broker = broker_of(*nodes)
    names = [node.name for node in nodes]
    h100 = requiring(device_pod("h", amount, resource), "cuda>=12.2, model=H100")
    broker.observe([h100], 0.0)
    assert broker.filter(h100, names, 0.0).nodes == ["mixed"]
    (bound,) = binds(broker.bind(h100.uid, "mixed", 0.0).effects)
    assert set(devices_of(bound)) <= set(MIXED.devices(1, 3))
    assert broker.filter(requiring(device_pod("c", amount, resource), "cuda>=12.2"), ["old"], 0.0).unresolvable == {
        "old": BELOW
    }


def test_a_bind_of_another_scheduler_to_such_a_node_is_refused() -> None:
    broker = broker_of(OLD)
    broker.observe([CUDA], 0.0)
    assert "CUDA" in broker.bind(CUDA.uid, "old", 0.0).error


def test_an_offer_ends_when_the_driver_of_its_node_is_replaced() -> None:
    broker = broker_of(NEW)
    broker.observe([CUDA], 0.0)
    assert broker.filter(CUDA, ["new"], 0.0).nodes == ["new"]
    broker.observe(replace(NEW, facts={"cuda": "12.0"}).events(), 1.0)
    assert broker.bind(CUDA.uid, "new", 2.0).error


def test_a_pod_is_woken_when_a_node_meets_its_requirement() -> None:
    broker = broker_of(OLD)
    broker.observe([CUDA], 0.0)
    broker.filter(CUDA, ["old"], 0.0)
    assert woken(broker.observe(replace(OLD, facts={"cuda": "12.4"}).events(), 1.0)) == ["cuda"]


def test_no_pod_is_evicted_on_a_node_that_does_not_meet_it() -> None:
    broker = broker_of(replace(OLD, count=1), replace(NEW, count=1))
    for node in ("old", "new"):
        place(broker, device_pod(f"low-{node}"), node)
    high = replace(CUDA, priority=100)
    broker.observe([high], 0.0)
    broker.filter(high, ["old", "new"], 0.0)
    victims = broker.preempt(high, {"old": ["uid-low-old"], "new": ["uid-low-new"]}, 0.0)
    assert list(victims) == ["new"]


def test_a_gang_is_planned_on_nodes_and_devices_that_meet_it() -> None:
    broker = broker_of(OLD, NEW, replace(MIXED, facts={"cuda": "12.4"}))
    pods = in_gang(*(requiring(device_pod(f"m{i}", 2), "") for i in range(2)), least=2)
    pods = [requiring(pod, "cuda>=12.2, model=A100") for pod in pods]
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["old", "new", "mixed"], 1.0).nodes == ["new"]
    assert broker.filter(pods[1], ["old", "new", "mixed"], 1.0).nodes == ["new"]


def test_members_of_a_gang_with_different_requirements_go_to_different_nodes() -> None:
    broker = broker_of(OLD, NEW)
    pods = in_gang(device_pod("a", 4), device_pod("b", 4), least=2)
    pods = [requiring(pods[0], "cuda>=12.2"), requiring(pods[1], "cuda<12.2")]
    broker.observe(pods, 0.0)
    assert [broker.filter(pod, ["old", "new"], 1.0).nodes for pod in pods] == [["new"], ["old"]]


def test_a_gang_that_too_few_nodes_meet_waits() -> None:
    broker = broker_of(OLD, NEW)
    pods = [requiring(pod, "cuda>=12.2") for pod in in_gang(*(device_pod(f"m{i}", 4) for i in range(2)), least=2)]
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["old", "new"], 1.0).nodes == []
    assert not steers(broker.observe([], 2.0))


def test_a_requirement_with_an_error_is_refused_at_admission_with_its_column() -> None:
    broker = broker_of(NEW)
    refused = broker.admit(requiring(device_pod("bad"), "cuda>=12.2, modle=A100")).refusal
    assert refused.startswith("linkwise.dev/require: column 13: unknown fact 'modle'")
    image = broker.admit(with_variables(device_pod("bad"), NVIDIA_REQUIRE_CUDA="cuda"))
    assert "NVIDIA_REQUIRE_CUDA: container main: column 1: 'cuda' is not a comparison" in image.refusal


def test_a_requirement_with_an_error_past_admission_is_refused_by_filter_and_explained() -> None:
    broker = broker_of(NEW)
    bad = requiring(device_pod("bad"), "cuda>>12")
    broker.observe([bad], 0.0)
    (text,) = broker.filter(bad, ["new"], 0.0).unresolvable.values()
    assert text == f"{REQUIRE}: column 6: expected a value, found '>'"
    assert broker.bind(bad.uid, "new", 0.0).error
    report = explain_pod(broker, bad.uid, 1.0)
    assert report
    assert (report.state, report.sentence) == ("invalid", text)


def test_a_requirement_of_a_pod_without_devices_is_not_read() -> None:
    broker = broker_of(NEW)
    pod = requiring(replace(device_pod("none"), containers=(ContainerView("main"),)), "nonsense")
    assert broker.admit(pod).refusal == ""
    assert broker.filter(pod, ["new"], 0.0).nodes == ["new"]


def test_an_explanation_has_the_numbers_of_the_nodes() -> None:
    broker = broker_of(OLD, replace(OLD, name="older", facts={"cuda": "11.4"}))
    broker.observe([CUDA], 0.0)
    broker.filter(CUDA, ["old", "older"], 0.0)
    report = explain_pod(broker, CUDA.uid, 1.0)
    assert report
    text = "\n".join(explanation_lines(report))
    assert "2 nodes had CUDA below 12.2" in text
    assert "CUDA version 12.0" in text


def test_a_dry_run_respects_requirements() -> None:
    broker = broker_of(OLD, NEW)
    found = broker.dry_run(CUDA, 0.0)
    assert found.offer
    assert found.offer.node == "new"


def test_nodes_of_one_shape_and_different_facts_are_distinguished_after_every_change() -> None:
    nodes = [replace(OLD, name=f"n{i}", facts={"cuda": f"12.{i}"}) for i in range(10)]
    broker = broker_of(*nodes)
    names = [node.name for node in nodes]
    for low in range(10):
        pod = requiring(device_pod(f"p{low}"), f"cuda>=12.{low}, cuda<12.{low + 1}")
        assert broker.filter(pod, names, 0.0).nodes == [f"n{low}"]
        broker.observe(replace(nodes[low], facts={"cuda": "11.0"}).events(), 0.0)
        assert broker.filter(replace(pod, uid=f"again{low}"), names, 0.0).nodes == []


def test_a_burst_of_pods_with_requirements_ends_on_the_nodes_that_meet_them() -> None:
    nodes = [replace(OLD, name=f"n{i}", facts={"cuda": "12.4" if i % 2 else "11.8"}) for i in range(26)]
    broker = broker_of(*nodes)
    names = [node.name for node in nodes]
    for number in range(50):
        pod = requiring(device_pod(f"p{number}"), "cuda>=12")
        broker.observe([pod], 0.0)
        (node,) = broker.filter(pod, names, 0.0).nodes
        assert int(node[1:]) % 2
    late = requiring(device_pod("late", 4), "cuda>=12")
    assert broker.filter(late, names, 0.0).nodes == []


def test_labels_of_gpu_feature_discovery_are_facts() -> None:
    view = replace(
        FakeNode("gfd", inventory=False).view(),
        labels={
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/gpu.memory": "40960",
            "nvidia.com/cuda.driver-version.full": "535.104.05",
            "nvidia.com/cuda.runtime-version.full": "12.2",
            "nvidia.com/gpu.compute.major": "8",
            "nvidia.com/gpu.compute.minor": "0",
        },
    )
    broker = broker_of()
    broker.observe([view], 0.0)
    fits = "cuda>=12.2, driver>=535, compute=8.0, memory>=40Gi, model=A100, vendor=nvidia"
    assert broker.filter(requiring(device_pod("p"), fits), ["gfd"], 0.0).nodes == ["gfd"]
    assert broker.filter(requiring(device_pod("q"), "firmware>=1"), ["gfd"], 0.0).nodes == []


def test_labels_of_linkwise_are_facts_where_the_inventory_is_missing() -> None:
    labels = {
        "linkwise.dev/accelerator-vendor": "nvidia",
        "linkwise.dev/accelerator-model": "NVIDIA-H100",
        "linkwise.dev/accelerator-memory": "81559",
    }
    broker = broker_of()
    broker.observe([replace(FakeNode("labelled", inventory=False).view(), labels=labels)], 0.0)
    pod = requiring(device_pod("p"), "model=H100, memory>=79Gi, vendor=nvidia")
    assert broker.filter(pod, ["labelled"], 0.0).nodes == ["labelled"]
    assert broker.filter(requiring(device_pod("q"), "memory>=80Gi"), ["labelled"], 0.0).nodes == []


def test_a_snapshot_keeps_the_requirement() -> None:
    broker = broker_of(OLD, NEW)
    image = with_variables(CUDA, NVIDIA_REQUIRE_CUDA="cuda>=12.2")
    broker.observe([image], 0.0)
    broker.filter(image, ["old"], 0.0)
    again = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(1.0)), BrokerState))
    assert again.filter(image, ["old", "new"], 2.0).nodes == ["new"]


def test_the_resource_of_the_pod_decides_whose_variables_count() -> None:
    ring = FakeNode("ring", "ring", count=8)
    broker = broker_of(ring)
    pod = with_variables(device_pod("npu", 1, "huawei.com/Ascend910"), NVIDIA_REQUIRE_CUDA="cuda>=12.2")
    assert broker.filter(pod, ["ring"], 0.0).nodes == ["ring"]
    assert broker.filter(requiring(pod, "vendor=huawei"), ["ring"], 0.0).nodes == ["ring"]
    assert NVIDIA not in pod.containers[0].limits
