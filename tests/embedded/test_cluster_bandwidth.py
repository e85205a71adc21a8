"""Koordinator pods get the GPUs with the widest bottleneck, or a share of one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.explain.node import explain_node
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import BandwidthSettings, PlacingSettings
from linkwise.vendors.machines import profile
from support.e2e.brute_force_picks import by_bottleneck
from support.e2e.node_objects import device_ids, koordinator, machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.service import Granted

WORDS = "koordinator.sh/"
MEASURED = profile("dgx1-v100-measured")
IDS = device_ids("a", MEASURED)


def numbers(granted: Granted) -> dict[str, list[str]]:
    """What the seed's annotation says, by container."""
    record = json.loads(granted.annotations["topology.scheduling.koordinator.sh/gpu"])
    assert record["visibleGPUs"] == sorted({number for own in record["allocatedGPUs"].values() for number in own})
    return dict(record["allocatedGPUs"])


@pytest.mark.rule("001.single", "001.record", "001.device")
@pytest.mark.parametrize("size", [1, 2, 4])
@embedded()
async def test_a_pod_gets_the_cards_with_the_widest_bottleneck_after_bad_samples_are_mended(
    cluster: ClusterUnderTest, size: int
) -> None:
    await cluster.nodes(*koordinator("a"))
    granted = await cluster.place("train", {f"{WORDS}gpu": 100 * size})
    _, expected = by_bottleneck(MEASURED, size, range(8))
    assert granted.positions(IDS) == expected
    assert numbers(granted) == {"0": [str(place) for place in expected]}


@pytest.mark.rule("001.best-effort")
@embedded()
async def test_a_poor_set_is_given_rather_than_none(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*koordinator("a", unhealthy=[2, 3, 5, 6, 7]))
    assert (await cluster.place("train", {f"{WORDS}gpu": 300})).positions(IDS) == (0, 1, 4)


@pytest.mark.rule("001.best-effort")
@embedded(placing=PlacingSettings(bandwidth=BandwidthSettings(floor=40.0)))
async def test_a_set_below_the_floor_is_refused_with_a_sentence(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*koordinator("a", unhealthy=[2, 3, 5, 6, 7]))
    cluster.create("train", {f"{WORDS}gpu": 300})
    assert "1 node(s) had no free device set with the required bandwidth" in await cluster.refused("train")


@pytest.mark.rule("001.percent", "002.fractions")
@embedded()
async def test_parts_of_a_card_in_every_way_of_asking_lie_on_one_card_until_it_is_full(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*koordinator("a"))
    asks: list[dict[str, int | str]] = [
        {"gpu": 30},
        {"gpu-core": 20, "gpu-memory-ratio": 25},
        {"gpu-memory": "4040Mi"},
        {"gpu-memory-ratio": 20},
    ]
    for number, ask in enumerate(asks):
        granted = await cluster.place(f"p{number}", {f"{WORDS}{word}": amount for word, amount in ask.items()})
        assert granted.devices == IDS[:1]
    assert (await cluster.place("late", {f"{WORDS}gpu": 10})).devices != IDS[:1]
    await cluster.well()


@pytest.mark.rule("001.percent")
@embedded()
async def test_percents_that_make_no_sense_are_refused_with_a_sentence(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*koordinator("a"))
    cluster.create("odd", {f"{WORDS}gpu": 150})
    assert "above 100, only whole cards can be allocated" in await cluster.refused("odd")


@pytest.mark.rule("004.mode", "002.whole")
@embedded()
async def test_cards_that_a_node_has_under_two_names_are_not_given_under_both(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*koordinator("a", whole=True))
    await cluster.place("whole", {"nvidia.com/gpu": 6})
    cluster.create("percent", {f"{WORDS}gpu": 300})
    assert "node(s) use a different sharing mode" in await cluster.refused("percent")
    await cluster.gone("whole")
    assert len((await cluster.placed("percent")).devices) == 3


@embedded({"dgx1-v100/percent": 1})
async def test_a_simulated_machine_hands_out_percents(cluster: ClusterUnderTest) -> None:
    assert (await cluster.place("part", {f"{WORDS}gpu": 50})).node == "dgx1-v100-percent-0"
    await cluster.well()


@embedded()
async def test_a_machine_without_devices_of_that_kind_is_distinguished_from_one_that_is_full(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*koordinator("a"), *machine("b", "nvlink"))
    cluster.create("odd", {f"{WORDS}gpu": 900})
    assert await cluster.refused("odd") == f"0/2 nodes are available: 2 Insufficient {WORDS}gpu."


@pytest.mark.rule("001.suspect")
@embedded()
async def test_a_bad_sample_is_reported_at_its_node_and_the_kind_of_the_link_counts_instead(
    cluster: ClusterUnderTest,
) -> None:
    node, inventory = machine("a", "nvlink", unhealthy=[1, 2, 5, 6, 7])
    samples = [list(row) for row in MEASURED.topology.bandwidth]
    samples[0][3], samples[3][0] = 5.0, 400.0  # of one kind with 0-6 and 1-2, which have 96 or so
    inventory["spec"]["bandwidth"] = samples
    await cluster.nodes(node, inventory)
    granted = await cluster.place("train", {"nvidia.com/gpu": 2}, annotations={"linkwise.dev/policy": "bandwidth"})
    assert granted.positions(device_ids("a", "dgx1-v100")) == (0, 3)
    explanation = explain_node(cluster.service.broker, "a", cluster.service.now())
    assert explanation is not None
    sentence = "devices 0 and 3: 5 GB/s in one direction and 400 GB/s in the other; bad sample, 96.25 GB/s is used"
    assert sentence in explanation_lines(explanation)
