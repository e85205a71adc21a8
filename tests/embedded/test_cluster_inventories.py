"""Inventories that are deleted and made again while pods use their devices."""

from __future__ import annotations

import pytest

from linkwise.explain.node import explain_node, node_lines
from support.e2e.node_objects import device_ids, machine
from support.embedded.cluster import ClusterUnderTest, embedded

GPU = "nvidia.com/gpu"
KIND = "deviceinventories.linkwise.dev"
IDS = device_ids("a", "dgx1-v100")


def explained(cluster: ClusterUnderTest) -> str:
    report = explain_node(cluster.service.broker, "a", cluster.service.now())
    assert report is not None
    return "\n".join(node_lines(report))


@pytest.mark.parametrize("away", ["seconds", "an hour", "over a restart"])
@embedded()
async def test_no_device_is_recorded_twice_while_its_inventory_is_away(cluster: ClusterUnderTest, away: str) -> None:
    node, inventory = machine("a", "nvlink")
    await cluster.nodes(node, inventory)
    first = (await cluster.place("w", {GPU: 3})).positions(IDS)
    cluster.store.delete(KIND, "a")
    await cluster.until(
        lambda: "DeviceInventory: missing since 20" in explained(cluster), "the service knows that it is gone"
    )
    if away == "an hour":
        cluster.service.ahead += 3600.0
        await cluster.until(lambda: "missing since" not in explained(cluster), "the grace period is over")
    elif away == "over a restart":
        await cluster.service.kill()
        await cluster.service.start(cluster.embedded.api.kubeconfig())
    second = (await cluster.place("w2", {GPU: 5})).devices
    cluster.store.create(KIND, inventory)
    await cluster.seen()
    await cluster.until(lambda: "missing" not in explained(cluster), "the service knows that it is back")
    numbers = [int(device[1:]) if device.startswith("#") else IDS.index(device) for device in second]
    assert sorted((*first, *numbers)) == list(range(8))
    assert not cluster.service.broker.drift
