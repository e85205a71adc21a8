"""AMD GPUs on a real kubelet: containers have the GPUs on record with all their device nodes, and faults take GPUs out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.amdsmi_stub.machine import cpx, mi100_four, mi300
from support.e2e.amd_agent import AMD, AmdAgent
from support.e2e.real_node.node import container_pod, scheduled_pod
from support.e2e.service import grant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing


@pytest.fixture
def starting(request: pytest.FixtureRequest, real_node: RealNode, tmp_path: Path) -> Iterator[AmdAgent]:
    """The agent of a machine of AMD GPUs, to be started."""
    request.getfixturevalue("agents_role")
    made = AmdAgent(real_node, tmp_path)
    yield made
    made.stop()


@pytest.mark.rule("000.agree", "002.nodes", "002.vendors")
@pytest.mark.parametrize("cdi", ["never", "always"])
def test_a_container_has_kfd_and_the_render_and_card_nodes_of_the_gpus_on_record(
    cdi: str, starting: AmdAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    starting.start_gpus(mi300(), cdi=cdi)
    real_node.wait_allocatable(AMD, 8)
    starting.wait_seen(placing)
    first, second = (scheduled_pod(namespace, f"train-{size}", {AMD: size}) for size in (3, 5))
    held = [set(grant(real_node.run(pod)).devices) for pod in (first, second)]
    renders = {gpu.uuid or "": gpu.render or 0 for gpu in mi300().gpus}
    for pod, own in zip((first, second), held, strict=True):
        assert starting.in_container(pod) == sorted(renders[uuid] for uuid in own)
        assert starting.by_kubelet(pod) == own
        assert not {"AMD_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} & real_node.environment(pod).keys()
    assert set.union(*held) == renders.keys()


@pytest.mark.rule("002.vendors")
def test_a_node_publishes_pcie_paths_so_that_gpus_on_one_cpu_socket_are_preferred(
    starting: AmdAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    starting.start_gpus(mi100_four())
    real_node.wait_allocatable(AMD, 4)
    starting.wait_seen(placing)
    pods = [scheduled_pod(namespace, f"pair-{n}", {AMD: 2}) for n in range(2)]
    for pod in pods:
        real_node.run(pod)
    assert sorted(starting.in_container(pod) for pod in pods) == [[128, 130], [129, 131]]


def test_partitions_of_a_divided_gpu_are_allocated_one_by_one(
    starting: AmdAgent, real_node: RealNode, namespace: str
) -> None:
    starting.start_gpus(cpx())
    real_node.wait_allocatable(AMD, 8)
    pods = [container_pod(namespace, f"part-{n}", {AMD: 1}) for n in range(2)]
    for pod in pods:
        real_node.run(pod)
    assert len({tuple(starting.in_container(pod)) for pod in pods}) == 2


@pytest.mark.rule("000.agree")
def test_a_gpu_with_memory_errors_leaves_the_pool_and_returns_also_after_the_agent_was_killed(
    starting: AmdAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    starting.start_gpus(mi300(4))
    real_node.wait_allocatable(AMD, 4)
    starting.has_gpus(mi300(4).changing("g1", ecc=(0, 2)))
    real_node.wait_allocatable(AMD, 3)
    assert "2 uncorrectable memory errors" in starting.wait_condition("DevicesHealthy", "False")["message"]
    starting.wait_seen(placing)
    pod = scheduled_pod(namespace, "train", {AMD: 3})
    real_node.run(pod)
    assert starting.in_container(pod) == [128, 130, 131]
    starting.restart()
    starting.has_gpus(mi300(4))
    real_node.wait_allocatable(AMD, 4)
    starting.wait_seen(placing)
    last = scheduled_pod(namespace, "last", {AMD: 1})
    real_node.run(last)
    assert starting.in_container(last) == [129]


def test_the_node_publishes_the_facts_of_its_gpus(starting: AmdAgent, real_node: RealNode) -> None:
    starting.start_gpus(mi300(2))
    real_node.wait_allocatable(AMD, 2)

    spec = starting.wait_enforced()["spec"]
    assert [device["model"] for device in spec["devices"]] == ["AMD Instinct MI300X"] * 2
    assert "XGMI" in str(spec["links"])
