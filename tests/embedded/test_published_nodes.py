"""What the agent of a node publishes is what the service places pods by."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkwise.kube.client.api import connect
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.node.publishing import IDLE_ACCELERATORS, annotations_of, should_taint
from linkwise.wire.kubernetes.objects import node_view, pod_view
from support.builders.discoveries import dgx1, state_of
from support.e2e.node_objects import machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GPU = "nvidia.com/gpu"


@asynccontextmanager
async def writer(cluster: ClusterUnderTest, node: str) -> AsyncIterator[NodeWriter]:
    """A writer of a node's agent."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(cluster.embedded.api.kubeconfig(), encoding="utf-8")
        connection = connect(file, environ={})
    try:
        yield NodeWriter(connection, node)
    finally:
        await connection.close()


@pytest.mark.rule("000.publish")
@embedded()
async def test_a_pod_gets_linked_devices_by_the_matrix_that_the_agent_published(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("gpu-1", "nvlink", source="count"))
    async with writer(cluster, "gpu-1") as agent:
        await agent.patch_node({}, annotations_of(dgx1()))
    await cluster.seen()
    topology = dgx1().topology
    assert topology
    granted = await cluster.place("pair", {GPU: 2})
    first, second = granted.positions(f"#{index}" for index in range(8))
    assert topology.links[first][second].direct == 2


@embedded()
async def test_a_pod_gets_devices_of_the_inventory_that_the_agent_published(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("gpu-1", "nvlink", source="count"))
    async with writer(cluster, "gpu-1") as agent:
        await agent.write_inventory(state_of(dgx1(), conditions=False).inventory, None)
    await cluster.seen()
    granted = await cluster.place("pair", {GPU: 2})
    assert set(granted.devices) < {f"GPU-{index}" for index in range(8)}


@pytest.mark.rule("002.stranded")
@embedded()
async def test_the_taint_for_idle_devices_keeps_no_pod_away_that_requests_them(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("gpu-1", "nvlink"))
    view = node_view(cluster.store.get("nodes", "gpu-1").read())
    assert not should_taint(view, map(pod_view, cluster.pods()), idle=8)
    await cluster.place("web", {"cpu": "74"})
    assert should_taint(view, map(pod_view, cluster.pods()), idle=8)
    async with writer(cluster, "gpu-1") as agent:
        await agent.set_taint(IDLE_ACCELERATORS, present=True)
    await cluster.seen()
    assert (await cluster.place("trainer", {GPU: 2})).node == "gpu-1"
