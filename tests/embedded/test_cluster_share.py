"""Pods that request GPU memory share GPUs on the embedded cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.scheduler.extender_client import Extender
from linkwise.errors import ClusterError
from support.e2e.node_objects import gpushare, machine, node
from support.embedded.cluster import QUICK, Bed, embedded

if TYPE_CHECKING:
    from support.e2e.service import Granted

MEMORY = "aliyun.com/gpu-mem"
KEYS = "ALIYUN_COM_GPU_MEM_"
TOTAL = 16276


def keys(granted: Granted) -> dict[str, str]:
    """The annotations of the seed, by their last word."""
    return {key.removeprefix(KEYS): value for key, value in granted.annotations.items() if key.startswith(KEYS)}


async def fill(bed: Bed, taken: dict[str, list[int]], memory: int) -> None:
    """Pods on each card of each node that hold so much of it, bound by somebody else in the seed's keys."""
    for name, amounts in taken.items():
        for index, amount in enumerate(amounts):
            if amount:
                told = {"IDX": index, "DEV": memory, "POD": amount, "ASSIGNED": "true", "ASSUME_TIME": 1 + index}
                holds = {f"{KEYS}{word}": str(value) for word, value in told.items()}
                bed.create(f"{name}-{index}", {MEMORY: amount}, nodeName=name, annotations=holds)
    await bed.counted(sum(amount > 0 for amounts in taken.values() for amount in amounts))


@pytest.mark.rule("004.binpack", "004.record", "004.one-card")
@embedded(
    settings=replace(QUICK, simulation=replace(QUICK.simulation, start_delay=0.5))
)  # time to see it before it starts
async def test_of_the_cards_of_figure_three_the_second_is_chosen_and_written_in_all_five_keys(bed: Bed) -> None:
    await bed.nodes(node("n1", {MEMORY: 4 * TOTAL, "aliyun.com/gpu-count": 4}, labels={"gpushare": "true"}))
    await fill(bed, {"n1": [TOTAL - 12207, TOTAL - 8138, TOTAL - 4069, 0]}, TOTAL)
    written = keys(await bed.place("pod", {MEMORY: 8138}))
    assert int(written.pop("ASSUME_TIME")) > 10**18
    assert written == {"IDX": "1", "DEV": "16276", "POD": "8138", "ASSIGNED": "false"}
    running = await bed.phase("pod", "Running")
    assert running["metadata"]["annotations"][f"{KEYS}ASSIGNED"] == "true"


@pytest.mark.rule("004.filter")
@embedded()
async def test_of_the_nodes_of_figure_two_the_one_with_the_room_on_one_card_is_chosen(bed: Bed) -> None:
    cards = {MEMORY: 2 * TOTAL, "aliyun.com/gpu-count": 2}
    await bed.nodes(*(node(name, cards, labels={"gpushare": "true"}) for name in ("n1", "n2", "n3")))
    await fill(bed, {"n1": [TOTAL, 12207], "n2": [12207, 12207], "n3": [8138, TOTAL]}, TOTAL)
    granted = await bed.place("pod", {MEMORY: 8138})
    assert (granted.node, keys(granted)["IDX"]) == ("n3", "0")


@pytest.mark.rule("004.filter", "004.one-card")
@embedded()
async def test_room_that_no_single_card_has_is_refused_with_a_sentence(bed: Bed) -> None:
    await bed.nodes(*gpushare("n1", cards=2, memory=22))
    await fill(bed, {"n1": [12, 12]}, 22)
    bed.create("pod", {MEMORY: 11})
    assert await bed.refused("pod") == "0/1 nodes are available: 1 node(s) had no device with enough free memory."
    assert "the largest request that fits on one device now is 10 GiB" in await bed.explained("pod")


@pytest.mark.rule("002.fractions", "004.binpack")
@embedded()
async def test_pods_fill_one_card_before_they_open_another(bed: Bed) -> None:
    await bed.nodes(*gpushare("n1"), *gpushare("n2"))
    held = [await bed.place(f"p{number}", {MEMORY: 6}) for number in range(4)]
    assert len({granted.node for granted in held}) == 1
    assert [keys(granted)["IDX"] for granted in held] == ["0", "0", "0", "1"]
    await bed.well()


@pytest.mark.rule("002.segregate")
@embedded()
async def test_a_card_is_shared_within_a_namespace_only(bed: Bed) -> None:
    bed.store.create("namespaces", {"metadata": {"name": "other"}})
    await bed.nodes(*gpushare("n1"))
    held = [await bed.place("pod", {MEMORY: 6}, namespace=name) for name in ("default", "other")]
    assert [keys(granted)["IDX"] for granted in held] == ["0", "1"]


@pytest.mark.rule("004.mode")
@embedded()
async def test_a_node_is_shared_by_memory_or_given_by_card(bed: Bed) -> None:
    whole, shared = machine("whole", "nvlink"), gpushare("shared")
    for status, more in ((whole[0]["status"], {MEMORY: "128"}), (shared[0]["status"], {"nvidia.com/gpu": "4"})):
        status["capacity"] |= more
        status["allocatable"] |= more
    await bed.nodes(*whole, *shared)
    assert (await bed.place("part", {MEMORY: 4})).node == "shared"
    assert (await bed.place("card", {"nvidia.com/gpu": 1})).node == "whole"
    bed.create("many", {"nvidia.com/gpu": 4}, nodeSelector={"kubernetes.io/hostname": "shared"})
    assert "1 node(s) use a different sharing mode" in await bed.refused("many")


@pytest.mark.rule("004.no-fit")
@embedded()
async def test_a_bind_that_does_not_fit_is_refused_at_once_and_leaks_nothing(bed: Bed) -> None:
    await bed.nodes(*gpushare("n1", cards=1, memory=22))
    await fill(bed, {"n1": [10]}, 22)
    uid = bed.create("large", {MEMORY: 13}, scheduler="nobody")["metadata"]["uid"]
    await bed.until(lambda: uid in bed.service.broker.pods, "the pod is known")
    assert bed.service.broker.filter(bed.service.broker.pods[uid], ["n1"], bed.service.now()).nodes == []
    extender = Extender(f"{bed.service.url}/gpushare-scheduler")
    with pytest.raises(ClusterError, match="node n1: device 0 has 12 GiB free; 13 GiB is needed on one device"):
        await extender.bind("default", "large", uid, "n1")
    await extender.close()
    assert not bed.pod("large")["spec"].get("nodeName")
    assert not bed.pod("large")["metadata"].get("annotations")
    assert (await bed.place("fits", {MEMORY: 12})).node == "n1"
