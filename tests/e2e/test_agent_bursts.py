"""Equal pods created together: the kubelet may serve them in another order, and containers equal their records anyway."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, MEMORY
from support.e2e.real_node.node import scheduled_pod
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing


@pytest.mark.rule("000.agree")
def test_whole_devices_of_equal_pods_are_those_on_record(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    burst(whole_agent, real_node, namespace, {GPU: 1}, 8)


@pytest.mark.rule("004.allocate")
def test_shares_of_twenty_equal_pods_are_those_on_record(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    real_node.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    agent.start(dgx1_v100())
    real_node.wait_allocatable(MEMORY, 8 * 15)
    agent.wait_seen(placing)
    burst(agent, real_node, namespace, {MEMORY: 5}, 20)


def burst(agent: Agent, real_node: RealNode, namespace: str, limits: dict[str, int], number: int) -> None:
    pods = [scheduled_pod(namespace, f"equal-{count}", dict(limits)) for count in range(number)]
    real_node.cluster.create(pods)
    for pod in pods:
        real_node.wait_phase(pod, "Running")
    agent.agree(number)
    corrected = agent.metric("linkwise_agent_records_corrected_total")
    sys.stdout.write(f"{number} pods, {corrected:.0f} records corrected\n")  # shown with pytest -rP
