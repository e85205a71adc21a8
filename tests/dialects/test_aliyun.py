from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, strategies as st

from linkwise import Ask, ContainerAsk, ContainerView, Device, Grant, NodeView, Offer, Part, PodView
from linkwise.dialects.aliyun import ALLOCATION, COUNT, EXPECTED, INDEX, MEMORY, POD, RECORD, Aliyun, environment
from linkwise.dialects.dialect import Writing
from linkwise.model.verdict import Problem
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.model.inventory import NodeFacts

DIALECT = Aliyun()
NOW = 1_700_000_000_000_000_000


def container(name: str, share: str, *, init: bool = False, sidecar: bool = False) -> ContainerView:
    return ContainerView(name, limits={MEMORY: share}, init=init, sidecar=sidecar)


def pod(*containers: ContainerView, annotations: Mapping[str, str] | None = None, phase: str = "Running") -> PodView:
    return PodView("team", "p", "uid", containers, annotations=annotations or {}, node="n", phase=phase)


def asked(view: PodView) -> list[tuple[str, int]]:
    ask = DIALECT.ask(view)
    assert isinstance(ask, Ask)
    return [(entry.container, entry.share) for entry in ask.containers]


def problem(view: PodView) -> Problem:
    found = DIALECT.ask(view)
    assert isinstance(found, Problem)
    return found


def facts(memory: str, count: str, gpus: object = None, **labels: str) -> NodeFacts:
    view = NodeView("n", labels=labels, capacity={MEMORY: memory, COUNT: count})
    found = DIALECT.node(view, {"ConfigMap/unhealthy-gpu-n": {"data": {"gpus": gpus}}} if gpus is not None else {})
    assert found is not None
    return found


def parts(view: PodView) -> list[tuple[str, tuple[str, ...], int]]:
    grant = DIALECT.held(view).grant
    return [(part.container, part.devices, part.share) for part in grant.offer.parts] if grant else []


def keys(view: PodView) -> list[str]:
    return [found.key for found in DIALECT.held(view).problems]


def test_memory_is_asked_by_container_in_the_resources_own_unit() -> None:
    view = pod(container("a", "4"), ContainerView("b"), container("c", "2"))
    wanted = (ContainerAsk("a", share=4), ContainerAsk("c", share=2))
    assert DIALECT.ask(view) == Ask(MEMORY, wanted, "team", mode="share")


def test_init_containers_reuse_and_sidecars_add() -> None:
    view = pod(container("i", "9", init=True), container("s", "1", init=True, sidecar=True), container("a", "4"))
    assert asked(view) == [("i", 4), ("s", 1), ("a", 4)]


def test_a_pod_that_asks_for_nothing_is_left_alone() -> None:
    assert DIALECT.ask(pod(container("a", "0"))) is None


def test_claims_change_nothing_of_what_is_requested() -> None:
    claiming = replace(pod(container("a", "4")), claims=("nic",), hosted_by_claims=(MEMORY,))
    assert DIALECT.ask(claiming) == DIALECT.ask(pod(container("a", "4"))) is not None


def test_the_count_of_devices_is_never_asked_for() -> None:
    found = problem(pod(ContainerView("a", limits={COUNT: "1", MEMORY: "4"})))
    assert (found.where, found.key) == ("pod team/p", COUNT)
    assert "request aliyun.com/gpu-mem instead" in found.sentence


@pytest.mark.parametrize("text", ["half", "-1", "500m", ""])
def test_a_quantity_that_is_no_count_is_a_problem(text: str) -> None:
    found = problem(pod(container("a", text)))
    assert found.key == MEMORY
    assert repr(text) in found.sentence


def test_amounts_that_belong_to_no_container_are_a_problem() -> None:
    view = replace(pod(container("a", "4"), annotations={INDEX: "0"}), overhead={MEMORY: "1"})
    assert problem(view).key == MEMORY
    assert (parts(view), keys(view)) == ([], [MEMORY])


def test_the_device_is_reported_by_its_index_and_the_amounts_by_the_spec() -> None:
    view = pod(container("a", "4"), container("b", "2"), annotations={INDEX: "1", POD: "6"})
    assert parts(view) == [("a", ("#1",), 4), ("b", ("#1",), 2)]
    assert keys(view) == []


@pytest.mark.parametrize("index", ["-1", "one", "1,2", "1.0", " 1", "٣"])
def test_an_index_that_names_no_device_is_a_problem_and_nothing_is_held(index: str) -> None:
    view = pod(container("a", "4"), annotations={INDEX: index})
    assert (parts(view), keys(view)) == ([], [INDEX])


def test_a_missing_index_beside_the_other_keys_is_a_problem() -> None:
    view = pod(container("a", "4"), annotations={POD: "4"})
    assert (parts(view), keys(view)) == ([], [INDEX])
    assert DIALECT.held(pod(container("a", "4"))).problems == ()


def test_finished_and_unbound_pods_hold_nothing_and_terminating_ones_still_do() -> None:
    view = pod(container("a", "4"), annotations={INDEX: "0"})
    assert parts(replace(view, phase="Succeeded")) == parts(replace(view, phase="Failed")) == []
    assert parts(replace(view, node="")) == []
    assert parts(replace(view, deleting=True)) == [("a", ("#0",), 4)]


def test_a_record_that_differs_from_the_spec_is_a_problem_and_the_spec_counts() -> None:
    view = pod(container("a", "4"), annotations={INDEX: "0", POD: "9"})
    assert (parts(view), keys(view)) == ([("a", ("#0",), 4)], [POD])


def test_the_reference_leaves_init_containers_out_of_its_record() -> None:
    view = pod(container("i", "9", init=True), container("a", "4"), annotations={INDEX: "0", POD: "4"})
    assert (parts(view), keys(view)) == ([("i", ("#0",), 5), ("a", ("#0",), 4)], [])


def test_an_index_on_a_pod_that_asks_for_nothing_is_a_problem() -> None:
    view = pod(ContainerView("a"), annotations={INDEX: "0"})
    assert (parts(view), keys(view)) == ([], [INDEX])


def test_the_newer_form_wins_over_the_index() -> None:
    texts = {ALLOCATION: '{"0":{"1":4},"1":{"2":1,"3":1}}'}
    view = pod(container("i", "1", init=True), container("a", "4"), container("b", "2"), annotations=texts)
    assert parts(view) == [("a", ("#1",), 4), ("b", ("#2",), 1), ("b", ("#3",), 1)]
    assert keys(view) == []
    both = replace(view, annotations={**texts, INDEX: "0"})
    assert (parts(both), keys(both)) == (parts(view), [INDEX])


def test_an_empty_newer_form_says_nothing() -> None:
    for empty in ("{}", '{"0":{}}', '{"0":{"1":0}}'):
        view = pod(container("a", "4"), annotations={ALLOCATION: empty, INDEX: "0"})
        assert (parts(view), keys(view)) == ([("a", ("#0",), 4)], [])


@pytest.mark.parametrize(
    "text", ["[", "[]", "7", '{"5":{"0":1}}', '{"0":7}', '{"0":{"x":1}}', '{"0":{"0":-1}}', '{"0":{"0":true}}']
)
def test_a_broken_newer_form_is_a_problem_and_the_index_counts(text: str) -> None:
    view = pod(container("a", "4"), annotations={ALLOCATION: text, INDEX: "0"})
    assert (parts(view), keys(view)) == ([("a", ("#0",), 4)], [ALLOCATION])
    assert parts(pod(container("a", "4"), annotations={ALLOCATION: text})) == []


def test_the_five_annotations_of_a_grant() -> None:
    device = Device("GPU-a", 3, memory=22)
    grant = Grant("uid", "memory-share", Offer("n", (Part("a", ("GPU-a",), 4), Part("b", ("GPU-a",), 2))))
    assert DIALECT.write(Writing(pod(), grant, {"GPU-a": device}, NOW)) == {
        "ALIYUN_COM_GPU_MEM_IDX": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "22",
        "ALIYUN_COM_GPU_MEM_POD": "6",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(NOW),
    }


def test_whole_and_several_devices_are_not_written_in_these_words() -> None:
    devices = {f"#{index}": Device(f"#{index}", index, memory=22) for index in range(2)}
    whole = Grant("uid", "p", Offer("n", (Part("a", ("#0",)),)))
    two = Grant("uid", "p", Offer("n", (Part("a", ("#0", "#1"), 4),)))
    assert DIALECT.write(Writing(pod(), whole, devices, NOW)) == DIALECT.write(Writing(pod(), two, devices, NOW)) == {}


def test_a_container_sees_its_device_and_amounts() -> None:
    grant = Grant("uid", "p", Offer("n", (Part("a", ("GPU-a",), 4), Part("b", ("GPU-a",), 2))))
    seen = environment(grant, 4, {"GPU-a": Device("GPU-a", 3, memory=22)}, isolated=False)
    assert seen == {
        "ALIYUN_COM_GPU_MEM_IDX": "3",
        "ALIYUN_COM_GPU_MEM_POD": "6",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
        "ALIYUN_COM_GPU_MEM_DEV": "22",
        "CGPU_DISABLE": "true",
    }
    assert "CGPU_DISABLE" not in environment(grant, 2, {"GPU-a": Device("GPU-a", 3, memory=22)})


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.integers(0, 15), st.integers(1, 2**62))
def test_what_is_written_is_read_back(shares: list[int], index: int, now: int) -> None:
    view = pod(*(container(f"c{number}", str(share)) for number, share in enumerate(shares)))
    ask = DIALECT.ask(view)
    device = Device(f"#{index}", index, memory=1000)
    if isinstance(ask, Ask):
        given_parts = tuple(Part(entry.container, (device.id,), entry.share) for entry in ask.containers)
        grant = Grant("uid", "", Offer("n", given_parts), mode="share")
        written = DIALECT.write(Writing(view, grant, {device.id: device}, now))
        held = DIALECT.held(replace(view, annotations=written))
        assert (held.grant, held.problems) == (grant, ())


@pytest.mark.rule("004.units")
@pytest.mark.parametrize(
    ("total", "count", "each", "unit"), [(32552, 2, 16276, "MiB"), (88, 4, 22, "GiB"), (77, 7, 11, "GiB")]
)
def test_a_nodes_total_is_the_sum_of_its_cards_in_the_unit_of_their_size(
    total: int, count: int, each: int, unit: str
) -> None:
    found = facts(str(total), str(count))
    assert [device.id for device in found.devices] == [f"#{index}" for index in range(count)]
    assert {device.memory for device in found.devices} == {each}
    assert sum(device.memory for device in found.devices) == total
    assert (found.unit, found.mode, found.problems) == (unit, "share", ())


@pytest.mark.rule("004.units")
def test_a_total_that_does_not_divide_is_a_problem_and_never_oversold_in_sum() -> None:
    found = facts("33", "2")
    assert [device.memory for device in found.devices] == [16, 16]
    assert [problem.key for problem in found.problems] == [MEMORY]


@pytest.mark.parametrize(
    ("memory", "count", "key"), [("88", "0", COUNT), ("88", "65", COUNT), ("88", "x", COUNT), ("x", "4", MEMORY)]
)
def test_devices_that_cannot_be_counted_are_a_problem(memory: str, count: str, key: str) -> None:
    found = facts(memory, count)
    assert found.devices == ()
    assert key in {problem.key for problem in found.problems}
    assert found.mode == ("share" if memory == "88" else "any")


def test_a_node_without_memory_is_not_for_sharing() -> None:
    assert DIALECT.node(NodeView("n", capacity={MEMORY: "0", COUNT: "2"}), {}) is None
    assert DIALECT.node(NodeView("n"), {}) is None
    found = facts("0", "2", gpushare="true")
    assert (found.mode, [problem.key for problem in found.problems]) == ("any", ["gpushare"])


def test_labels_are_reported_unchanged() -> None:
    texts = {"gpushare": "true", "cgpu.disable.isolation": "true"}
    assert facts("88", "4", **texts).labels == texts


@pytest.mark.parametrize(
    ("gpus", "unhealthy", "problems"),
    [
        ("", [], 0),
        (" ", [], 0),
        ("1", [1], 0),
        ("0, 2", [0, 2], 0),
        ("0,x", [0], 1),
        ("1,9", [1], 1),
        (",", [], 1),
        ("-1", [], 1),
        (7, [], 1),
        (["0"], [], 1),
    ],
)
def test_the_list_of_unhealthy_devices(gpus: object, unhealthy: list[int], problems: int) -> None:
    found = facts("88", "4", gpus)
    assert [device.index for device in found.devices if not device.healthy] == unhealthy
    assert len(found.problems) == problems


@pytest.mark.parametrize("data", [None, [], "0", 7, {}])
def test_a_config_map_of_any_kind_is_read_without_failing(data: object) -> None:
    view = NodeView("n", capacity={MEMORY: "88", COUNT: "4"})
    found = DIALECT.node(view, {"ConfigMap/unhealthy-gpu-n": {"data": data}})
    assert found is not None
    assert all(device.healthy for device in found.devices)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys([*EXPECTED, ALLOCATION], st.text())), st.text(), st.text())
def test_no_text_makes_reading_fail(annotations: dict[str, str], amount: str, overhead: str) -> None:
    view = replace(pod(container("a", amount), annotations=annotations), overhead={MEMORY: overhead})
    DIALECT.held(view)
    DIALECT.ask(view)
    DIALECT.node(NodeView("n", labels={"gpushare": amount}, capacity={MEMORY: amount, COUNT: overhead}), {})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["0", "1"]), inner),
)


@given(_JSON)
def test_no_json_makes_reading_fail(document: object) -> None:
    DIALECT.held(pod(container("a", "1"), annotations={ALLOCATION: json.dumps(document)}))
    DIALECT.node(
        NodeView("n", capacity={MEMORY: "8", COUNT: "2"}), {"ConfigMap/unhealthy-gpu-n": {"data": {"gpus": document}}}
    )


def test_the_sample_of_the_seed_asks_for_one_unit(shared: Path) -> None:
    text = next((shared / "seeds").glob("004_*")).read_text("utf-8")
    blocks = [block for block in text.split("```yaml\n")[1:] if "name: binpack-1" in block]
    template = yaml.safe_load(blocks[0].split("```")[0])["spec"]["template"]
    ask = DIALECT.ask(pod_view(template))
    assert ask == Ask(MEMORY, (ContainerAsk("binpack-1", share=1),), "default", mode="share")


def test_an_empty_record_counts_as_none() -> None:
    view = pod(container("a", "4"), annotations=dict.fromkeys(RECORD, ""))
    assert (parts(view), keys(view)) == ([], [])
    written = pod(container("a", "4"), annotations={ALLOCATION: "", INDEX: "1"})
    assert (parts(written), keys(written)) == ([("a", ("#1",), 4)], [])
