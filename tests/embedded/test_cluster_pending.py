"""What owners read about their pending pods, on the embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.e2e.node_objects import machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.api_client import Raw

GPU = "nvidia.com/gpu"


def conditions(cluster: ClusterUnderTest, name: str) -> dict[str, Raw]:
    return {each["type"]: each for each in cluster.pod(name)["status"].get("conditions", [])}


def code(cluster: ClusterUnderTest, name: str) -> str:
    return str(conditions(cluster, name).get("linkwise.dev/Schedulable", {}).get("reason", ""))


@embedded()
async def test_a_pending_pod_has_the_reason_in_a_condition_until_it_is_bound(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    await cluster.place("holder", {GPU: 6})
    cluster.create("train", {GPU: 4})
    await cluster.until(lambda: code(cluster, "train") == "NoRoom", "the reason is published")
    found = conditions(cluster, "train")
    assert "only 2" in found["linkwise.dev/Schedulable"]["message"]
    assert found["PodScheduled"]["reason"] == "Unschedulable"
    assert "only 2" in await cluster.wait_for_event("train", "Pending")
    await cluster.gone("holder")
    await cluster.until(lambda: code(cluster, "train") == "Placed", "the condition ends")
    assert conditions(cluster, "train")["linkwise.dev/Schedulable"]["status"] == "True"
    assert code(cluster, "train") == "Placed"


@embedded()
async def test_the_event_of_an_incomplete_gang_says_what_is_missing(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    cluster.create("m0", {GPU: 1}, annotations=gang)
    await cluster.until(lambda: code(cluster, "m0") == "GangIncomplete", "the reason is published")
    cluster.create("m1", {GPU: 1}, annotations=gang)
    await cluster.until(lambda: {code(cluster, "m0")} == {"Placed"}, "the condition ends")


@embedded({"dgx1-v100": 1})
async def test_a_pod_with_the_quantity_zero_runs(cluster: ClusterUnderTest) -> None:
    assert (await cluster.place("none", {"nvidia.com/gpu": 0})).node == "dgx1-v100-0"
