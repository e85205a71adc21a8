"""What the agent may do in a real cluster is what it does: the shipped role by an audit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import MEMORY, Agent, agent_role
from support.e2e.audit import audit_flags, trail_of
from support.e2e.config_files import AGENT
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for
from support.e2e.real_node.machine import demanded_machine
from support.e2e.real_node.node import container_pod, running_node
from support.nvml_stub.machine import two_pcie

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.audit import Trail

GRANT = "linkwise.dev/grant"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ASSIGNED = "ALIYUN_COM_GPU_MEM_ASSIGNED"
RECORD = {
    INDEX: "0",
    "ALIYUN_COM_GPU_MEM_POD": "2",
    "ALIYUN_COM_GPU_MEM_DEV": "15",
    ASSIGNED: "false",
    "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000000",
}

AFTER_A_CONFLICT = {("", "linkwise.dev", "deviceinventories", "get")}
"""what only an agent needs whose inventory was created by another client at the same moment"""


@pytest.fixture(scope="module")
def trail(
    programs: Path, container_programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trail]:
    """A cluster of its own that logs every call of the agent, while that does all it ever does."""
    folder = tmp_path_factory.mktemp("audited")
    cluster = OwnCluster(programs, folder, *audit_flags(folder, AGENT))
    try:
        cluster.start()
        cluster.install(root / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        role = agent_role(cluster)
        with (
            demanded_machine(tmp_path_factory.mktemp("machine")) as machine,
            running_node(cluster, machine, container_programs) as node,
        ):
            agent = Agent(node, folder)
            all_it_does(agent)
            agent.stop()
        yield trail_of(role, folder)
    finally:
        cluster.close()


def all_it_does(agent: Agent) -> None:
    """Publishes shared devices, taints the node, marks a pod as assigned, and corrects its record twice."""
    node, namespace = agent.node, agent.cluster.namespace()
    agent.cluster.kubectl("label", "node", node.name, "gpushare=true")
    agent.start(two_pcie(), stranded_taint="true", stranded_cpu="1000")
    node.wait_allocatable(MEMORY, 2 * 15)
    pod = container_pod(namespace, "share", {MEMORY: 2}, annotations=RECORD)
    node.run(pod)
    path = f"/api/v1/namespaces/{namespace}/pods/share"
    wait_for(lambda: annotations_of(agent, path)[ASSIGNED] == "true", 10, "the share is assigned")
    for number in (1, 2):
        agent.cluster.api.patch(path, {"metadata": {"annotations": {INDEX: "1", GRANT: None}}})
        wait_for(partial(corrected, agent, number), 10, "the record is corrected")
    wait_for(lambda: "RecordCorrected" in str(agent.cluster.events(namespace, "share")), 10, "an event")
    wait_for(lambda: node.object()["spec"].get("taints"), 10, "the node is tainted")
    agent.cluster.api.delete(f"/apis/linkwise.dev/v1alpha1/deviceinventories/{node.name}")
    agent.wait_enforced()


def annotations_of(agent: Agent, path: str) -> dict[str, str]:
    return dict(agent.cluster.api.get(path)["metadata"]["annotations"])


def corrected(agent: Agent, times: int) -> bool:
    return agent.metric("linkwise_agent_records_corrected_total") >= times


def test_nothing_that_the_agent_does_is_refused_under_the_shipped_role(trail: Trail) -> None:
    assert trail.refused == []
    assert trail.calls


def test_every_right_of_the_agents_role_is_used(trail: Trail) -> None:
    assert trail.granted - trail.used <= AFTER_A_CONFLICT


def test_the_agent_uses_nothing_but_its_role_and_what_everybody_may(trail: Trail) -> None:
    assert trail.used <= trail.granted
    plain = {call["requestURI"].split("?")[0] for call in trail.calls if "objectRef" not in call}
    assert all(path.startswith(("/apis", "/api", "/version")) for path in plain)


def test_the_agent_reads_only_its_own_node_and_the_pods_on_it(trail: Trail) -> None:
    lists = [call["requestURI"] for call in trail.calls if call["verb"] in {"list", "watch"}]
    assert lists
    assert all("fieldSelector=" in path and "real-node" in path for path in lists)
