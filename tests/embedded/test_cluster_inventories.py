"""Inventories that are deleted and made again while pods use their devices."""

from __future__ import annotations

import pytest

from linkwise.explain.node import explain_node
from linkwise.explain.text.node import node_lines
from support.e2e.node_objects import device_ids, machine
from support.embedded.cluster import Bed, embedded

GPU = "nvidia.com/gpu"
KIND = "deviceinventories.linkwise.dev"
IDS = device_ids("a", "dgx1-v100")


def explained(bed: Bed) -> str:
    report = explain_node(bed.service.broker, "a", bed.service.now())
    assert report is not None
    return "\n".join(node_lines(report))


@pytest.mark.parametrize("away", ["seconds", "an hour", "over a restart"])
@embedded()
async def test_no_device_is_recorded_twice_while_its_inventory_is_away(bed: Bed, away: str) -> None:
    node, inventory = machine("a", "nvlink")
    await bed.nodes(node, inventory)
    first = (await bed.place("w", {GPU: 3})).positions(IDS)
    bed.store.delete(KIND, "a")
    await bed.until(lambda: "DeviceInventory: missing since 20" in explained(bed), "the service knows that it is gone")
    if away == "an hour":
        bed.service.ahead += 3600.0
        await bed.until(lambda: "missing since" not in explained(bed), "the grace period is over")
    elif away == "over a restart":
        await bed.service.kill()
        await bed.service.start(bed.cluster.api.kubeconfig())
    second = (await bed.place("w2", {GPU: 5})).devices
    bed.store.create(KIND, inventory)
    await bed.seen()
    await bed.until(lambda: "missing" not in explained(bed), "the service knows that it is back")
    numbers = [int(device[1:]) if device.startswith("#") else IDS.index(device) for device in second]
    assert sorted((*first, *numbers)) == list(range(8))
    assert not bed.service.broker.drift
