from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import Ask, ContainerAsk, ContainerView, Grant, NodeView, Offer, Part, PodView
from linkwise.dialects.amd import FACTS, RESOURCE, STEMS, Amd
from linkwise.dialects.dialect import Writing
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from linkwise.model.inventory import NodeFacts

DIALECT = Amd()


def pod(*counts: str) -> PodView:
    containers = tuple(ContainerView(f"c{number}", limits={RESOURCE: count}) for number, count in enumerate(counts))
    return PodView("team", "p", "uid", containers)


def facts(count: str = "8", allocatable: str = "", **labels: str) -> NodeFacts:
    view = NodeView("n", labels, {}, {RESOURCE: count}, {RESOURCE: allocatable} if allocatable else {})
    found = DIALECT.node(view, {})
    assert found is not None
    return found


def keys(found: NodeFacts) -> list[str]:
    return [problem.key for problem in found.problems]


def test_whole_devices_are_asked_by_container() -> None:
    assert DIALECT.owns(RESOURCE)
    assert not DIALECT.owns("amd.com/cpu")
    assert DIALECT.ask(pod("2", "0", "1")) == Ask(RESOURCE, (ContainerAsk("c0", 2), ContainerAsk("c2", 1)), "team")


def test_a_pod_that_asks_for_nothing_is_left_alone() -> None:
    assert DIALECT.ask(pod("0")) is None


def test_claims_change_nothing_of_what_is_requested() -> None:
    claiming = replace(pod("1"), claims=("nic",), hosted_by_claims=(RESOURCE,))
    assert DIALECT.ask(claiming) == DIALECT.ask(pod("1")) is not None


@pytest.mark.parametrize("text", ["half", "-1", "500m", ""])
def test_a_quantity_that_is_no_count_is_a_problem(text: str) -> None:
    found = DIALECT.ask(pod(text))
    assert isinstance(found, Problem)
    assert (found.where, found.key) == ("pod team/p", RESOURCE)


def test_amounts_that_belong_to_no_container_are_a_problem() -> None:
    assert isinstance(DIALECT.ask(replace(pod("1"), overhead={RESOURCE: "1"})), Problem)


def test_nothing_is_written_on_pods_and_nothing_is_read_from_them() -> None:
    grant = Grant("uid", "p", Offer("n", (Part("c0", ("#0",)),)))
    assert DIALECT.write(Writing(pod("1"), grant, {}, 1)) == {}
    assert DIALECT.held(pod("1")).grant is None


def test_devices_are_counted_and_described_by_labels() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI210", "amd.com/gpu.vram": "64G", "amd.com/gpu.family": "AI"}
    found = facts("2", **labels)
    assert [(device.id, device.model, device.memory) for device in found.devices] == [
        ("#0", "AMD_Instinct_MI210", 64),
        ("#1", "AMD_Instinct_MI210", 64),
    ]
    assert found.labels == {"model": "AMD_Instinct_MI210", "memory": "64G", "family": "AI"}
    assert (found.unit, found.problems) == ("GiB", ())


def test_the_counted_form_of_labels_says_the_same() -> None:
    plain = {"amd.com/gpu.vram": "64G", "beta.amd.com/gpu.vram": "64G"}
    counted = {"amd.com/gpu.vram.64G": "8", "beta.amd.com/gpu.vram.64G": "8"}
    assert facts(**plain) == facts(**counted) == facts(**plain, **counted)


def test_unlike_devices_are_a_problem_and_none_is_described() -> None:
    found = facts(**{"amd.com/gpu.vram.64G": "4", "amd.com/gpu.vram.32G": "4"})
    assert (found.labels, keys(found)) == ({}, ["amd.com/gpu.vram"])
    assert {device.memory for device in found.devices} == {0}


def test_a_size_that_is_none_is_a_problem() -> None:
    found = facts(**{"amd.com/gpu.vram": "lots"})
    assert (keys(found), found.unit) == (["amd.com/gpu.vram"], "")


def test_devices_that_are_not_handed_out_are_counted_but_not_located() -> None:
    assert facts("8", "6").labels == {"unhealthy": "2"}
    assert facts("8", "8").labels == {}
    assert keys(facts("8", "9")) == keys(facts("8", "x")) == [RESOURCE]


@pytest.mark.parametrize("count", ["x", "-1", "1025", "1e900"])
def test_a_count_that_can_not_be_is_a_problem(count: str) -> None:
    found = facts(count)
    assert (found.devices, keys(found), found.problems[0].where) == ((), [RESOURCE], "node n")


def test_a_node_that_says_nothing_has_no_facts() -> None:
    assert DIALECT.node(NodeView("n", capacity={RESOURCE: "0"}, labels={"zone": "a"}), {}) is None


_KEYS = st.builds("{}{}{}".format, st.sampled_from(STEMS), st.sampled_from([*FACTS]), st.text(max_size=3))


@given(st.text(), st.text(), st.dictionaries(_KEYS, st.text()))
def test_no_text_makes_reading_fail(count: str, overhead: str, labels: dict[str, str]) -> None:
    DIALECT.node(NodeView("n", labels, {}, {RESOURCE: count}, {RESOURCE: overhead}), {})
    DIALECT.ask(replace(pod(count), overhead={RESOURCE: overhead}))
