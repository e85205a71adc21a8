"""Pods that request GPU memory share GPUs on the embedded cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.scheduler.extender_client import Extender
from linkwise.errors import ClusterError
from support.e2e.node_objects import gpushare, machine, node
from support.embedded.cluster import QUICK, ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.service import Granted

MEMORY = "aliyun.com/gpu-mem"
KEYS = "ALIYUN_COM_GPU_MEM_"
TOTAL = 16276


def keys(granted: Granted) -> dict[str, str]:
    """The annotations of the seed, by their last word."""
    return {key.removeprefix(KEYS): value for key, value in granted.annotations.items() if key.startswith(KEYS)}


async def fill(cluster: ClusterUnderTest, taken: dict[str, list[int]], memory: int) -> None:
    """Pods on each card of each node that hold so much of it, bound by somebody else in the seed's keys."""
    for name, amounts in taken.items():
        for index, amount in enumerate(amounts):
            if amount:
                keys = {"IDX": index, "DEV": memory, "POD": amount, "ASSIGNED": "true", "ASSUME_TIME": 1 + index}
                holds = {f"{KEYS}{word}": str(value) for word, value in keys.items()}
                cluster.create(f"{name}-{index}", {MEMORY: amount}, nodeName=name, annotations=holds)
    await cluster.counted(sum(amount > 0 for amounts in taken.values() for amount in amounts))


@pytest.mark.rule("004.binpack", "004.record", "004.one-card")
@embedded(
    settings=replace(QUICK, simulation=replace(QUICK.simulation, start_delay=0.5))
)  # time to see it before it starts
async def test_of_the_cards_of_figure_three_the_second_is_chosen_and_written_in_all_five_keys(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(node("n1", {MEMORY: 4 * TOTAL, "aliyun.com/gpu-count": 4}, labels={"gpushare": "true"}))
    await fill(cluster, {"n1": [TOTAL - 12207, TOTAL - 8138, TOTAL - 4069, 0]}, TOTAL)
    written = keys(await cluster.place("pod", {MEMORY: 8138}))
    assert int(written.pop("ASSUME_TIME")) > 10**18
    assert written == {"IDX": "1", "DEV": "16276", "POD": "8138", "ASSIGNED": "false"}
    running = await cluster.phase("pod", "Running")
    assert running["metadata"]["annotations"][f"{KEYS}ASSIGNED"] == "true"


@pytest.mark.rule("004.filter")
@embedded()
async def test_of_the_nodes_of_figure_two_the_one_with_the_room_on_one_card_is_chosen(
    cluster: ClusterUnderTest,
) -> None:
    cards = {MEMORY: 2 * TOTAL, "aliyun.com/gpu-count": 2}
    await cluster.nodes(*(node(name, cards, labels={"gpushare": "true"}) for name in ("n1", "n2", "n3")))
    await fill(cluster, {"n1": [TOTAL, 12207], "n2": [12207, 12207], "n3": [8138, TOTAL]}, TOTAL)
    granted = await cluster.place("pod", {MEMORY: 8138})
    assert (granted.node, keys(granted)["IDX"]) == ("n3", "0")


@pytest.mark.rule("004.filter", "004.one-card")
@embedded()
async def test_room_that_no_single_card_has_is_refused_with_a_sentence(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*gpushare("n1", cards=2, memory=22))
    await fill(cluster, {"n1": [12, 12]}, 22)
    cluster.create("pod", {MEMORY: 11})
    assert await cluster.refused("pod") == "0/1 nodes are available: 1 node(s) had no device with enough free memory."
    assert "the largest request that fits on one device now is 10 GiB" in await cluster.explained("pod")


@pytest.mark.rule("002.fractions", "004.binpack")
@embedded()
async def test_pods_fill_one_card_before_they_open_another(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*gpushare("n1"), *gpushare("n2"))
    held = [await cluster.place(f"p{number}", {MEMORY: 6}) for number in range(4)]
    assert len({granted.node for granted in held}) == 1
    assert [keys(granted)["IDX"] for granted in held] == ["0", "0", "0", "1"]
    await cluster.well()


@pytest.mark.rule("002.segregate")
@embedded()
async def test_a_card_is_shared_within_a_namespace_only(cluster: ClusterUnderTest) -> None:
    cluster.store.create("namespaces", {"metadata": {"name": "other"}})
    await cluster.nodes(*gpushare("n1"))
    held = [await cluster.place("pod", {MEMORY: 6}, namespace=name) for name in ("default", "other")]
    assert [keys(granted)["IDX"] for granted in held] == ["0", "1"]


@pytest.mark.rule("004.mode")
@embedded()
async def test_a_node_is_shared_by_memory_or_given_by_card(cluster: ClusterUnderTest) -> None:
    whole, shared = machine("whole", "nvlink"), gpushare("shared")
    for status, more in ((whole[0]["status"], {MEMORY: "128"}), (shared[0]["status"], {"nvidia.com/gpu": "4"})):
        status["capacity"] |= more
        status["allocatable"] |= more
    await cluster.nodes(*whole, *shared)
    assert (await cluster.place("part", {MEMORY: 4})).node == "shared"
    assert (await cluster.place("card", {"nvidia.com/gpu": 1})).node == "whole"
    cluster.create("many", {"nvidia.com/gpu": 4}, nodeSelector={"kubernetes.io/hostname": "shared"})
    assert "1 node(s) use a different sharing mode" in await cluster.refused("many")


@pytest.mark.rule("004.no-fit")
@embedded()
async def test_a_bind_that_does_not_fit_is_refused_at_once_and_leaks_nothing(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*gpushare("n1", cards=1, memory=22))
    await fill(cluster, {"n1": [10]}, 22)
    uid = cluster.create("large", {MEMORY: 13}, scheduler="another-scheduler")["metadata"]["uid"]
    await cluster.until(lambda: uid in cluster.service.broker.pods, "the pod is known")
    assert cluster.service.broker.filter(cluster.service.broker.pods[uid], ["n1"], cluster.service.now()).nodes == []
    extender = Extender(f"{cluster.service.url}/gpushare-scheduler")
    with pytest.raises(ClusterError, match="node n1: device 0 has 12 GiB free; 13 GiB is needed on one device"):
        await extender.bind("default", "large", uid, "n1")
    await extender.close()
    assert not cluster.pod("large")["spec"].get("nodeName")
    assert not cluster.pod("large")["metadata"].get("annotations")
    assert (await cluster.place("fits", {MEMORY: 12})).node == "n1"
