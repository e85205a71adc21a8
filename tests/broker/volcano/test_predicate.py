"""Whether a pod fits on one node, and the order of the nodes: what Volcano asks before it allocates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.broker.volcano.bookings import Task
from linkwise.broker.volcano.callbacks import FITS, STEP, UNRESOLVABLE, UNSCHEDULABLE
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod, in_gang, place
from support.builders.access_objects import access_policy
from support.builders.volcano import pod_group, volcano_pod

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

RING: Final = FakeNode("n", "ring", 8)


def filled(broker: Broker, node: str, left: int, right: int) -> None:
    """Leave so many chips idle in the first and in the second ring of a node."""
    for first, idle in ((0, left), (4, right)):
        for index in range(first, first + 4 - idle):
            pod = replace(device_pod(f"{node}-{index}", 1, ASCEND), annotations={ASCEND: f"Ascend910-{index}"})
            broker.observe([replace(pod, node=node, version=2)], 0.0)


def member(name: str, amount: int, created: float = 0.0) -> PodView:
    return replace(volcano_pod(name, amount, "g"), created=created)


@pytest.mark.rule("003.predicate")
def test_a_node_with_enough_chips_and_no_fitting_ring_is_refused_with_both_rings_numbers() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    filled(broker, "n", 1, 1)
    broker.observe([pod], 0.0)
    fit = broker.predicate(pod, "n", 0.0)
    sentence = "ring 0 has 1 idle, ring 1 has 1 idle; 2 are needed in one ring"
    assert (fit.code, fit.reason) == (UNSCHEDULABLE, sentence)


@pytest.mark.rule("003.predicate")
def test_a_member_of_a_group_of_one_gets_the_same_sentence_as_a_single_pod() -> None:
    broker, single, one = broker_of(RING), volcano_pod("a", 2), member("b", 2)
    filled(broker, "n", 1, 1)
    broker.observe([single, one, pod_group("g")], 0.0)
    assert broker.predicate(one, "n", 0.0).reason == broker.predicate(single, "n", 0.0).reason


@pytest.mark.rule("003.predicate")
def test_a_pod_fits_where_a_ring_does_and_nothing_is_reserved() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    filled(broker, "n", 1, 2)
    broker.observe([pod], 0.0)
    assert broker.predicate(pod, "n", 0.0).code == FITS
    assert broker.entry(pod.uid) is None


def test_a_booked_pod_counts_as_booked_until_it_is_bound() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    broker.observe([pod], 0.0)
    assert broker.book(Task(pod.uid, "n"), 0.0).error == ""
    assert (broker.counts().booked, broker.counts().grants) == (1, 0)


@pytest.mark.rule("003.predicate")
def test_members_of_a_gang_fit_on_the_nodes_of_its_plan_alone() -> None:
    broker = broker_of(*(FakeNode(name, "ring", 8) for name in "xyz"))
    pods = [member("a", 8, 0.0), member("b", 8, 1.0)]
    broker.observe([pod_group("g", 2), *pods], 0.0)
    homes = {pod.name: {name for name in "xyz" if broker.predicate(pod, name, 0.0).code == FITS} for pod in pods}
    assert homes["a"] == homes["b"]  # the members are equal, and may take each other's place
    (elsewhere,) = {"x", "y", "z"} - homes["a"]
    refused = broker.predicate(pods[0], elsewhere, 0.0)
    assert (refused.code, refused.reason.startswith("pod default/a is planned on node ")) == (UNRESOLVABLE, True)


def homes_of(broker: Broker, pods: list[PodView]) -> dict[str, str]:
    return {pod.uid: entry.node for pod in pods if (entry := broker.entry(pod.uid))}


def test_equal_members_trade_places_in_whatever_order_volcano_allocates_them() -> None:
    broker = broker_of(*(FakeNode(name, "ring", 8) for name in "xyz"))
    pods = [member("a", 8, 0.0), member("b", 8, 1.0), member("c", 8, 2.0)]
    broker.observe([pod_group("g", 3), *pods], 0.0)
    broker.predicate(pods[0], "x", 0.0)
    before = homes_of(broker, pods)
    turned = dict(zip(before, [*list(before.values())[1:], before[pods[0].uid]], strict=True))
    assert [broker.book(Task(uid, node), 0.0).error for uid, node in turned.items()] == [""] * 3
    assert homes_of(broker, pods) == turned
    assert broker.predicate(pods[1], turned[pods[0].uid], 0.0).code == UNRESOLVABLE
    for pod in pods:
        broker.unbook(pod.uid, 1.0)
    assert homes_of(broker, pods) == turned
    assert {entry.state for entry in broker.entries()} == {"PLANNED"}


def test_a_gang_is_not_started_in_part() -> None:
    broker, pods = broker_of(RING), [member("a", 8, 0.0), member("b", 8, 1.0)]
    broker.observe([pod_group("g", 2), *pods], 0.0)
    fits = [broker.predicate(pod, "n", 0.0) for pod in pods]
    assert [fit.code for fit in fits] == [UNRESOLVABLE] * 2  # the cluster is too small for it
    assert broker.book(Task(pods[0].uid, "n"), 0.0).error.endswith("the group is planned when the pod is retried")


@pytest.mark.rule("003.valid-job")
def test_a_job_of_an_invalid_shape_fits_on_no_node_whatever_is_evicted() -> None:
    broker, pods = broker_of(RING), [member("a", 2, 0.0), member("b", 2, 1.0)]
    broker.observe([pod_group("g", 2), *pods], 0.0)
    fit = broker.predicate(pods[0], "n", 0.0)
    assert (fit.code, "pod" in fit.reason) == (UNRESOLVABLE, True)
    per_pod = broker_of(RING, settings=PlacingSettings(job_shape="per-pod"))
    per_pod.observe([pod_group("g", 2), *pods], 0.0)
    assert per_pod.predicate(pods[0], "n", 0.0).code == FITS


@pytest.mark.parametrize("node", ["n", "a node that is not known yet"])
@pytest.mark.parametrize("amount", [3, 5, 6, 7, 9])
@pytest.mark.rule("003.valid-job")
def test_a_request_that_no_node_can_serve_is_unresolvable(amount: int, node: str) -> None:
    broker, pod = broker_of(RING), volcano_pod("a", amount)
    broker.observe([pod], 0.0)
    fit = broker.predicate(pod, node, 0.0)
    assert (fit.code, str(amount) in fit.reason) == (UNRESOLVABLE, True)


def test_members_without_devices_are_ignored_by_the_rules_for_jobs() -> None:
    broker = broker_of(RING)
    pods = [member("a", 2, 0.0), replace(volcano_pod("m", 0, "g", task="master"), created=1.0)]
    broker.observe([pod_group("g", 2), *pods], 0.0)
    assert [broker.predicate(pod, "n", 0.0).code for pod in pods] == [FITS, FITS]


def test_a_pod_that_a_policy_does_not_permit_is_unresolvable() -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 2)
    broker.observe([access_policy("none", {"namespaces": ["default"]}, resources=["nvidia.com/*"]), pod], 0.0)
    fit = broker.predicate(pod, "n", 0.0)
    assert (fit.code, "none" in fit.reason) == (UNRESOLVABLE, True)


def test_a_booked_pod_fits_on_its_node_alone() -> None:
    broker, pod = broker_of(RING, FakeNode("m", "ring", 8)), volcano_pod("a", 8)
    broker.observe([pod], 0.0)
    broker.book(Task(pod.uid, "m"), 0.0)
    assert {name: broker.predicate(pod, name, 0.0).code for name in "mn"} == {"m": FITS, "n": UNRESOLVABLE}
    assert broker.rank(pod, ["n", "m"], 0.0)["m"] > STEP


def test_a_pod_that_carries_devices_of_others_is_refused() -> None:
    broker, pod = broker_of(RING), replace(volcano_pod("a", 1), annotations={ASCEND: "Ascend910-0"})
    filled(broker, "n", 3, 4)
    broker.observe([pod], 0.0)
    fit = broker.predicate(pod, "n", 0.0)
    assert (fit.code, "not its own any more" in fit.reason) == (UNSCHEDULABLE, True)


@pytest.mark.parametrize("node", ["", "unknown"])
def test_an_unknown_node_is_refused_with_a_reason(node: str) -> None:
    broker, pod = broker_of(RING), volcano_pod("a", 1)
    fit = broker.predicate(pod, node, 0.0)
    assert (fit.code, fit.reason.endswith("is unknown")) == (UNRESOLVABLE, True)


def test_a_node_that_is_not_ready_is_refused() -> None:
    broker, pod = broker_of(FakeNode("n", "ring", 8, ready=False)), volcano_pod("a", 1)
    assert broker.predicate(pod, "n", 0.0).code == UNRESOLVABLE


@pytest.mark.rule("003.order")
def test_all_nodes_are_ordered_by_the_decision_table_in_one_batch() -> None:
    states = {"a": (1, 0), "b": (3, 3), "c": (2, 0), "d": (4, 1), "e": (2, 4), "f": (4, 4), "g": (3, 0)}
    broker, pod = broker_of(*(FakeNode(name, "ring", 8) for name in states)), volcano_pod("p", 2)
    for name, idle in states.items():
        filled(broker, name, *idle)
    broker.observe([pod], 0.0)
    scores = broker.rank(pod, list(states), 0.0)
    order = sorted(scores, key=lambda name: -scores[name])
    # group A: a ring with two idle chips, the other ring ascending; B: four; C: three, (3, 3) last; a does not fit
    assert order == ["c", "e", "d", "f", "g", "b", "a"]
    classes = sorted(int(score // STEP) for score in scores.values())
    assert classes == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.rule("003.order")
def test_equal_nodes_differ_by_less_than_what_other_plugins_add() -> None:
    names = [f"node-{number}" for number in range(50)]
    broker, pod = broker_of(*(FakeNode(name, "ring", 8) for name in names)), volcano_pod("p", 4)
    broker.observe([pod], 0.0)
    scores = broker.rank(pod, [*reversed(names), "unknown"], 0.0)
    assert len(set(scores.values())) == len(names) + 1
    assert max(scores, key=lambda name: scores[name]) == "node-0"
    assert max(scores.values()) - min(scores[name] for name in names) < 1
    assert min(scores, key=lambda name: scores[name]) == "unknown"


def test_gangs_of_other_kinds_are_planned_for_volcano_too() -> None:
    broker = broker_of(FakeNode("x", count=4), FakeNode("y", count=4))
    pods = [replace(pod, scheduler="volcano") for pod in in_gang(device_pod("a", 4), device_pod("b", 4), least=2)]
    broker.observe(pods, 0.0)
    for pod in pods:
        name = next(name for name in "xy" if broker.predicate(pod, name, 0.0).code == FITS)
        assert broker.book(Task(pod.uid, name), 0.0).error == ""
    assert {entry.node for entry in broker.entries()} == {"x", "y"}


def test_a_bound_pod_keeps_its_node() -> None:
    broker = broker_of(RING)
    pod = place(broker, replace(device_pod("a", 1, ASCEND), scheduler="volcano"), "n")
    assert broker.predicate(pod, "n", 0.0).code == FITS


@pytest.mark.rule("002.versions")
def test_a_node_that_does_not_meet_the_pods_requirement_is_refused_to_volcano_for_good() -> None:
    broker = broker_of(FakeNode("old", facts={"cuda": "12.0"}), FakeNode("new", facts={"cuda": "12.4"}))
    pod = replace(device_pod("p"), annotations={"linkwise.dev/require": "cuda>=12.2"}, scheduler="volcano")
    refused = broker.predicate(pod, "old", 0.0)
    assert (refused.code, "CUDA version 12.0" in refused.reason) == (UNRESOLVABLE, True)
    assert broker.predicate(pod, "new", 0.0).code == FITS
    broker.observe([pod], 0.0)
    assert "CUDA" in broker.book(Task(pod.uid, "old", pod), 0.0).error
    assert not broker.book(Task(pod.uid, "new", pod), 0.0).error
