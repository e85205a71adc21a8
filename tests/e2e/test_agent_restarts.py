"""The kubelet, the agent or the API server ends at any moment: afterwards all places agree again."""

from __future__ import annotations

import random
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, replicas
from support.e2e.processes import wait_for
from support.e2e.real_node.node import scheduled_pod
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

pytestmark = pytest.mark.rule("000.agree")


def goes_on(agent: Agent, real_node: RealNode, namespace: str, running: int) -> None:
    """Everything agrees, and one more pod starts."""
    real_node.wait_allocatable(GPU, 8)
    agent.agree(running)
    real_node.run(scheduled_pod(namespace, "later", {GPU: 2}))
    agent.agree(running + 1)


def test_the_kubelet_restarts(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    real_node.run(scheduled_pod(namespace, "train", {GPU: 2}))
    real_node.restart_kubelet()
    goes_on(whole_agent, real_node, namespace, 1)
    assert whole_agent.wait_enforced()


def test_the_agent_is_killed_before_it_registers(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.start(dgx1_v100(), ready=False)
    agent.wait_log("driver=nvml devices=8")
    agent.restart()
    agent.wait_seen(placing)
    goes_on(agent, real_node, namespace, 0)


def test_the_agent_is_killed_while_pods_run(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    before = real_node.run(pod)["status"]["containerStatuses"][0]["containerID"]
    whole_agent.kill()
    real_node.wait_allocatable(GPU, 0)
    whole_agent.restart()
    goes_on(whole_agent, real_node, namespace, 1)
    status = real_node.wait_phase(pod, "Running")["status"]["containerStatuses"][0]
    assert (status["containerID"], status["restartCount"]) == (before, 0)


def test_a_pod_that_comes_after_the_agent_was_stopped_waits_for_the_next_one_and_is_not_rejected(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    assert whole_agent.stop() == 0
    assert whole_agent.condition("PluginRegistered")["reason"] == "AgentStopped"
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    real_node.cluster.api.create(pod)
    wait_for(lambda: "FailedScheduling" in " ".join(real_node.events(pod)), 20, "the node is refused")
    whole_agent.restart()
    real_node.wait_phase(pod, "Running")  # a pod that the kubelet rejects stays Failed
    whole_agent.agree(1)


def test_the_agent_is_killed_at_random_moments_of_a_burst(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    moments = sorted(random.SystemRandom().choices(range(8), k=3))
    sys.stdout.write(f"killed with {moments} pods running\n")  # to repeat a failure
    real_node.cluster.api.create(replicas(namespace, 8))
    for number in moments:
        whole_agent.wait_running(number)
        whole_agent.restart()
    whole_agent.wait_running(8)
    whole_agent.agree(8)


def test_the_agent_is_killed_between_the_two_calls_of_an_allocation(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.start(dgx1_v100(), log_level="debug")
    agent.wait_seen(placing)
    real_node.cluster.api.create(replicas(namespace, 4))
    agent.wait_log("preferred resource=nvidia.com/gpu")
    agent.signal(signal.SIGSTOP)
    agent.restart()
    agent.wait_running(4)
    agent.agree(4)


def test_the_api_server_goes_and_comes_back(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    real_node.run(scheduled_pod(namespace, "train", {GPU: 2}))
    said = len(whole_agent.log())
    real_node.cluster.api_server.kill()
    whole_agent.wait_log("resource=pods failed", after=said)
    assert whole_agent.http.answers("/livez")
    real_node.cluster.start_api_server()
    goes_on(whole_agent, real_node, namespace, 1)


def test_the_agent_restarts_without_an_api_server(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    real_node.run(scheduled_pod(namespace, "train", {GPU: 2}))
    real_node.cluster.api_server.kill()
    whole_agent.restart()
    assert whole_agent.metric("linkwise_agent_enforced") == 1
    real_node.cluster.start_api_server()
    goes_on(whole_agent, real_node, namespace, 1)
