"""The record of a grant on a pod: written as the seed writes it, and read back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, strategies as st

from linkwise.dialects.dialect import Held, Writing
from linkwise.dialects.koordinator.dialect import ALLOCATED, TOPOLOGY, VISIBLE_SIBLINGS, wants_siblings
from linkwise.errors import InputError
from linkwise.model.ask import Ask
from linkwise.model.verdict import Part
from support.builders.koordinator_pods import DEVICES, DIALECT, box, granted, held, keys, pod, written

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.views import ContainerView


@pytest.mark.rule("001.record")
def test_a_grant_is_written_with_cards_per_container_and_what_is_visible() -> None:
    asking = pod(box("setup", init=True), box("main", gpu="200"), box("log"), box("side", gpu="100"))
    words = written(asking, Part("main", ("GPU-5", "GPU-4")), Part("side", ("GPU-0",)))
    assert words[TOPOLOGY] == '{"allocatedGPUs":{"0":["5","4"],"2":["0"]},"visibleGPUs":["0","4","5"]}'
    cards = json.loads(words[ALLOCATED])["gpu"]
    assert [(card["minor"], card["id"]) for card in cards] == [(2, "GPU-5"), (3, "GPU-4"), (7, "GPU-0")]
    assert cards[0]["resources"] == {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}


def test_cards_recorded_with_ids_keep_their_minors_as_indices() -> None:
    asking = pod(box(gpu="200"))
    found = held(asking, written(asking, Part("main", ("GPU-4", "GPU-5")))).grant
    assert found is not None
    assert [part.indices for part in found.offer.parts] == [(3, 2)]


@pytest.mark.rule("001.record")
def test_the_seeds_sample_is_read_and_written_to_the_letter(shared: Path) -> None:
    (text,) = (file.read_text("utf-8") for file in (shared / "seeds").glob("001_*"))
    (sample,) = re.findall(rf"{re.escape(TOPOLOGY)}: '(.*)'", text)
    asking = pod(box(gpu="200"))
    assert held(asking, {TOPOLOGY: sample}) == Held(granted(Part("main", ("#4", "#5"))))
    siblings = ("GPU-4", "GPU-5", "GPU-6", "GPU-7")
    assert written(asking, Part("main", ("GPU-4", "GPU-5")), siblings=siblings)[TOPOLOGY] == sample


def test_a_pod_may_ask_for_its_siblings_cards_or_decline_them() -> None:
    silent, asking, declining, odd = (
        pod(box(), **words) for words in ({}, *({VISIBLE_SIBLINGS: text} for text in ("true", "false", "yes")))
    )
    assert [wants_siblings(each, by_default=True) for each in (silent, asking, declining, odd)] == [1, 1, 0, 0]
    assert [wants_siblings(each, by_default=False) for each in (silent, asking, declining, odd)] == [0, 1, 0, 0]
    assert keys(DIALECT.held(odd)) == [VISIBLE_SIBLINGS]


@pytest.mark.parametrize(
    ("boxes", "resources"),
    [
        ((box(gpu="50"),), {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}),
        ((box(gpu_memory_ratio="30"),), {"koordinator.sh/gpu-memory-ratio": 30}),
        (
            (box("a", gpu="60"), box("b", gpu="40")),
            {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100},
        ),
    ],
    ids=["percent", "memory alone", "two containers"],
)
def test_a_part_of_a_card_is_written_as_the_sum_of_all_containers(
    boxes: tuple[ContainerView, ...], resources: dict[str, int]
) -> None:
    asking = pod(*boxes)
    ask = DIALECT.ask(asking)
    assert isinstance(ask, Ask)
    parts = [Part(own.container, ("GPU-3",), own.share, own.core) for own in ask.containers]
    words = written(asking, *parts)
    assert json.loads(words[ALLOCATED]) == {"gpu": [{"minor": 4, "id": "GPU-3", "resources": resources}]}
    assert held(asking, words) == Held(granted(*parts))


def test_bytes_are_written_as_asked_beside_the_percents_that_were_granted() -> None:
    asking = pod(box("a", gpu_memory="3Gi", gpu_core="20"), box("b", gpu_memory="1Gi"))
    parts = Part("a", ("GPU-3",), 19, 20), Part("b", ("GPU-3",), 7)
    words = written(asking, *parts)
    (card,) = json.loads(words[ALLOCATED])["gpu"]
    assert card["resources"] == {
        "koordinator.sh/gpu-core": 20,
        "koordinator.sh/gpu-memory": 4 * 2**30,
        "koordinator.sh/gpu-memory-ratio": 26,
    }
    assert held(asking, words) == Held(granted(*parts))


def test_a_card_that_bytes_fill_is_read_back_as_a_part() -> None:
    asking, part = pod(box(gpu_memory="16Gi")), Part("main", ("GPU-3",), 100)
    assert held(asking, written(asking, part)) == Held(granted(part))


@given(
    st.lists(st.integers(1, 2**34), min_size=1, max_size=4),
    st.integers(2**33, 2**36),
    st.lists(st.integers(0, 25), min_size=4, max_size=4),
)
def test_percents_of_any_bytes_are_read_back(shares: list[int], size: int, cores: list[int]) -> None:
    boxes = [
        box(f"c{n}", gpu_memory=str(share), gpu_core=str(core))
        for n, (share, core) in enumerate(zip(shares, cores, strict=False))
    ]
    asking = pod(*boxes)
    percents = [-(-share * 100 // size) for share in shares]
    assume(sum(percents) <= 100)
    parts = [
        Part(f"c{n}", ("GPU-3",), percent, core) for n, (percent, core) in enumerate(zip(percents, cores, strict=False))
    ]
    assert held(asking, written(asking, *parts)) == Held(granted(*parts))


def test_the_record_of_other_kinds_of_devices_stays() -> None:
    rdma = [{"minor": 0, "id": "0000:1f:00.2"}]
    asking = pod(box(gpu="100"), **{ALLOCATED: json.dumps({"gpu": [], "rdma": rdma})})
    assert json.loads(written(asking, Part("main", ("GPU-0",)))[ALLOCATED])["rdma"] == rdma


def test_a_card_that_the_node_lacks_is_not_written() -> None:
    with pytest.raises(InputError, match="GPU-9"):
        written(pod(box(gpu="100")), Part("main", ("GPU-9",)))


SIZES = st.lists(st.tuples(st.sampled_from(["main", "init", "sidecar"]), st.integers(0, 2)), min_size=1, max_size=4)


def boxes(sizes: list[tuple[str, int]], per_size: int) -> list[ContainerView]:
    found = [
        box(f"c{place}", init=kind != "main", sidecar=kind == "sidecar", gpu=str(per_size * size))
        for place, (kind, size) in enumerate(sizes)
    ]
    return sorted(found, key=lambda container: not container.init)


@given(SIZES, st.permutations(sorted(DEVICES)), st.sampled_from([100, 12]))
def test_what_was_written_is_read_back(sizes: list[tuple[str, int]], ids: list[str], per_size: int) -> None:
    asking = pod(*boxes(sizes, per_size))
    ask = DIALECT.ask(asking)
    left, parts = iter(ids), []
    for own in ask.containers if isinstance(ask, Ask) else ():
        devices = tuple(next(left) for _ in range(own.devices)) or (ids[-1],)
        parts.append(Part(own.container, devices, own.share, own.core))
    expected = Held(granted(*parts) if parts else None)
    assert held(asking, written(asking, *parts)) == expected


@given(SIZES, st.permutations([f"#{n}" for n in range(8)]))
def test_cards_known_by_number_alone_are_read_back(sizes: list[tuple[str, int]], ids: list[str]) -> None:
    asking = pod(*boxes(sizes, 100))
    ask = DIALECT.ask(asking)
    left = iter(ids)
    parts = [
        Part(own.container, tuple(next(left) for _ in range(own.devices)))
        for own in (ask.containers if isinstance(ask, Ask) else ())
    ]
    words = DIALECT.write(Writing(asking, granted(*parts), {}, 1))
    assert held(asking, words) == Held(granted(*parts) if parts else None)
