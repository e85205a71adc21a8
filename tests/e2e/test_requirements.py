"""Requirements on versions and models with a real scheduler and a real kubelet: what NVML reports decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.agent import GPU
from support.e2e.processes import wait_for
from support.e2e.real_node.node import container_pod, scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import MIB, StubMachine, dgx1_v100

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

REQUIRE: Final = "linkwise.dev/require"
H100: Final = "NVIDIA H100 80GB HBM3"


def with_h100() -> StubMachine:
    """Eight GPUs, of which the last four are H100."""
    machine = dgx1_v100()
    for number in range(4, 8):
        machine = machine.changing(number, name=H100, memory=81559 * MIB, compute=(9, 0))
    return machine


def requiring(text: str) -> dict[str, Any]:
    return {"annotations": {REQUIRE: text}}


@pytest.mark.rule("002.versions")
def test_a_pod_runs_where_the_driver_reports_the_version_that_it_requires(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    facts = whole_agent.inventory()["spec"]["facts"]
    assert (facts["cuda"], facts["driver"], facts["compute"]) == ("12.4", "550.54.15", "7.0")
    pod = scheduled_pod(namespace, "meets", {GPU: 2}, **requiring("cuda>=12.2, driver>=550, compute=7.0, model=V100"))
    real_node.run(pod)
    whole_agent.agree(1)


@pytest.mark.rule("002.versions")
def test_a_pod_waits_for_the_version_that_it_requires_and_starts_when_the_driver_is_replaced(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    pod = scheduled_pod(namespace, "waits", {GPU: 1}, **requiring("cuda>=12.8"))
    real_node.cluster.api.create(pod)
    reason = "node(s) had CUDA below 12.8"
    wait_for(lambda: any(reason in event for event in real_node.events(pod)), 30, "the scheduler says what is missing")
    whole_agent.has(replace(dgx1_v100(), cuda=12080, driver="570.86.10"))
    real_node.wait_phase(pod, "Running")
    whole_agent.agree(1)


@pytest.mark.rule("002.versions")
def test_the_requirement_of_an_image_is_checked_before_a_node_is_chosen(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    variables = {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=tesla,driver>=535,driver<536"}
    pod = scheduled_pod(namespace, "image", {GPU: 1}, environment=variables)
    real_node.cluster.api.create(pod)
    reason = "node(s) had CUDA below 13.0"
    wait_for(lambda: any(reason in event for event in real_node.events(pod)), 30, "the scheduler says what is missing")
    allowed = scheduled_pod(namespace, "off", {GPU: 1}, environment={**variables, "NVIDIA_DISABLE_REQUIRE": "true"})
    real_node.run(allowed)
    whole_agent.agree(1)


@pytest.mark.rule("002.versions")
def test_a_container_gets_only_gpus_of_the_model_that_it_requires(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.start(with_h100())
    real_node.wait_allocatable(GPU, 8)
    agent.wait_seen(placing)
    expected = {gpu.uuid for gpu in with_h100().gpus[4:]}
    text = "model=H100, memory>=79Gi, compute>=9.0"
    pods = [scheduled_pod(namespace, f"h100-{number}", {GPU: 2}, **requiring(text)) for number in range(2)]
    held = [grant(real_node.run(pod)).devices for pod in pods]
    assert {device for devices in held for device in devices} == expected
    agent.agree(2)


@pytest.mark.rule("002.versions")
def test_the_agent_refuses_a_pod_that_no_scheduler_has_checked(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    pod = container_pod(namespace, "slipped", {GPU: 1}, **requiring("cuda>=13.0"))
    real_node.cluster.api.create(pod)
    failed = real_node.wait_phase(pod, "Failed")
    assert failed["status"]["reason"] == "UnexpectedAdmissionError"
    assert "cuda>=13.0 is required by linkwise.dev/require" in failed["status"]["message"]
    assert "the node has CUDA version 12.4" in failed["status"]["message"]
    real_node.run(scheduled_pod(namespace, "next", {GPU: 8}))
    whole_agent.agree(1)
