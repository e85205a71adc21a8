"""Simulations of autoscalers: nodes that do not exist are answered by their objects, and nothing is remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.dialects.nvidia import TOPOLOGY, matrix_annotation
from linkwise.model.views import NodeView
from linkwise.testing.cluster import (
    AMD,
    ASCEND,
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    broker_of,
    device_pod,
    in_gang,
    in_group,
    place,
)
from linkwise.vendors.machines import profile
from support.builders.access_objects import access_policy, team_pod

if TYPE_CHECKING:
    from linkwise.broker.effects import FilterAnswer
    from linkwise.model.views import PodView

NOW = 100.0


def template(name: str = "template", resource: str = NVIDIA, amount: int = 8) -> NodeView:
    """A node of a node group, as an autoscaler makes it up."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", resource: str(amount)}
    return NodeView(name, capacity=amounts, allocatable=amounts)


def simulated(broker: Broker, pod: PodView, *templates: NodeView, names: tuple[str, ...] = ()) -> FilterAnswer:
    """The answer, after which the broker is as it was."""
    before = broker.snapshot(NOW)
    answer = broker.simulate_filter(pod, names, templates, NOW)
    broker.simulate_scores(pod, names, templates, NOW)
    assert broker.snapshot(NOW) == before
    assert answer.effects == ()
    return answer


@pytest.mark.parametrize(("amount", "fits"), [(1, True), (8, True), (9, False)])
def test_a_node_that_does_not_exist_is_answered_by_what_it_would_have(amount: int, fits: bool) -> None:  # noqa: FBT001 - a case
    answer = simulated(Broker(), device_pod("p", amount), template())
    assert answer.nodes == (["template"] if fits else [])
    assert (answer.unresolvable == {}) == fits
    assert answer.failed == {}


@pytest.mark.parametrize(
    ("resource", "amount", "has"),
    [(ASCEND, 4, (ASCEND, 8)), (AMD, 8, (AMD, 8)), (NVIDIA, 70, (NVIDIA, 80))],
)
def test_every_dialect_reads_nodes_that_do_not_exist(resource: str, amount: int, has: tuple[str, int]) -> None:
    assert simulated(Broker(), device_pod("p", amount, resource), template("t", *has)).nodes == ["t"]


def test_memory_of_a_node_that_does_not_exist_is_shared_by_device() -> None:
    amounts = {MEMORY: "64", "aliyun.com/gpu-count": "4"}
    node = NodeView("t", {"gpushare": "true"}, {}, amounts, amounts)
    assert simulated(Broker(), device_pod("p", 16, MEMORY), node).nodes == ["t"]
    assert simulated(Broker(), device_pod("p", 17, MEMORY), node).nodes == []


def test_percents_need_the_number_of_devices_beside_them() -> None:
    """Their Device object does not exist either."""
    amounts = {KOORDINATOR: "800", NVIDIA: "8"}
    both, alone = (NodeView("t", capacity=each, allocatable=each) for each in (amounts, {KOORDINATOR: "800"}))
    assert simulated(Broker(), device_pod("p", 200, KOORDINATOR), both).nodes == ["t"]
    assert simulated(Broker(), device_pod("p", 200, KOORDINATOR), alone).nodes == []


def test_a_node_without_the_resource_is_refused_with_the_reason() -> None:
    answer = simulated(Broker(), device_pod("p", 2, ASCEND), template("t"))
    assert answer.unresolvable == {"t": "node(s) had no devices of the requested kind"}


def test_rings_count_where_no_node_exists() -> None:
    """Three chips are never in one ring."""
    answer = simulated(Broker(), device_pod("p", 3, ASCEND), template("t", ASCEND, 8))
    assert answer.nodes == []


def test_every_fitting_template_is_named_so_that_price_decides() -> None:
    small, large = template("small", amount=2), template("large", amount=8)
    assert simulated(Broker(), device_pod("p", 2), small, large).nodes == ["small", "large"]
    assert simulated(Broker(), device_pod("p", 4), small, large).nodes == ["large"]


def test_a_node_that_exists_is_answered_from_what_is_known() -> None:
    broker = broker_of(FakeNode("n", count=2))
    place(broker, device_pod("other", 2), "n", NOW)
    answer = simulated(broker, device_pod("p"), template(), names=("n",))
    assert answer.nodes == ["template"]
    assert simulated(broker, device_pod("p"), names=("n",)).nodes == []


def test_a_free_node_that_exists_is_named_first() -> None:
    broker = broker_of(FakeNode("n", count=2))
    assert simulated(broker, device_pod("p"), template(), names=("n",)).nodes == ["n", "template"]


def test_refusals_of_both_kinds_of_nodes_are_reported_together() -> None:
    broker = broker_of(FakeNode("n", count=2))
    answer = simulated(broker, device_pod("p", 9), template(), names=("n",))
    assert {*answer.failed, *answer.unresolvable} == {"n", "template"}


def test_links_on_a_template_are_used_to_rank_it() -> None:
    linked = profile("dgx1-v100")
    kinds = replace(template("linked"), annotations={TOPOLOGY: matrix_annotation(linked.topology)})
    scores = Broker().simulate_scores(device_pod("p", 4), [], [template("plain"), kinds], NOW)
    assert scores["linked"] > scores["plain"]


def test_ranks_of_nodes_and_templates_are_dense_and_cover_all() -> None:
    broker = broker_of(FakeNode("n", count=2), FakeNode("full", count=1))
    place(broker, device_pod("other"), "full", NOW)
    pod, templates = device_pod("p"), [template("t"), template("t2", ASCEND)]
    scores = broker.simulate_scores(pod, ["n", "full"], templates, NOW)
    ranks = broker.simulated_ranks(["n", "full", "t", "t2"], scores)
    assert [name for name, _ in ranks] == ["n", "full", "t", "t2"]
    assert set(dict(ranks).values()) <= set(range(len(ranks)))


def test_a_pod_without_devices_fits_every_template() -> None:
    pod = replace(device_pod("p"), containers=())
    assert simulated(Broker(), pod, template()).nodes == ["template"]


def test_an_invalid_request_fits_no_template() -> None:
    answer = simulated(Broker(), device_pod("p", 1, "alpha.kubernetes.io/nvidia-gpu"), template())
    assert "request nvidia.com/gpu instead" in answer.unresolvable["template"]


def test_a_pod_that_is_being_bound_needs_no_node() -> None:
    broker, pod = broker_of(FakeNode("n")), device_pod("p")
    broker.observe([pod], NOW)
    broker.filter(pod, ["n"], NOW)
    broker.bind(pod.uid, "n", NOW)
    assert simulated(broker, pod, template()).nodes == []


# groups


def test_a_gang_that_is_not_complete_gets_no_nodes() -> None:
    broker, (pod,) = Broker(), in_gang(device_pod("a", 8), least=2)
    broker.observe([pod], NOW)
    answer = simulated(broker, pod, template())
    assert answer.nodes == []
    assert "gang" in answer.unresolvable["template"]


def test_members_of_a_complete_gang_are_answered_one_by_one() -> None:
    broker, members = Broker(), in_gang(*(device_pod(name, 8) for name in "ab"), least=2)
    broker.observe(members, NOW)
    assert [simulated(broker, pod, template()).nodes for pod in members] == [["template"]] * 2


def test_members_of_a_gang_without_room_on_its_nodes_are_answered_with_templates_only() -> None:
    broker, members = broker_of(FakeNode("n", count=8)), in_gang(*(device_pod(name, 8) for name in "ab"), least=2)
    broker.observe(members, NOW)
    assert [simulated(broker, pod, template(), names=("n",)).nodes for pod in members] == [["template"]] * 2


@pytest.mark.parametrize(("gate", "nodes"), [("linkwise.dev/gang", ["template"]), ("kueue.x-k8s.io/admission", [])])
def test_a_gang_behind_our_gate_may_get_nodes_and_one_that_others_hold_back_gets_none(
    gate: str, nodes: list[str]
) -> None:
    broker = Broker()
    gang = in_gang(*(device_pod(name, 8) for name in "ab"), least=2)
    members = [replace(pod, gates=(gate,)) for pod in gang]
    broker.observe(members, NOW)
    broker.step(NOW, 100)
    assert simulated(broker, members[0], template()).nodes == nodes


def test_an_unobserved_pod_is_answered_alone() -> None:
    (pod,) = in_group(device_pod("made-up", 4), total=2)
    assert simulated(Broker(), pod, template()).nodes == ["template"]


# what callers may send


@pytest.mark.parametrize("amount", ["-1", "x", "1.5", "9" * 30])
def test_nonsense_on_a_template_is_a_refusal(amount: str) -> None:
    node = NodeView("t", {}, {TOPOLOGY: "[["}, {NVIDIA: amount}, {NVIDIA: amount})
    assert simulated(Broker(), device_pod("p"), node).nodes == []


def test_many_templates_of_one_group_are_evaluated_once() -> None:
    many = [template(f"t{number}") for number in range(500)]
    assert simulated(Broker(), device_pod("p", 4), *many).nodes == [view.name for view in many]


@pytest.mark.rule("002.access")
def test_nodes_are_not_added_for_a_request_that_a_policy_forbids() -> None:
    broker = Broker()
    broker.observe([access_policy("p", resources=["huawei.com/*"])], NOW)
    assert simulated(broker, team_pod("a"), template()).nodes == []
    assert simulated(broker, team_pod("b", namespace="other"), template()).nodes == ["template"]
