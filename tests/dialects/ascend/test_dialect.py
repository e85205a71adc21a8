"""What pods say and hold in Ascend's words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import ContainerView, Device, Grant, InputError, Offer, Part, PodView
from linkwise.dialects.ascend.dialect import CONSUMED, Ascend
from linkwise.dialects.ascend.node import PROFILES
from linkwise.dialects.dialect import Held, Writing
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict import Problem
from linkwise.policies.ring_profiles import ring_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

NPU = "huawei.com/Ascend910"
REAL = "huawei.com/AscendReal"
ASCEND = Ascend()
EIGHT = {f"#{number}": Device(f"#{number}", number) for number in range(8)}
KEYS = [*PROFILES, REAL, "predicate-time", "huawei.com/kltDev", "huawei.com/schedule_policy"]


def wants(count: str, resource: str = NPU, name: str = "main", *, init: bool = False) -> ContainerView:
    return ContainerView(name, limits={resource: count}, init=init)


def pod(*containers: ContainerView, annotations: Mapping[str, str] | None = None) -> PodView:
    return PodView("default", "job-0", "u1", containers or (wants("2"),), annotations=annotations or {}, node="npu-1")


def noted(count: str = "2", **keys: str) -> Held:
    """What a pod of so many chips holds by these annotations."""
    names = {"chosen": NPU, "real": REAL, "time": "predicate-time", "kubelet": "huawei.com/kltDev"}
    return ASCEND.held(pod(wants(count), annotations={names[key]: text for key, text in keys.items()}))


def chips(held: Held) -> tuple[str, ...] | None:
    return held.grant.offer.devices if held.grant else None


def problem_keys(held: Held) -> list[str]:
    assert {problem.where for problem in held.problems} <= {"pod default/job-0"}
    return [problem.key for problem in held.problems]


def refusal(found: PodView) -> Problem:
    answer = ASCEND.ask(found)
    assert isinstance(answer, Problem)
    return answer


def grant(*parts: Part) -> Grant:
    return Grant("u1", "", Offer("npu-1", parts))


@pytest.mark.parametrize("word", ["Ascend910", "npu", "Ascend310", "Ascend310P", "Ascend910A", "Ascend910B3"])
def test_whole_chips_are_asked_for_by_name(word: str) -> None:
    resource = f"huawei.com/{word}"
    found = ASCEND.ask(pod(wants("4", resource)))
    assert isinstance(found, Ask)
    assert (found.resource, found.devices, found.mode, found.namespace) == (resource, 4, "whole", "default")
    assert ring_profile(found.profile).name
    assert ASCEND.owns(resource)


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "huawei.com/Ascend950", "huawei.com/npu-cores", "Ascend910"])
def test_other_names_are_not_ours(name: str) -> None:
    assert not ASCEND.owns(name)
    assert ASCEND.ask(pod(wants("1", name))) is None


@pytest.mark.parametrize("name", ["npu-core", "Ascend910-2c", "Ascend310P-4c.3cpu.ndvpp", "Ascend910B2-memory"])
def test_parts_of_chips_are_known_and_not_served_yet(name: str) -> None:
    resource = f"huawei.com/{name}"
    assert ASCEND.owns(resource)
    assert refusal(pod(wants("1", resource))).key == resource
    assert "not supported" in refusal(pod(wants("1", resource))).sentence
    assert ASCEND.ask(pod(wants("0", resource))) is None


def test_each_container_has_its_own_chips_in_the_order_of_the_pod() -> None:
    watch = replace(wants("1", name="watch", init=True), sidecar=True)
    found = ASCEND.ask(pod(wants("3", name="warm", init=True), watch, wants("1"), ContainerView("logs")))
    assert isinstance(found, Ask)
    assert found.containers == (ContainerAsk("warm", 1), ContainerAsk("watch", 1), ContainerAsk("main", 1))


def test_the_hardware_is_what_the_node_selector_says_or_else_the_annotation() -> None:
    plain = pod()
    by_policy = replace(plain, annotations={"huawei.com/schedule_policy": "chip8-node16"})
    by_type = replace(by_policy, node_selector={"accelerator-type": "module-910b-16"})
    asks = [ASCEND.ask(found) for found in (plain, by_policy, by_type)]
    assert [ask.profile for ask in asks if isinstance(ask, Ask)] == ["", "chip8-node16", "module-910b-16"]


@pytest.mark.parametrize(("word", "profile"), [("Ascend310P", "ascend-310p-duo"), ("Ascend310", "ascend-310")])
def test_small_chips_have_a_profile_of_their_own(word: str, profile: str) -> None:
    found = ASCEND.ask(pod(wants("1", f"huawei.com/{word}")))
    assert isinstance(found, Ask)
    assert found.profile == profile


def test_a_pod_that_others_serve_is_left_alone() -> None:
    assert ASCEND.ask(pod(annotations={"huawei.com/skip-ascend-plugin": "enabled"})) is None
    assert ASCEND.ask(pod(annotations={"huawei.com/skip-ascend-plugin": "disabled"})) is not None


def test_claims_change_nothing_of_what_is_requested() -> None:
    assert ASCEND.ask(replace(pod(), claims=("nic",), hosted_by_claims=(NPU,))) == ASCEND.ask(pod())


@pytest.mark.parametrize("count", ["two", "-1", "0.5", ""])
def test_a_broken_amount_is_a_problem(count: str) -> None:
    assert (refusal(pod(wants(count))).where, refusal(pod(wants(count))).key) == ("pod default/job-0", NPU)


def test_two_kinds_of_chips_in_one_pod_are_a_problem() -> None:
    both = ContainerView("main", limits={NPU: "1", "huawei.com/Ascend310": "1"})
    assert refusal(pod(both)).key == "huawei.com/Ascend310"
    assert chips(ASCEND.held(pod(both, annotations={NPU: "Ascend910-0"}))) is None


def test_amounts_that_do_not_add_up_are_a_problem() -> None:
    assert refusal(pod(wants("1"), wants("1"))).key == NPU


@pytest.mark.rule("003.record")
def test_chosen_chips_are_written_as_huaweis_plugin_reads_them() -> None:
    parts = (Part("a", ("#6", "#2")), Part("b", ("#5", "#4")))
    written = ASCEND.write(Writing(pod(wants("2", name="a"), wants("2", name="b")), grant(*parts), EIGHT, now=17))
    assert written == {NPU: "Ascend910-2,Ascend910-4,Ascend910-5,Ascend910-6", "predicate-time": "17"}


@pytest.mark.rule("003.record")
def test_devices_are_written_by_their_index_whatever_they_are_called() -> None:
    devices = {"uuid-a": Device("uuid-a", 3), "uuid-b": Device("uuid-b", 0), "uuid-c": Device("uuid-c", 7)}
    parts = Part("main", ("uuid-a", "#7"))
    written = ASCEND.write(Writing(pod(wants("2", "huawei.com/npu")), grant(parts), devices, now=1))
    assert written["huawei.com/npu"] == "npu-3,npu-7"


def test_a_pod_that_fills_a_node_is_explained_with_its_devices() -> None:
    whole = grant(Part("main", tuple(EIGHT)))
    written = ASCEND.write(Writing(pod(wants("8")), whole, EIGHT, now=1))
    assert written[REAL] == written[NPU]
    other = ASCEND.write(Writing(pod(wants("8", "huawei.com/Ascend910B2")), whole, EIGHT, now=1))
    assert REAL not in other


def test_nothing_is_written_for_a_pod_that_asks_for_nothing() -> None:
    assert ASCEND.write(Writing(pod(wants("1", "nvidia.com/gpu")), grant(Part("main", ("#0",))), EIGHT, now=1)) == {}
    assert ASCEND.write(Writing(pod(), grant(), EIGHT, now=1)) == {}


def test_a_device_that_the_node_does_not_have_is_a_bug() -> None:
    with pytest.raises(InputError, match="'uuid-x' is not a device of node npu-1"):
        ASCEND.write(Writing(pod(), grant(Part("main", ("uuid-x",))), EIGHT, now=1))


@pytest.mark.rule("003.record")
@given(
    resource=st.sampled_from(sorted(PROFILES)),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    numbers=st.sets(st.integers(0, 63), min_size=16, max_size=64),
    now=st.integers(0, CONSUMED),
)
def test_a_written_grant_is_read_back(resource: str, counts: list[int], numbers: set[int], now: int) -> None:
    asking = pod(*(wants(str(count), resource, f"c{place}") for place, count in enumerate(counts)))
    left = [f"#{number}" for number in sorted(numbers)]
    parts = tuple(
        Part(f"c{place}", tuple(left[sum(counts[:place]) : sum(counts[: place + 1])])) for place in range(len(counts))
    )
    devices = {name: Device(name, int(name[1:])) for name in left}
    written = ASCEND.write(Writing(asking, grant(*parts), devices, now))
    assert ASCEND.held(replace(asking, annotations=written)) == Held(grant(*parts))


@pytest.mark.rule("003.record")
def test_chosen_chips_are_read_with_blanks_and_in_any_order() -> None:
    assert noted(chosen=" Ascend910-7, Ascend910-4") == Held(grant(Part("main", ("#4", "#7"))))


@pytest.mark.parametrize("text", ["Ascend910-0,Ascend310-1", "Ascend910-0,", "Ascend910-0,Ascend910-1,Ascend910-2"])
def test_one_bad_item_or_one_too_many_and_nothing_is_believed(text: str) -> None:
    held = noted(chosen=text)
    assert (chips(held), problem_keys(held)) == (None, [NPU])


def test_what_is_mounted_counts_more_than_what_was_chosen() -> None:
    held = noted(chosen="Ascend910-0,Ascend910-1", real="Ascend910-2,Ascend910-3", kubelet="Ascend910-6,Ascend910-7")
    assert (chips(held), problem_keys(held)) == (("#2", "#3"), [REAL])
    same = noted(chosen="Ascend910-2,Ascend910-3", real="Ascend910-3,Ascend910-2")
    assert (chips(same), problem_keys(same)) == (("#2", "#3"), [])


def test_mounted_chips_are_taken_however_many_were_asked_for_unless_the_list_is_broken() -> None:
    more, broken = noted("1", real="Ascend910-4,Ascend910-5"), noted("1", chosen="Ascend910-0", real="Ascend910-4;")
    assert (chips(more), problem_keys(more)) == (("#4", "#5"), [REAL])
    assert (chips(broken), problem_keys(broken)) == (("#0",), [REAL])


def test_a_pod_without_a_list_holds_nothing_that_is_known() -> None:
    assert noted() == noted(chosen="") == noted(time="17") == noted(kubelet="Ascend910-0") == Held(None)


def test_a_finished_pod_holds_nothing_and_a_leaving_one_still_does() -> None:
    holding = pod(annotations={NPU: "Ascend910-0,Ascend910-1"})
    assert [ASCEND.held(replace(holding, phase=end)) for end in ("Succeeded", "Failed")] == [Held(None)] * 2
    assert chips(ASCEND.held(replace(holding, phase="Running", deleting=True))) == ("#0", "#1")


@pytest.mark.parametrize("key", [NPU, REAL])
def test_a_list_on_a_pod_that_asks_for_no_chip_is_not_believed(key: str) -> None:
    held = ASCEND.held(pod(ContainerView("main"), annotations={key: "Ascend910-0"}))
    assert (chips(held), problem_keys(held)) == (None, [key])


def test_a_list_of_another_kind_than_was_asked_is_a_problem() -> None:
    held = ASCEND.held(pod(annotations={"huawei.com/npu": "npu-0,npu-1", NPU: "Ascend910-0,Ascend910-1"}))
    assert (chips(held), problem_keys(held)) == (("#0", "#1"), ["huawei.com/npu"])


@pytest.mark.parametrize(
    ("time", "keys"), [("1700000000000000000", []), (str(CONSUMED), []), ("soon", ["predicate-time"])]
)
def test_a_broken_time_is_a_problem_and_the_chips_are_believed(time: str, keys: list[str]) -> None:
    held = noted(chosen="Ascend910-0,Ascend910-1", time=time)
    assert (chips(held), problem_keys(held)) == (("#0", "#1"), keys)


@given(
    annotations=st.dictionaries(st.sampled_from(KEYS), st.text() | st.just("Ascend910-0,Ascend910-1")),
    count=st.text(max_size=6) | st.sampled_from(["1", "2", "1e999"]),
    resource=st.sampled_from([*PROFILES, "huawei.com/npu-core"]),
    overhead=st.sampled_from(["0", "1", "x"]),
)
def test_nothing_that_stands_on_a_pod_raises(
    annotations: dict[str, str], count: str, resource: str, overhead: str
) -> None:
    asking = pod(wants(count, resource), annotations=annotations)
    asking = replace(asking, overhead={resource: overhead}, node_selector={"accelerator-type": count})
    ASCEND.ask(asking)
    ASCEND.held(asking)
    ASCEND.write(Writing(asking, grant(Part("main", ("#0",))), EIGHT, now=1))
