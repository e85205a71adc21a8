"""The record of a grant on a pod: written as the seed writes it, and read back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, strategies as st

from linkwise.dialects.dialect import Held, Writing
from linkwise.dialects.koordinator import ALLOCATED, TOPOLOGY, VISIBLE_SIBLINGS, Koordinator
from linkwise.errors import InputError
from linkwise.model.ask import Ask
from linkwise.model.device import Device
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView

if TYPE_CHECKING:
    from pathlib import Path

DIALECT = Koordinator()
DEVICES = {f"GPU-{n}": Device(f"GPU-{n}", n, minor=7 - n) for n in range(8)}
"""numbers that are not minors, as on machines whose bus order differs"""


def box(name: str = "main", *, init: bool = False, sidecar: bool = False, **words: str) -> ContainerView:
    amounts = {f"koordinator.sh/{word.replace('_', '-')}": value for word, value in words.items()}
    return ContainerView(name, amounts, amounts, init, sidecar)


def pod(*containers: ContainerView, **annotations: str) -> PodView:
    return PodView("team", "trainer-0", "uid-1", containers, annotations=annotations, node="n1")


def granted(*parts: Part) -> Grant:
    return Grant("uid-1", "", Offer("n1", parts), mode="percent")


def written(asking: PodView, *parts: Part, siblings: tuple[str, ...] = ()) -> dict[str, str]:
    return DIALECT.write(Writing(asking, granted(*parts), DEVICES, 1, siblings))


def held(asking: PodView, annotations: dict[str, str]) -> Held:
    return DIALECT.held(replace(asking, annotations=annotations))


def keys(found: Held) -> list[str]:
    assert all(problem.where == "pod team/trainer-0" for problem in found.problems)
    return [problem.key for problem in found.problems]


@pytest.mark.rule("001.record")
def test_a_grant_is_written_with_cards_per_container_and_what_is_visible() -> None:
    asking = pod(box("setup", init=True), box("main", gpu="200"), box("log"), box("side", gpu="100"))
    words = written(asking, Part("main", ("GPU-5", "GPU-4")), Part("side", ("GPU-0",)))
    assert words[TOPOLOGY] == '{"allocatedGPUs":{"0":["5","4"],"2":["0"]},"visibleGPUs":["0","4","5"]}'
    cards = json.loads(words[ALLOCATED])["gpu"]
    assert [(card["minor"], card["id"]) for card in cards] == [(2, "GPU-5"), (3, "GPU-4"), (7, "GPU-0")]
    assert cards[0]["resources"] == {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}


@pytest.mark.rule("001.record")
def test_the_seeds_sample_is_read_and_written_to_the_letter(shared: Path) -> None:
    (text,) = (file.read_text("utf-8") for file in (shared / "seeds").glob("001_*"))
    (sample,) = re.findall(rf"{re.escape(TOPOLOGY)}: '(.*)'", text)
    asking = pod(box(gpu="200"))
    assert held(asking, {TOPOLOGY: sample}) == Held(granted(Part("main", ("#4", "#5"))))
    siblings = ("GPU-4", "GPU-5", "GPU-6", "GPU-7")
    assert written(asking, Part("main", ("GPU-4", "GPU-5")), siblings=siblings)[TOPOLOGY] == sample


def test_siblings_are_seen_by_those_who_say_so() -> None:
    assert DIALECT.wants_siblings(pod(box(), **{VISIBLE_SIBLINGS: "true"}))
    assert not DIALECT.wants_siblings(pod(box()))
    odd = pod(box(), **{VISIBLE_SIBLINGS: "yes"})
    assert not DIALECT.wants_siblings(odd)
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


@pytest.mark.parametrize(
    ("resources", "part", "problems"),
    [
        ({"gpu-memory": "2Gi", "gpu-memory-ratio": 13}, Part("", ("GPU-1",), 13), []),
        ({"gpu-memory": "2Gi"}, Part("", ("GPU-1",)), [ALLOCATED]),
        ({"gpu-memory": "9Gi", "gpu-memory-ratio": 60}, Part("", ("GPU-1",), 60), [ALLOCATED]),
        ({}, Part("", ("GPU-1",)), [ALLOCATED]),
    ],
    ids=["rounded as a sum", "no percents", "other bytes", "nothing told"],
)
def test_percents_of_bytes_that_another_counted_stand_as_recorded(
    resources: dict[str, object], part: Part, problems: list[str]
) -> None:
    card = {
        "minor": 1,
        "id": "GPU-1",
        "resources": {f"koordinator.sh/{word}": told for word, told in resources.items()},
    }
    asking = pod(box("a", gpu_memory="1Gi"), box("b", gpu_memory="1Gi"))
    found = held(asking, {ALLOCATED: json.dumps({"gpu": [card]})})
    assert (found.grant, keys(found)) == (granted(part), problems)


def test_the_record_of_other_kinds_of_devices_stays() -> None:
    rdma = [{"minor": 0, "id": "0000:1f:00.2"}]
    asking = pod(box(gpu="100"), **{ALLOCATED: json.dumps({"gpu": [], "rdma": rdma})})
    assert json.loads(written(asking, Part("main", ("GPU-0",)))[ALLOCATED])["rdma"] == rdma


def test_a_card_that_the_node_lacks_is_not_written() -> None:
    with pytest.raises(InputError, match="GPU-9"):
        written(pod(box(gpu="100")), Part("main", ("GPU-9",)))


def test_what_koordinator_itself_wrote_is_read() -> None:
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": "16Gi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    cards = [{"minor": n, "id": f"GPU-{n}", "resources": resources} for n in (2, 3, 6)]
    record = {ALLOCATED: json.dumps({"gpu": cards, "rdma": [{}]})}
    both = pod(box("a", gpu="100"), box("b", gpu="200"))
    assert held(both, record) == Held(granted(Part("a", ("GPU-2",)), Part("b", ("GPU-3", "GPU-6"))))
    theirs = pod(ContainerView("main", {"nvidia.com/gpu": "3"}), ContainerView("proxy"))
    assert held(theirs, record) == Held(granted(Part("", ("GPU-2", "GPU-3", "GPU-6"))))
    bare = {ALLOCATED: '{"gpu":[{"minor":5}]}'}
    assert held(pod(box(gpu="50")), bare) == Held(granted(Part("main", ("#5",), 50, 50)))


def test_a_record_that_differs_from_the_amounts_counts_as_it_stands_and_is_reported() -> None:
    half = {"minor": 1, "id": "GPU-1", "resources": {"koordinator.sh/gpu-memory-ratio": 50}}
    record = {ALLOCATED: json.dumps({"gpu": [half]})}
    found = held(pod(box("a", gpu_memory_ratio="30")), record)
    assert found.grant == granted(Part("", ("GPU-1",), 50))
    assert keys(found) == [ALLOCATED]
    in_bytes = {ALLOCATED: record[ALLOCATED].replace("-ratio", "")}
    assert held(pod(box("a", gpu_memory_ratio="30")), in_bytes).grant == granted(Part("", ("GPU-1",)))
    fewer = held(pod(box(gpu="300")), {TOPOLOGY: '{"allocatedGPUs":{"0":["1"]}}'})
    assert (fewer.grant, keys(fewer)) == (granted(Part("main", ("#1",))), [TOPOLOGY])


def test_of_two_records_that_disagree_the_one_with_ids_is_believed() -> None:
    record = {ALLOCATED: '{"gpu":[{"minor":1,"id":"GPU-1"}]}', TOPOLOGY: '{"allocatedGPUs":{"0":["1","2"]}}'}
    found = held(pod(box(gpu="100")), record)
    assert (found.grant, keys(found)) == (granted(Part("main", ("GPU-1",))), [TOPOLOGY])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"allocatedGPUs":[]}',
        '{"allocatedGPUs":{"1":["0"]}}',
        '{"allocatedGPUs":{"00":["0"]}}',
        '{"allocatedGPUs":{"0":[4]}}',
        '{"allocatedGPUs":{"0":["4","4"]}}',
        '{"allocatedGPUs":{"0":["-1"]}}',
        '{"allocatedGPUs":{"0":["\u0664"]}}',
        '{"allocatedGPUs":{"0":"4"}}',
        '{"allocatedGPUs":{"0":["4"],"0":["5"]}}',
        '{"allocatedGPUs":{"0":["4"]},"visibleGPUs":"4"}',
        "[" * 9000,
    ],
)
def test_a_broken_record_of_the_seed_is_a_problem(text: str) -> None:
    found = held(pod(box(gpu="100")), {TOPOLOGY: text})
    assert (found.grant, keys(found)) == (None, [TOPOLOGY])


@pytest.mark.parametrize(
    "gpu",
    [
        {},
        [5],
        [{"id": "GPU-1"}],
        [{"minor": True}],
        [{"minor": 1, "id": 5}],
        [{"minor": 1, "id": "#2"}],
        [{"minor": 1, "resources": []}],
        [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "half"}}],
        [{"minor": 1, "resources": {"koordinator.sh/gpu-core": 101}}],
        [{"minor": 1, "resources": {"koordinator.sh/gpu-core": 1, "kubernetes.io/gpu-core": 2}}],
        [{"minor": 1}, {"minor": 1}],
    ],
)
def test_a_broken_record_of_koordinator_is_a_problem_and_the_numbers_are_used(gpu: object) -> None:
    record = {ALLOCATED: json.dumps({"gpu": gpu}), TOPOLOGY: '{"allocatedGPUs":{"0":["4"]}}'}
    found = held(pod(box(gpu="100")), record)
    assert (found.grant, keys(found)) == (granted(Part("main", ("#4",))), [ALLOCATED])


def test_a_finished_pod_holds_nothing_and_one_that_ends_still_does() -> None:
    record = {TOPOLOGY: '{"allocatedGPUs":{"0":["4"]},"visibleGPUs":["4"]}'}
    running = pod(box(gpu="100"), **record)
    assert (
        DIALECT.held(replace(running, phase="Failed"))
        == DIALECT.held(replace(running, phase="Succeeded"))
        == Held(None)
    )
    assert DIALECT.held(replace(running, deleting=True)).grant == granted(Part("main", ("#4",)))


def test_a_pod_without_a_record_holds_nothing() -> None:
    assert DIALECT.held(pod(box(gpu="100"))) == Held(None)


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["0", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "1", "minor", "id"]), inner, max_size=3)
    ),
    max_leaves=8,
)
CARD = st.fixed_dictionaries(
    {},
    optional={
        "minor": st.integers(0, 3) | JSON,
        "id": st.sampled_from(["GPU-0", "GPU-1"]) | JSON,
        "resources": st.dictionaries(
            st.sampled_from(["koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory-ratio"]),
            st.integers(0, 100) | JSON,
        ),
    },
)
RECORD = st.text() | st.builds(json.dumps, JSON | st.fixed_dictionaries({"gpu": st.lists(CARD, max_size=3)}))
LISTS = st.text() | st.builds(
    json.dumps, st.fixed_dictionaries({"allocatedGPUs": JSON}, optional={"visibleGPUs": JSON})
)
NAMED = st.lists(
    st.builds(
        ContainerView,
        st.sampled_from(["a", "b", ""]),
        st.dictionaries(
            st.sampled_from(["koordinator.sh/gpu", "koordinator.sh/gpu-memory"]), st.sampled_from(["50", "100", "x"])
        ),
        init=st.booleans(),
    ),
    max_size=3,
)


@given(NAMED, LISTS, RECORD, st.text(max_size=5))
def test_no_text_in_an_annotation_raises(named: list[ContainerView], lists: str, record: str, siblings: str) -> None:
    asking = pod(*named, **{TOPOLOGY: lists, ALLOCATED: record, VISIBLE_SIBLINGS: siblings})
    found = DIALECT.held(asking)
    assert found.grant is None or found.grant.offer.devices
    assert all(problem.sentence for problem in found.problems)
    DIALECT.wants_siblings(asking)
    DIALECT.write(Writing(asking, granted(Part("a", ("GPU-0",))), DEVICES, 1))
