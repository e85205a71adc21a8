"""Broken hardware data and folders: the agent stays up, says what is wrong, and serves what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import CONTROL, GPU
from support.e2e.real_node.node import scheduled_pod
from support.nvml_stub.machine import StubMachine, dgx1_v100, two_pcie

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing


def test_of_two_gpus_with_the_same_uuid_one_is_left_out(agent: Agent, real_node: RealNode) -> None:
    agent.start(dgx1_v100().changing(5, uuid=dgx1_v100().gpus[4].uuid))
    real_node.wait_allocatable(GPU, 7)
    message = agent.wait_condition("InventoryComplete", "False")["message"]
    assert "device 5 is left out: it has the UUID of device 4" in message
    assert [one["index"] for one in agent.wait_enforced()["spec"]["devices"]] == [0, 1, 2, 3, 4, 6, 7]


def test_a_link_that_only_one_gpu_reports_is_named(agent: Agent, real_node: RealNode) -> None:
    agent.start(dgx1_v100().changing(0, links=()))
    real_node.wait_allocatable(GPU, 8)
    message = agent.wait_condition("InventoryComplete", "False")["message"]
    assert "different numbers of NVLinks between devices 0 and 1 (0 and 1)" in message
    assert f"note: {message}" in agent.text("/readyz")
    assert agent.wait_enforced()["spec"]["healthyCount"] == 8


@pytest.mark.rule("000.agree")
def test_an_error_of_one_gpu_degrades_only_that_one(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.start(dgx1_v100().losing(6))
    real_node.wait_allocatable(GPU, 7)
    agent.wait_seen(placing)
    real_node.run(scheduled_pod(namespace, "train", {GPU: 2}))
    agent.agree(1)
    assert "device " in agent.text("/readyz")


@pytest.mark.rule("002.detect")
def test_a_machine_without_gpus_has_an_empty_inventory(agent: Agent, real_node: RealNode) -> None:
    agent.start(StubMachine(()))
    assert agent.wait_condition("DevicesDiscovered", "False")["reason"] == "NoDevices"
    assert agent.inventory()["spec"]["devices"] == []
    assert GPU not in real_node.object()["status"]["capacity"]
    agent.has(two_pcie())
    real_node.wait_allocatable(GPU, 2)
    agent.wait_condition("DevicesDiscovered", "True")


@pytest.mark.rule("002.nodes")
def test_without_a_cdi_folder_containers_get_device_nodes(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    real_node.machine.run("sh", "-c", "echo >/run/file")
    agent.start(two_pcie(), cdi_folder="/run/file")
    assert "/run/file" in agent.wait_condition("CDIWritten", "False")["message"]
    agent.wait_seen(placing)
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    real_node.run(pod)
    assert real_node.devices(pod) == {"/dev/nvidia0": (195, 0), "/dev/nvidia1": (195, 1)} | CONTROL
    agent.agree(1)


def test_a_bandwidth_file_that_is_missing_is_named(agent: Agent) -> None:
    agent.start(two_pcie(), bandwidth="/run/none.txt")
    assert "/run/none.txt" in agent.wait_condition("InventoryComplete", "False")["message"]
    assert agent.wait_enforced()
