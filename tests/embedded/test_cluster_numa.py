"""NUMA alignment on the embedded cluster: pods go where the kubelet's Topology Manager admits them, and wait elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.node_objects import device_ids, machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
NO_NUMA_NODE: Final = "had no NUMA node with enough free devices"


def aligned(name: str, policy: str) -> list[Raw]:
    """A machine with four devices on each of two NUMA nodes, whose kubelet has this policy."""
    node, inventory = machine(name, "nvlink")
    for device in inventory["spec"]["devices"]:
        device["numa"] = device["index"] // 4
    inventory["spec"]["kubelet"] = {"topologyManagerPolicy": policy, "topologyManagerScope": "container"}
    return [node, inventory]


def numa_nodes(name: str, devices: tuple[str, ...]) -> set[int]:
    """The NUMA nodes of these devices."""
    return {device_ids(name, "dgx1-v100").index(device) // 4 for device in devices}


@pytest.mark.rule("002.affinity")
@embedded()
async def test_every_pod_gets_devices_of_one_numa_node_where_the_kubelet_requires_it(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*aligned("strict", "single-numa-node"))
    for name, count in (("a", 1), ("b", 2), ("c", 4)):
        given = await cluster.place(name, {GPU: count})
        assert len(numa_nodes("strict", given.devices)) == 1
    await cluster.well()


@pytest.mark.rule("002.affinity")
@embedded()
async def test_a_pod_that_no_numa_node_has_room_for_waits_with_the_reason_and_starts_when_one_has(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*aligned("strict", "single-numa-node"))
    await cluster.place("a", {GPU: 3})
    await cluster.place("b", {GPU: 3})
    cluster.create("c", {GPU: 2})
    assert NO_NUMA_NODE in await cluster.refused("c", NO_NUMA_NODE)
    assert "would reject the pod" in await cluster.explained("c")
    await cluster.gone("a")
    assert len(numa_nodes("strict", (await cluster.placed("c")).devices)) == 1
    await cluster.well()


@pytest.mark.rule("002.affinity")
@embedded()
async def test_eight_devices_go_to_a_node_that_allows_two_numa_nodes(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*aligned("strict", "single-numa-node"), *aligned("loose", "restricted"))
    assert (await cluster.place("all", {GPU: 8})).node == "loose"


@pytest.mark.rule("002.affinity")
@embedded()
async def test_fifty_pods_of_two_devices_fill_the_nodes_without_crossing_numa_nodes(cluster: ClusterUnderTest) -> None:
    for number in range(12):
        await cluster.nodes(*aligned(f"n{number}", "single-numa-node"))
    for number in range(50):
        cluster.create(f"p{number}", {GPU: 2})
    await cluster.until(lambda: len(cluster.bound()) == 48, "the nodes are full")
    for name in cluster.bound():
        given = await cluster.placed(name)
        assert len(numa_nodes(given.node, given.devices)) == 1
    await cluster.well()
