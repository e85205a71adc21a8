"""Pods in Koordinator's words get the cards with the widest bottleneck, or a part of one, from a real kube-scheduler."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from linkwise.model.topology import Topology, numbered
from linkwise.vendors.machines import profile
from support.e2e.brute_force_picks import by_bottleneck
from support.e2e.node_objects import device_ids, koordinator, node
from support.e2e.pod_objects import device_definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.service import Granted, Placing

WORDS = "koordinator.sh/"
SEED = Path(__file__).parents[3] / "shared/seeds"
MEASURED = profile("dgx1-v100-measured")
IDS = {name: device_ids(name, MEASURED) for name in "ab"}


@pytest.fixture(scope="module", autouse=True)
def devices_known(kubernetes: Cluster) -> Iterator[None]:
    """Koordinator's kind is there before the service starts."""
    if not kubernetes.own:
        pytest.skip("kinds are only defined in a cluster of our own")
    kubernetes.define(device_definition())
    yield
    kubernetes.undefine(device_definition())


def numbers(granted: Granted) -> dict[str, list[str]]:
    """What the seed's annotation says, by container."""
    record = json.loads(granted.annotations["topology.scheduling.koordinator.sh/gpu"])
    assert record["visibleGPUs"] == sorted({number for own in record["allocatedGPUs"].values() for number in own})
    return dict(record["allocatedGPUs"])


def cards(granted: Granted) -> dict[str, dict[str, int]]:
    """What Koordinator's annotation says: amounts by card."""
    cards = json.loads(granted.annotations["scheduling.koordinator.sh/device-allocated"])["gpu"]
    return {card["id"]: {key.removeprefix(WORDS): value for key, value in card["resources"].items()} for card in cards}


@pytest.mark.rule("001.single", "001.record", "001.device")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_a_pod_gets_the_cards_with_the_widest_bottleneck(placing: Placing, size: int) -> None:
    placing.nodes(*koordinator("a"), *koordinator("b", links=False))
    there = {} if size > 1 else {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    granted = placing.place(placing.namespace(), "train", {f"{WORDS}gpu": 100 * size}, **there)
    _, expected = by_bottleneck(MEASURED, size, range(8))
    assert (granted.node, granted.positions(IDS["a"])) == ("a", expected)
    assert numbers(granted) == {"0": [str(place) for place in expected]}
    whole = {"gpu-core": 100, "gpu-memory-ratio": 100}
    assert cards(granted) == {IDS["a"][place]: whole for place in expected}


@pytest.mark.rule("001.single")
def test_every_pod_gets_the_widest_bottleneck_of_what_the_others_left(placing: Placing) -> None:
    namespace, free = placing.namespace(), set(range(8))
    placing.nodes(*koordinator("a", unhealthy=[4]))
    free -= {4}
    for number, size in enumerate((2, 1, 2, 2)):
        granted = placing.place(namespace, f"p{number}", {f"{WORDS}gpu": 100 * size})
        assert granted.positions(IDS["a"]) == by_bottleneck(MEASURED, size, free)[1]
        free -= set(granted.positions(IDS["a"]))


@pytest.mark.rule("001.device", "001.single")
def test_the_device_object_of_the_seed_is_read_as_it_stands(placing: Placing) -> None:
    if not SEED.exists():
        pytest.skip("the seeds are not there")
    text = next(SEED.glob("001_*.txt")).read_text(errors="replace")
    found = next(block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "name: host04" in block)
    device = yaml.safe_load(found)
    matrix = json.loads(device["spec"]["topologies"]["gpu"][0]["topology"])
    machine = replace(MEASURED, topology=Topology(numbered(8), bandwidth=tuple(map(tuple, matrix))))
    placing.nodes(node("host04", {f"{WORDS}gpu": 800}), device)
    granted = placing.place(placing.namespace(), "train", {f"{WORDS}gpu": 400})
    ids = [card["id"] for card in device["spec"]["devices"]]
    assert granted.positions(ids) == by_bottleneck(machine, 4, range(8))[1]


@pytest.mark.rule("002.whole", "004.mode")
def test_cards_that_a_node_has_under_two_names_are_not_given_under_both(placing: Placing) -> None:
    """Each name has enough of its own, so that kube-scheduler can't know."""
    namespace = placing.namespace()
    placing.nodes(*koordinator("a", whole=True))
    placing.place(namespace, "whole", {"nvidia.com/gpu": 6})
    placing.create(namespace, "percent", {f"{WORDS}gpu": 300})
    assert "node(s) use a different sharing mode" in placing.refused(namespace, "percent")
    placing.gone(namespace, "whole")
    assert len(placing.placed(namespace, "percent").devices) == 3


@pytest.mark.rule("001.percent", "002.fractions")
def test_parts_of_a_card_in_every_way_of_asking_lie_on_one_card_until_it_is_full(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*koordinator("a"))
    asks: list[dict[str, int | str]] = [
        {"gpu": 30},
        {"gpu-core": 20, "gpu-memory-ratio": 25},
        {"gpu-memory": "4040Mi"},
        {"gpu-memory-ratio": 20},
    ]
    held = [
        placing.place(namespace, f"p{number}", {f"{WORDS}{word}": amount for word, amount in ask.items()})
        for number, ask in enumerate(asks)
    ]
    first = IDS["a"][0]
    assert [granted.devices for granted in held] == [(first,)] * 4
    assert [cards(granted)[first] for granted in held] == [
        {"gpu-core": 30, "gpu-memory-ratio": 30},
        {"gpu-core": 20, "gpu-memory-ratio": 25},
        {"gpu-memory": 4040 * 2**20, "gpu-memory-ratio": 25},
        {"gpu-memory-ratio": 20},
    ]
    assert placing.place(namespace, "late", {f"{WORDS}gpu": 10}).devices != (first,)


@pytest.mark.rule("001.percent")
@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ({"gpu": 150}, "above 100, only whole cards can be allocated"),
        ({"gpu-core": 50}, "compute without memory can't be placed: add gpu-memory or gpu-memory-ratio"),
        ({"gpu-memory": "1Gi", "gpu-memory-ratio": 50}, "gpu-memory-ratio"),
    ],
)
def test_percents_that_make_no_sense_are_refused_with_a_sentence(
    placing: Placing, ask: dict[str, int | str], sentence: str
) -> None:
    namespace = placing.namespace()
    placing.nodes(*koordinator("a"))
    placing.create(namespace, "odd", {f"{WORDS}{word}": amount for word, amount in ask.items()})
    said = placing.refused(namespace, "odd")
    assert sentence in said
    assert "container main" in said
    assert placing.metric("linkwise_grants") == 0
