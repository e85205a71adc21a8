"""Pods on nodes whose kubelet aligns devices with NUMA nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.testing.cluster import NVIDIA, device_pod, place

if TYPE_CHECKING:
    from linkwise.model.node import TopologyPolicy

NOW = 0.0


def aligned_node(policy: TopologyPolicy, cpus: str = "") -> Broker:
    """A broker with one node: four devices on each of two NUMA nodes, each with these CPUs."""
    amounts = {NVIDIA: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    devices = [{"uuid": f"d{index}", "index": index, "healthy": True, "numa": index // 4} for index in range(8)]
    kubelet = {"topologyManagerPolicy": policy, "cpuManagerPolicy": "static"}
    inventory = {
        "metadata": {"name": "n"},
        "spec": {"mode": "whole", "enforced": True, "devices": devices, "kubelet": kubelet},
    }
    zones = [
        {
            "name": f"node-{place}",
            "type": "Node",
            "resources": [{"name": "cpu", "allocatable": cpus, "available": cpus}],
        }
        for place in range(2)
    ]
    broker = Broker()
    broker.observe(
        [NodeView("n", capacity=amounts, allocatable=amounts), NodeObject("n", "DeviceInventory", inventory)], NOW
    )
    if cpus:
        attributes = [{"name": "topologyManagerPolicy", "value": policy}]
        broker.observe([NodeObject("n", "NodeResourceTopology", {"attributes": attributes, "zones": zones})], NOW)
    return broker


def guaranteed(name: str, cpus: int) -> PodView:
    limits = {NVIDIA: "1", "cpu": str(cpus), "memory": "1Gi"}
    return PodView("default", name, name, (ContainerView("main", limits=limits),), version=1)


def devices(broker: Broker, name: str) -> tuple[str, ...]:
    entry = broker.entry(name)
    assert entry is not None
    return entry.grant.offer.devices


@pytest.mark.rule("002.affinity")
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_of_a_burst_only_pods_that_the_kubelet_admits_are_placed(policy: TopologyPolicy) -> None:
    broker = aligned_node(policy)
    placed = []
    for number in range(50):
        pod = device_pod(f"p{number}", 3, uid=f"p{number}")
        broker.observe([pod], NOW)
        if broker.filter(pod, ["n"], NOW).nodes:
            placed.append(place(broker, pod, "n"))
    assert [{int(device[1:]) // 4 for device in devices(broker, pod.uid)} for pod in placed] == [{0}, {1}]
    (refused,) = broker.filter(device_pod("two", 2), ["n"], NOW).failed.values()
    assert "NUMA" in refused


def test_cpus_of_pods_that_the_report_does_not_include_yet_are_subtracted() -> None:
    broker = aligned_node("single-numa-node", cpus="8")
    for number in range(4):
        place(broker, guaranteed(f"p{number}", 4), "n")
    assert [int(devices(broker, f"p{number}")[0][1:]) // 4 for number in range(4)] == [0, 0, 1, 1]
    answer = broker.filter(guaranteed("fifth", 4), ["n"], NOW)
    assert answer.failed == {"n": "node(s) had no NUMA node with enough free devices and CPUs"}
    assert broker.filter(device_pod("burstable"), ["n"], NOW).nodes == ["n"]


def test_a_policy_that_is_lifted_lets_the_pod_in() -> None:
    broker = aligned_node("single-numa-node")
    pod = device_pod("large", 8)
    assert not broker.filter(pod, ["n"], NOW).nodes
    broker = aligned_node("none")
    assert broker.filter(pod, ["n"], NOW).nodes == ["n"]
