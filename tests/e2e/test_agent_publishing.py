"""The agent publishes the GPUs of its node by itself: resources, labels, the link matrix and the inventory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.builders.tool_texts import p2p_text
from support.e2e.agent import GPU, MEMORY
from support.e2e.processes import wait_for
from support.e2e.real_node.node import container_pod
from support.nvml_stub.machine import dgx1_v100, two_pcie

if TYPE_CHECKING:
    from pathlib import Path

    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode

MATRIX = "linkwise.dev/gpu-topology"
FACTS = "linkwise.dev/accelerator-"
MACHINE = replace(
    dgx1_v100(), gpus=tuple(replace(gpu, numa=number // 4) for number, gpu in enumerate(dgx1_v100().gpus))
)
"""eight GPUs on two NUMA nodes"""


@pytest.mark.rule("002.detect", "002.inventory")
def test_the_node_reports_its_gpus_without_a_flag(agent: Agent, real_node: RealNode) -> None:
    agent.start(MACHINE)
    real_node.wait_allocatable(GPU, 8)
    found = real_node.object()
    assert found["status"]["capacity"][GPU] == "8"
    labels = {key.removeprefix(FACTS): text for key, text in found["metadata"]["labels"].items() if FACTS in key}
    assert labels == {"vendor": "nvidia", "model": "Tesla-V100-SXM2-16GB", "count": "8", "memory": "16160"}
    assert "driver=nvml devices=8 healthy=8" in agent.log()


@pytest.mark.rule("000.publish", "001.report", "002.inventory")
def test_the_inventory_has_every_gpu_and_its_links(agent: Agent, real_node: RealNode) -> None:
    agent.start(MACHINE)
    spec = agent.wait_enforced()["spec"]
    assert (spec["mode"], spec["unit"], spec["deviceCount"], spec["healthyCount"]) == ("whole", "MiB", 8, 8)
    seen = [(one["uuid"], one["index"], one["minor"], one["numa"], one["memory"]) for one in spec["devices"]]
    assert seen == [(gpu.uuid, i, i, i // 4, 16160) for i, gpu in enumerate(MACHINE.gpus)]
    assert [one["busID"].lower()[-10:] for one in spec["devices"]] == [gpu.bus.lower()[-10:] for gpu in MACHINE.gpus]
    kinds = [link.partition("+")[0] for link in spec["links"][0]]  # the PCIe path stands behind the plus sign
    assert kinds == ["X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"]
    matrix = json.loads(real_node.object()["metadata"]["annotations"][MATRIX])
    assert matrix == spec["links"]
    owner = agent.inventory()["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Node", real_node.object()["metadata"]["uid"])


@pytest.mark.rule("001.report")
def test_measured_bandwidth_is_reported(agent: Agent, tmp_path: Path) -> None:
    rates = tuple(tuple(750.0 if i == j else 40.0 + i + j for j in range(8)) for i in range(8))
    (tmp_path / "bandwidth.txt").write_text(p2p_text({"Unidirectional P2P=Enabled": rates}))
    agent.start(MACHINE, bandwidth=str(tmp_path / "bandwidth.txt"))
    reported = agent.wait_enforced()["spec"]["bandwidth"]
    assert [rates[i][j] for i in range(8) for j in range(8) if i != j] == [
        reported[i][j] for i in range(8) for j in range(8) if i != j
    ]


@pytest.mark.rule("004.report", "004.count", "004.mode")
def test_a_node_labelled_for_sharing_reports_memory_and_the_number_of_gpus(agent: Agent, real_node: RealNode) -> None:
    real_node.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    agent.start(two_pcie())
    real_node.wait_allocatable(MEMORY, 2 * 15)
    wait_for(lambda: real_node.object()["status"]["capacity"].get("aliyun.com/gpu-count") == "2", 10, "gpu-count")
    status = real_node.object()["status"]
    assert status["allocatable"]["aliyun.com/gpu-count"] == "2"
    assert status["capacity"].get(GPU, "0") == "0"
    spec = agent.wait_enforced()["spec"]
    assert (spec["mode"], spec["unit"], [one["memory"] for one in spec["devices"]]) == ("share", "GiB", [15, 15])


@pytest.mark.rule("004.mode")
def test_a_new_label_changes_the_mode_while_no_pod_uses_a_gpu(agent: Agent, real_node: RealNode) -> None:
    agent.start(two_pcie())
    real_node.wait_allocatable(GPU, 2)
    real_node.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    real_node.wait_allocatable(MEMORY, 2 * 15)
    real_node.wait_allocatable(GPU, 0)
    assert agent.wait_enforced()["spec"]["mode"] == "share"


def test_nothing_is_written_while_nothing_changes(agent: Agent, real_node: RealNode, namespace: str) -> None:
    agent.start(MACHINE)
    real_node.wait_allocatable(GPU, 8)
    real_node.run(container_pod(namespace, "static", {GPU: 8}))
    wait_for(lambda: agent.inventory()["status"].get("allocations"), 10, "the allocation is published")
    before, rounds = agent.inventory(), agent.metric("linkwise_agent_discoveries_total")
    wait_for(lambda: agent.metric("linkwise_agent_discoveries_total") > rounds + 4, 20, "several discoveries")
    assert agent.inventory() == before
