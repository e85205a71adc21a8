"""Pods that arrive together are packed on the embedded cluster as if they came one by one, every time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from support.embedded.cluster import Bed, embedded

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
ROUNDS: Final = 5


async def burst(bed: Bed, limits: Mapping[str, int], prefix: str) -> Counter[str]:
    """The nodes of eight pods that are created at once; they are deleted again."""
    names = [f"{prefix}{number}" for number in range(8)]
    for name in names:
        bed.create(name, limits)
    homes = Counter([(await bed.placed(name)).node for name in names])
    await bed.gone(*names)
    return homes


@pytest.mark.rule("002.pack")
@embedded({"dgx1-v100": 2, "v100-pcie": 1})
async def test_eight_pods_of_one_device_fill_one_machine_of_three(bed: Bed) -> None:
    homes = [await burst(bed, {GPU: 1}, prefix=f"r{turn}-") for turn in range(ROUNDS)]
    assert homes == [{"dgx1-v100-0": 8}] * ROUNDS
    await bed.well()


@pytest.mark.rule("004.binpack")
@embedded({"p40-share": 3})
async def test_eight_pods_of_two_gibibytes_share_one_card(bed: Bed) -> None:
    homes = [await burst(bed, {MEMORY: 2}, prefix=f"r{turn}-") for turn in range(ROUNDS)]
    assert homes == [{"p40-share-0": 8}] * ROUNDS
    await bed.well()


@embedded({"dgx1-v100": 2})
async def test_the_devices_of_a_burst_are_all_different_and_whole_machines_stay_free(bed: Bed) -> None:
    for number in range(8):
        bed.create(f"one-{number}", {GPU: 1})
    bed.create("all", {GPU: 8})
    ones = [await bed.placed(f"one-{number}") for number in range(8)]
    assert {granted.node for granted in ones} != {(await bed.placed("all")).node}
    await bed.settled()
