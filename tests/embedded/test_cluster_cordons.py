"""Cordoned devices on the embedded cluster."""

from __future__ import annotations

import json
from typing import Final

from linkwise.dialects.linkwise.cordon import CORDONED
from support.embedded.cluster import Bed, embedded

GPU: Final = "nvidia.com/gpu"
NODE: Final = "dgx1-v100-0"
WHY: Final = "ticket 4711"


def cordon(bed: Bed, *devices: str) -> None:
    text = json.dumps(dict.fromkeys(devices, WHY)) if devices else None
    bed.store.patch("nodes", NODE, {"metadata": {"annotations": {CORDONED: text}}})


async def allocatable(bed: Bed, count: int) -> None:
    def reached() -> bool:
        return bool(bed.store.get("nodes", NODE).read()["status"]["allocatable"][GPU] == str(count))

    await bed.until(reached, f"{count} devices are allocatable")


@embedded({"dgx1-v100": 1})
async def test_a_cordoned_device_stays_with_its_pod_and_gets_no_other(bed: Bed) -> None:
    held = await bed.place("load", {GPU: 1})
    await bed.phase("load", "Running")
    idle = next(f"nvidia-{NODE}-{index}" for index in range(8) if f"nvidia-{NODE}-{index}" not in held.devices)
    cordon(bed, idle)
    await allocatable(bed, 7)
    others = await bed.place("train", {GPU: 6})
    await bed.phase("train", "Running")
    assert idle not in others.devices
    bed.create("late", {GPU: 1})
    await bed.refused("late")
    assert f"is cordoned: {WHY}" in await bed.explained("late")
    cordon(bed, idle, *held.devices)
    assert WHY in await bed.told("load", "DeviceCordoned")
    await allocatable(bed, 6)
    cordon(bed)
    assert (await bed.placed("late")).devices == (idle,)
    for name in ("load", "train", "late"):
        await bed.phase(name, "Running")
    await allocatable(bed, 8)


@embedded({"dgx1-v100": 1})
async def test_a_device_may_fail_and_recover_while_it_is_cordoned(bed: Bed) -> None:
    cordon(bed, "#3")
    await allocatable(bed, 7)
    bed.cluster.nodes.kill_device(NODE, 3)
    bed.cluster.nodes.kill_device(NODE, 5)
    await allocatable(bed, 6)
    bed.cluster.nodes.repair_device(NODE, 3)
    bed.cluster.nodes.repair_device(NODE, 5)
    await allocatable(bed, 7)
    cordon(bed)
    await allocatable(bed, 8)
