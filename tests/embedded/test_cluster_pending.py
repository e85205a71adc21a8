"""What owners read about their pending pods, on the embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.e2e.node_objects import machine
from support.embedded.cluster import Bed, embedded

if TYPE_CHECKING:
    from support.e2e.api_client import Raw

GPU = "nvidia.com/gpu"


def conditions(bed: Bed, name: str) -> dict[str, Raw]:
    return {each["type"]: each for each in bed.pod(name)["status"].get("conditions", [])}


def code(bed: Bed, name: str) -> str:
    return str(conditions(bed, name).get("linkwise.dev/Schedulable", {}).get("reason", ""))


@embedded()
async def test_a_pending_pod_has_the_reason_in_a_condition_until_it_is_bound(bed: Bed) -> None:
    await bed.nodes(*machine("a", "nvlink"))
    await bed.place("holder", {GPU: 6})
    bed.create("train", {GPU: 4})
    await bed.until(lambda: code(bed, "train") == "NoRoom", "the reason is published")
    found = conditions(bed, "train")
    assert "only 2" in found["linkwise.dev/Schedulable"]["message"]
    assert found["PodScheduled"]["reason"] == "Unschedulable"
    assert "only 2" in await bed.told("train", "Pending")
    await bed.gone("holder")
    await bed.until(lambda: code(bed, "train") == "Placed", "the condition ends")
    assert conditions(bed, "train")["linkwise.dev/Schedulable"]["status"] == "True"
    assert code(bed, "train") == "Placed"


@embedded()
async def test_an_incomplete_gang_is_told_what_is_missing(bed: Bed) -> None:
    await bed.nodes(*machine("a", "nvlink"))
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    bed.create("m0", {GPU: 1}, annotations=gang)
    await bed.until(lambda: code(bed, "m0") == "GangIncomplete", "the reason is published")
    bed.create("m1", {GPU: 1}, annotations=gang)
    await bed.until(lambda: {code(bed, "m0")} == {"Placed"}, "the condition ends")
