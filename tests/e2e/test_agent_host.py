"""What the agent does for its host: container flags over HTTP, and the taint that keeps CPUs free for idle GPUs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU
from support.e2e.processes import wait_for
from support.e2e.real_node.node import container_pod
from support.nvml_stub.machine import two_pcie

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode

TAINT = {"key": "linkwise.dev/idle-accelerators", "effect": "PreferNoSchedule"}
UUIDS = [gpu.uuid or "" for gpu in two_pcie().gpus]


def taints(real_node: RealNode) -> list[dict[str, str]]:
    return [taint for taint in real_node.object()["spec"].get("taints", []) if taint["key"] == TAINT["key"]]


@pytest.mark.rule("002.flags")
def test_container_flags_of_chosen_devices_are_served_on_the_host(agent: Agent) -> None:
    agent.start(two_pcie(), flags="true")
    flags = agent.text("/docker/cli?dev=1").split()
    assert {flag for flag in flags if flag.startswith("--device=")} == {
        "--device=/dev/nvidia1",
        "--device=/dev/nvidiactl",
        "--device=/dev/nvidia-uvm",
    }
    assert f"--env=NVIDIA_VISIBLE_DEVICES={UUIDS[1]}" in flags
    everything = json.loads(agent.text("/docker/cli/json"))
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= set(everything["Devices"])
    assert agent.http.raw("GET", "/docker/cli?dev=7")[0] == 400


@pytest.mark.rule("002.flags")
def test_container_flags_are_not_served_by_default(agent: Agent) -> None:
    agent.start(two_pcie())
    assert agent.http.raw("GET", "/docker/cli")[0] == 404


@pytest.mark.rule("002.stranded")
def test_idle_gpus_beside_busy_cpus_taint_the_node_until_cpus_are_free(
    agent: Agent, real_node: RealNode, namespace: str
) -> None:
    agent.start(two_pcie(), stranded_taint="true", stranded_cpu="0.5")
    real_node.wait_allocatable(GPU, 2)
    assert taints(real_node) == []
    cpus = int(real_node.object()["status"]["allocatable"]["cpu"])
    busy = container_pod(namespace, "busy", {"cpu": f"{1000 * cpus - 500}m"})
    real_node.run(busy)
    wait_for(lambda: taints(real_node) == [TAINT], 10, "the node is tainted")
    real_node.remove(busy)
    wait_for(lambda: taints(real_node) == [], 10, "the taint is removed")
