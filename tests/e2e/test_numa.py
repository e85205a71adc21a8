"""The kubelet's Topology Manager admits what Linkwise places: a real kubelet on a machine with a simulated NUMA tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, kubelet_devices
from support.e2e.processes import wait_for
from support.e2e.real_node.node import container_pod, scheduled_pod
from support.e2e.real_node.numa import align_with_numa
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing
    from support.nvml_stub.machine import StubMachine


def two_numa_nodes() -> StubMachine:
    """Eight GPUs, four on each NUMA node."""
    machine = dgx1_v100()
    for number in range(8):
        machine = machine.changing(number, numa=number // 4)
    return machine


@pytest.fixture
def aligned(agent: Agent, placing: Placing) -> Callable[[str], Agent]:
    """Starts the agent on two NUMA nodes, beside a kubelet with this policy."""

    def start(policy: str, scope: str = "container") -> Agent:
        align_with_numa(agent.node, 2, policy, scope)
        agent.start(two_numa_nodes())
        agent.node.wait_allocatable(GPU, 8)
        agent.wait_seen(placing)
        return agent

    return start


def numa_nodes(node: RealNode) -> dict[str, set[int]]:
    """NUMA nodes of the devices that the kubelet has allocated, by pod."""
    place = {gpu.uuid: number // 4 for number, gpu in enumerate(dgx1_v100().gpus)}
    return {pod: {place[device] for device in devices} for (_, pod, _), devices in kubelet_devices(node).items()}


@pytest.mark.rule("002.affinity")
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_kubelet_admits_what_is_placed_and_gives_it_the_devices_on_record(
    aligned: Callable[[str], Agent], real_node: RealNode, namespace: str, policy: str
) -> None:
    agent = aligned(policy)
    assert agent.inventory()["spec"]["kubelet"]["topologyManagerPolicy"] == policy
    for size in (1, 2, 4):
        real_node.run(scheduled_pod(namespace, f"of-{size}", {GPU: size}))
    agent.agree(3)
    assert numa_nodes(real_node) == {"of-1": {0}, "of-2": {0}, "of-4": {1}}


@pytest.mark.rule("002.affinity")
def test_a_pod_that_the_kubelet_would_reject_waits(
    aligned: Callable[[str], Agent], real_node: RealNode, namespace: str
) -> None:
    agent = aligned("single-numa-node")
    for number in range(2):
        real_node.run(scheduled_pod(namespace, f"three-{number}", {GPU: 3}))
    agent.agree(2)
    forced = container_pod(namespace, "forced", {GPU: 2})
    assert real_node.run(forced, "Failed")["status"]["reason"] == "TopologyAffinityError"
    waiting = scheduled_pod(namespace, "waiting", {GPU: 2})
    real_node.cluster.api.create(waiting)
    wait_for(lambda: "no NUMA node with enough free devices" in str(real_node.events(waiting)), 30, "it is refused")
    real_node.remove(scheduled_pod(namespace, "three-1", {GPU: 3}))
    real_node.wait_phase(waiting, "Running")


@pytest.mark.rule("002.affinity")
def test_a_restricted_kubelet_gives_a_pod_both_numa_nodes_if_it_needs_them(
    aligned: Callable[[str], Agent], real_node: RealNode, namespace: str
) -> None:
    agent = aligned("restricted")
    real_node.run(scheduled_pod(namespace, "whole", {GPU: 8}))
    agent.agree(1)
    assert numa_nodes(real_node) == {"whole": {0, 1}}
