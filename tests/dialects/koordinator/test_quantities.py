"""Percents and bytes of cards: which combinations mean something, and what they mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.dialects.koordinator.quantities import OWNED
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict import Problem
from linkwise.model.views import ContainerView, PodView

DIALECT = Koordinator()
KEY = "koordinator.sh/"
WORDS = ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")
GIB = 2**30


def box(name: str = "main", prefix: str = KEY, **words: str) -> ContainerView:
    amounts = {prefix + word.replace("__", ".").replace("_", "-"): value for word, value in words.items()}
    return ContainerView(name, amounts, amounts)


def first(name: str, *, sidecar: bool = False, **words: str) -> ContainerView:
    return replace(box(name, **words), init=True, sidecar=sidecar)


def pod(*containers: ContainerView) -> PodView:
    return PodView("team", "trainer-0", "uid-1", containers)


def asked(*containers: ContainerView) -> Ask:
    found = DIALECT.ask(pod(*containers))
    assert isinstance(found, Ask), found
    return found


def refused(*containers: ContainerView) -> str:
    found = DIALECT.ask(pod(*containers))
    assert isinstance(found, Problem), found
    assert found.where == "pod team/trainer-0"
    assert found.key in OWNED
    return found.sentence


@pytest.mark.rule("001.percent")
@pytest.mark.parametrize(
    ("words", "resource", "share", "core"),
    [
        ({"gpu": "50"}, "gpu", 50, 50),
        ({"gpu_memory_ratio": "30"}, "gpu-memory-ratio", 30, 0),
        ({"gpu_memory_ratio": "30", "gpu_core": "70"}, "gpu-memory-ratio", 30, 70),
        ({"gpu_memory_ratio": "100", "gpu_core": "70"}, "gpu-memory-ratio", 100, 70),
        ({"gpu_memory": "8Gi"}, "gpu-memory", 8 * GIB, 0),
        ({"gpu_memory": "8Gi", "gpu_core": "100"}, "gpu-memory", 8 * GIB, 100),
        ({"gpu__shared": "1", "gpu_memory": "1G", "gpu_core": "5"}, "gpu-memory", 10**9, 5),
        ({"gpu__shared": "1", "gpu_memory_ratio": "25"}, "gpu-memory-ratio", 25, 0),
    ],
)
def test_a_part_of_one_card_keeps_its_own_unit(words: dict[str, str], resource: str, share: int, core: int) -> None:
    ask = asked(box(**words))
    own, in_bytes = ContainerAsk("main", share=share, core=core), resource == "gpu-memory"
    assert ask == Ask(KEY + resource, (own,), "team", mode="percent", in_bytes=in_bytes)


@pytest.mark.rule("001.percent")
@pytest.mark.parametrize(
    ("words", "devices"),
    [
        ({"gpu": "100"}, 1),
        ({"gpu": "800"}, 8),
        ({"gpu_memory_ratio": "200"}, 2),
        ({"gpu_memory_ratio": "200", "gpu_core": "200"}, 2),
        ({"gpu__shared": "2", "gpu_memory_ratio": "200"}, 2),
    ],
)
def test_hundreds_are_whole_cards(words: dict[str, str], devices: int) -> None:
    ask = asked(box(**words))
    assert ask.containers == (ContainerAsk("main", devices=devices),)
    assert ask.mode == "percent"


@pytest.mark.rule("001.percent")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"gpu_core": "50"}, "compute without memory"),
        ({"gpu_memory": "1Gi", "gpu_memory_ratio": "50"}, "in bytes and in percent"),
        ({"gpu": "50", "gpu_memory_ratio": "50"}, "gpu includes compute and memory"),
        ({"gpu": "50", "gpu_core": "50"}, "gpu includes compute and memory"),
        ({"gpu": "150"}, "gpu is 150; above 100, only whole cards"),
        ({"gpu_memory_ratio": "101"}, "above 100, only whole cards"),
        ({"gpu_memory_ratio": "50", "gpu_core": "150"}, "gpu-core is 150"),
        ({"gpu_memory_ratio": "200", "gpu_core": "100"}, "leave gpu-core out"),
        ({"gpu__shared": "2"}, "add gpu-memory or gpu-memory-ratio"),
        ({"gpu__shared": "2", "gpu_core": "50"}, "add gpu-memory or gpu-memory-ratio"),
        ({"gpu__shared": "2", "gpu_memory_ratio": "100"}, "parts of several cards"),
        ({"gpu__shared": "2", "gpu_memory": "8Gi"}, "parts of several cards"),
        ({"gpu__shared": "1", "gpu_memory_ratio": "200"}, "gpu.shared is 1"),
        ({"gpu": "6500"}, "no machine has more than 64"),
        ({"gpu": "0.5"}, "50 is half of one"),
        ({"gpu": "-1"}, "is not a whole number"),
        ({"gpu_memory": "lots"}, "is not a quantity"),
        ({"gpu_memory": "1e300"}, "larger than Kubernetes can count"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence_for_the_container(words: dict[str, str], message: str) -> None:
    sentence = refused(box(**words))
    assert sentence.startswith("container main: ")
    assert message in sentence


def test_the_names_of_the_seed_are_read_too() -> None:
    ask = asked(box(prefix="kubernetes.io/", gpu_memory="16Gi", gpu_core="50"))
    assert (ask.resource, ask.share, ask.core) == ("kubernetes.io/gpu-memory", 16 * GIB, 50)
    assert ask.in_bytes


def test_names_of_both_are_not_mixed() -> None:
    mixed = refused(box("a", gpu="50"), box("b", prefix="kubernetes.io/", gpu="50"))
    assert mixed == "names of koordinator.sh and kubernetes.io are mixed: use one of them"


def test_the_problem_of_mixed_names_points_to_the_first_of_them() -> None:
    found = DIALECT.ask(pod(box("a", gpu="50"), box("b", prefix="kubernetes.io/", gpu="50")))
    assert isinstance(found, Problem)
    assert found.key == "koordinator.sh/gpu"


def test_each_container_has_its_own_entry() -> None:
    assert asked(box("a", gpu="200"), box("idle"), box("b", gpu="100")).containers == (
        ContainerAsk("a", devices=2),
        ContainerAsk("b", devices=1),
    )


@pytest.mark.parametrize(
    "other", [{"gpu": "50"}, {"gpu_memory_ratio": "100"}, {"gpu_memory": "1Gi"}], ids=["part", "ratio", "bytes"]
)
def test_containers_that_ask_in_different_ways_are_refused(other: dict[str, str]) -> None:
    assert "let all containers request the same kind" in refused(box("a", gpu="100"), box("b", **other))


def test_parts_of_all_containers_lie_on_one_card() -> None:
    assert asked(box("a", gpu="50"), box("b", gpu="50")).share == 100
    assert "parts of 110 percent of a card together" in refused(box("a", gpu="50"), box("b", gpu="60"))
    each = {"gpu__shared": "1", "gpu_memory_ratio": "40"}
    assert "parts of 2 cards together" in refused(box("a", **each), box("b", **each))


def test_init_containers_reuse_and_sidecars_add() -> None:
    ask = asked(first("setup", gpu="300"), first("proxy", sidecar=True, gpu="100"), box(gpu="100"))
    assert ask.containers == (
        ContainerAsk("setup", devices=1),
        ContainerAsk("proxy", devices=1),
        ContainerAsk("main", devices=1),
    )
    part = asked(first("setup", gpu_memory_ratio="20", gpu_core="80"), box(gpu_memory_ratio="50", gpu_core="30"))
    assert (part.share, part.core) == (50, 80)


def test_a_pod_that_asks_for_nothing_of_ours_has_no_ask() -> None:
    assert DIALECT.ask(pod()) is None
    assert DIALECT.ask(pod(box(prefix="nvidia.com/", gpu="1"))) is None
    assert DIALECT.ask(pod(box(gpu="0", gpu_core="0"))) is None


def test_claims_change_nothing_of_what_is_requested() -> None:
    asking = pod(box(gpu="50"))
    claiming = replace(asking, claims=("nic",), hosted_by_claims=("koordinator.sh/gpu",))
    assert DIALECT.ask(claiming) == DIALECT.ask(asking) is not None


def test_amounts_that_no_container_has_are_refused() -> None:
    overhead = PodView("team", "trainer-0", "u", (box(gpu="50"),), overhead={KEY + "gpu": "50"})
    found = DIALECT.ask(overhead)
    assert isinstance(found, Problem)
    assert "runtime class" in found.sentence
    assert "2 containers are named 'main'" in refused(box(gpu="50"), box(gpu="50"))


def test_owned_names_are_those_of_koordinator_and_of_the_seed() -> None:
    assert all(DIALECT.owns(KEY + word) for word in WORDS)
    assert [DIALECT.owns(f"kubernetes.io/{word}") for word in WORDS] == [True, True, True, True, False]
    assert not DIALECT.owns("nvidia.com/gpu")


AMOUNT = st.one_of(st.integers(0, 900).map(str), st.sampled_from(["100", "50", "16Gi", "1e999"]), st.text(max_size=6))
AMOUNTS = st.dictionaries(st.sampled_from([*OWNED, "cpu"]), AMOUNT, max_size=3)
BOX = st.builds(ContainerView, st.sampled_from("abc"), AMOUNTS, AMOUNTS, st.booleans(), st.booleans())


@given(st.lists(BOX, max_size=4), AMOUNTS)
def test_any_amounts_give_an_ask_that_fits_or_a_sentence(boxes: list[ContainerView], overhead: dict[str, str]) -> None:
    found = DIALECT.ask(PodView("team", "p", "u", tuple(boxes), overhead=overhead))
    if isinstance(found, Ask):
        assert bool(found.devices) != bool(found.share)
        assert found.core <= 100
        assert found.in_bytes or found.share <= 100
