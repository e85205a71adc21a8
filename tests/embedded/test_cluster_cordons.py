"""Cordoned devices on the embedded cluster."""

from __future__ import annotations

import json
from typing import Final

from linkwise.dialects.linkwise.cordon import CORDONED
from support.embedded.cluster import ClusterUnderTest, embedded

GPU: Final = "nvidia.com/gpu"
NODE: Final = "dgx1-v100-0"
WHY: Final = "ticket 4711"


def cordon(cluster: ClusterUnderTest, *devices: str) -> None:
    text = json.dumps(dict.fromkeys(devices, WHY)) if devices else None
    cluster.store.patch("nodes", NODE, {"metadata": {"annotations": {CORDONED: text}}})


async def allocatable(cluster: ClusterUnderTest, count: int) -> None:
    def reached() -> bool:
        return bool(cluster.store.get("nodes", NODE).read()["status"]["allocatable"][GPU] == str(count))

    await cluster.until(reached, f"{count} devices are allocatable")


@embedded({"dgx1-v100": 1})
async def test_a_cordoned_device_stays_with_its_pod_and_gets_no_other(cluster: ClusterUnderTest) -> None:
    held = await cluster.place("load", {GPU: 1})
    await cluster.phase("load", "Running")
    idle = next(f"nvidia-{NODE}-{index}" for index in range(8) if f"nvidia-{NODE}-{index}" not in held.devices)
    cordon(cluster, idle)
    await allocatable(cluster, 7)
    others = await cluster.place("train", {GPU: 6})
    await cluster.phase("train", "Running")
    assert idle not in others.devices
    cluster.create("late", {GPU: 1})
    await cluster.refused("late")
    assert f"is cordoned: {WHY}" in await cluster.explained("late")
    cordon(cluster, idle, *held.devices)
    assert WHY in await cluster.wait_for_event("load", "DeviceCordoned")
    await allocatable(cluster, 6)
    cordon(cluster)
    assert (await cluster.placed("late")).devices == (idle,)
    for name in ("load", "train", "late"):
        await cluster.phase(name, "Running")
    await allocatable(cluster, 8)


@embedded({"dgx1-v100": 1})
async def test_a_device_may_fail_and_recover_while_it_is_cordoned(cluster: ClusterUnderTest) -> None:
    cordon(cluster, "#3")
    await allocatable(cluster, 7)
    cluster.embedded.nodes.kill_device(NODE, 3)
    cluster.embedded.nodes.kill_device(NODE, 5)
    await allocatable(cluster, 6)
    cluster.embedded.nodes.repair_device(NODE, 3)
    cluster.embedded.nodes.repair_device(NODE, 5)
    await allocatable(cluster, 7)
    cordon(cluster)
    await allocatable(cluster, 8)
