"""A device fails: the kubelet stops allocating it within seconds, other devices and pods are left alone, and it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, replicas
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

UUIDS = [gpu.uuid or "" for gpu in dgx1_v100().gpus]


@pytest.mark.rule("002.inventory")
def test_a_device_that_fails_leaves_the_allocatable_ones_and_comes_back(
    whole_agent: Agent, real_node: RealNode
) -> None:
    whole_agent.has(dgx1_v100().losing(3))
    real_node.wait_allocatable(GPU, 7)
    assert real_node.object()["status"]["capacity"][GPU] == "8"
    assert UUIDS[3] in whole_agent.wait_condition("DevicesHealthy", "False")["message"]
    spec = whole_agent.inventory()["spec"]
    assert [one["index"] for one in spec["devices"] if not one["healthy"]] == [3]
    whole_agent.has(dgx1_v100())
    real_node.wait_allocatable(GPU, 8)
    whole_agent.wait_condition("DevicesHealthy", "True")


@pytest.mark.rule("000.agree")
def test_a_pod_on_a_failed_device_keeps_running_and_its_successor_gets_another(
    whole_agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    real_node.cluster.api.create(replicas(namespace, 1))
    whole_agent.wait_running(1)
    (pod,) = whole_agent.pods()
    (device,) = grant(pod).devices
    whole_agent.has(dgx1_v100().losing(UUIDS.index(device)))
    real_node.wait_allocatable(GPU, 7)
    whole_agent.wait_seen(placing)
    whole_agent.agree(1)
    assert [one["metadata"]["uid"] for one in whole_agent.pods()] == [pod["metadata"]["uid"]]
    real_node.remove(pod)
    whole_agent.wait_running(1)
    (successor,) = whole_agent.pods()
    assert grant(successor).devices not in {(device,), ()}
    whole_agent.agree(1)


@pytest.mark.rule("000.agree")
def test_all_healthy_devices_are_served_beside_a_failed_one(
    whole_agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    whole_agent.has(dgx1_v100().losing(0))
    real_node.wait_allocatable(GPU, 7)
    whole_agent.wait_seen(placing)
    held = grant(real_node.run(scheduled_pod(namespace, "train", {GPU: 7})))
    assert set(held.devices) == set(UUIDS[1:])
    whole_agent.agree(1)


def test_a_driver_that_is_unloaded_makes_all_devices_unhealthy(whole_agent: Agent, real_node: RealNode) -> None:
    whole_agent.unload_driver()
    real_node.wait_allocatable(GPU, 0)
    assert whole_agent.wait_condition("DevicesHealthy", "False")["message"]
    whole_agent.has(dgx1_v100())
    real_node.wait_allocatable(GPU, 8)
