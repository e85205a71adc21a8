"""Records of grants that others wrote, changed or broke, and what they say a pod holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.dialect import Held, Writing
from linkwise.dialects.koordinator.dialect import ALLOCATED, TOPOLOGY, VISIBLE_SIBLINGS
from linkwise.model.verdict import Part
from linkwise.model.views import ContainerView
from support.builders.koordinator_pods import DEVICES, DIALECT, box, granted, held, keys, pod


@pytest.mark.parametrize(
    ("resources", "part", "problems"),
    [
        ({"gpu-memory": "2Gi", "gpu-memory-ratio": 13}, Part("", ("GPU-1",), 13), []),
        ({"gpu-memory": "2Gi"}, Part("", ("GPU-1",)), [ALLOCATED]),
        ({"gpu-memory": "9Gi", "gpu-memory-ratio": 60}, Part("", ("GPU-1",), 60), [ALLOCATED]),
        ({}, Part("", ("GPU-1",)), [ALLOCATED]),
    ],
    ids=["rounded as a sum", "no percents", "other bytes", "no resources"],
)
def test_percents_of_bytes_that_another_counted_stand_as_recorded(
    resources: dict[str, object], part: Part, problems: list[str]
) -> None:
    card = {
        "minor": 1,
        "id": "GPU-1",
        "resources": {f"koordinator.sh/{word}": quantity for word, quantity in resources.items()},
    }
    asking = pod(box("a", gpu_memory="1Gi"), box("b", gpu_memory="1Gi"))
    found = held(asking, {ALLOCATED: json.dumps({"gpu": [card]})})
    assert (found.grant, keys(found)) == (granted(part), problems)


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
    DIALECT.write(Writing(asking, granted(Part("a", ("GPU-0",))), DEVICES, 1))
