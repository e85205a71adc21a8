"""Native PodGroups: kube-scheduler tries all members again and again, one domain after the other, and binds at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.model.views import NodeView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import binds, device_pod, seen_bound, woken_set
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.effects import Effect, FilterAnswer
    from linkwise.model.views import PodView

RACK = "example.com/rack"
RACKS = {rack: [f"{rack}a", f"{rack}b"] for rack in ("r1", "r2", "r3", "r4", "r5", "r6")}
NODES = [name for names in RACKS.values() for name in names]
STEPS = 100_000


def pod_group(minimum: int, *, level: str = RACK, version: str = "v1alpha2", **spec: object) -> ClusterObject:
    document: dict[str, Any] = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
    }
    if level:
        document["spec"]["schedulingConstraints"] = {"topology": [{"key": level}]}
    return ClusterObject(KINDS["kubernetes"], "default/g", document)


def gang(members: int, devices: int, minimum: int = 0, *, level: str = RACK) -> tuple[Broker, list[PodView]]:
    broker = Broker()
    for rack, names in RACKS.items():
        for name in names:
            events = fleet_node(profile("dgx1-v100"), name)
            labelled = [replace(each, labels={RACK: rack}) if isinstance(each, NodeView) else each for each in events]
            broker.observe(labelled, 0.0)
    pods = [
        replace(device_pod(f"p{number}", devices), scheduling_group="g", created=float(number))
        for number in range(members)
    ]
    broker.observe([pod_group(minimum or members, level=level), *pods], 0.0)
    return broker, pods


def cycle(broker: Broker, pods: list[PodView], racks: Sequence[str], now: float = 0.0) -> dict[str, list[str]]:
    """Filter every member in one rack after the other; nodes of those racks in which all of them fit."""
    found = {}
    for rack in racks:
        answers = [broker.filter(pod, RACKS[rack], now) for pod in pods]
        if all(answer.nodes for answer in answers):
            found[rack] = [answer.nodes[0] for answer in answers]
    return found


def bind_all(broker: Broker, pods: list[PodView], nodes: list[str], now: float) -> list[Effect]:
    effects: list[Effect] = []
    for pod, node in zip(pods, nodes, strict=True):
        answer = broker.bind(pod.uid, node, now)
        assert not answer.error
        (bound,) = binds(answer.effects)
        effects += broker.outcome(bound, "written", now)
        effects += broker.observe([seen_bound(pod, bound)], now)
    return effects


@pytest.mark.parametrize("order", [list(RACKS), list(reversed(RACKS)), ["r3", "r6", "r1", "r2", "r5", "r4"]])
def test_members_are_accepted_in_one_domain_whatever_is_tried_first(order: list[str]) -> None:
    broker, pods = gang(4, 4)
    found = cycle(broker, pods, order)
    assert list(found) == ["r1"]
    assert sorted(found["r1"]) == ["r1a", "r1a", "r1b", "r1b"]
    (plan,) = broker.plans().values()
    assert cycle(broker, pods, order) == found, "a cycle leaves nothing behind"
    assert broker.plans() == {"default/g": plan}
    bind_all(broker, pods, found["r1"], 0.0)


def test_many_cycles_over_many_domains_make_one_plan() -> None:
    broker, pods = gang(8, 2)
    plans = []
    for number in range(20):
        assert list(cycle(broker, pods, list(RACKS), number / 10)) == ["r1"]
        plans.append(broker.plans())
    assert all(plan == plans[0] for plan in plans)


def test_a_domain_that_kube_scheduler_rules_out_is_left_for_one_that_it_names() -> None:
    broker, pods = gang(2, 8)
    named = ["r2", "r3"]
    assert cycle(broker, pods, named) == {}, "the plan is in r1, which is not named"
    deadline = broker.next_deadline()
    assert deadline is not None
    assert deadline <= 1.0
    effects = broker.step(deadline, STEPS)
    assert woken_set(effects) == {"p0", "p1"}
    found = cycle(broker, pods, named, deadline)
    assert list(found) == ["r2"]
    bind_all(broker, pods, found["r2"], deadline)


def test_a_domain_that_is_not_named_in_a_complete_cycle_is_left_in_the_next() -> None:
    broker, pods = gang(2, 8)
    assert cycle(broker, pods, ["r3", "r2"]) == {}
    assert list(cycle(broker, pods, ["r3", "r2"])) == ["r2"]


def test_a_plan_whose_domain_was_named_lasts_as_long_as_any_other() -> None:
    broker, pods = gang(2, 8)
    assert cycle(broker, pods, ["r2", "r1", "r3"]) == {"r1": ["r1a", "r1b"]}
    assert broker.plans()
    broker.step(30.0, STEPS)
    assert cycle(broker, pods, ["r3", "r1"], 30.0) == {"r1": ["r1a", "r1b"]}


def test_a_snapshot_in_the_middle_of_a_cycle_gives_the_same_answers() -> None:
    broker, pods = gang(2, 8)
    cycle(broker, pods, ["r2"])
    kept = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(0.0)), BrokerState))
    for each in (broker, kept):
        each.step(1.0, STEPS)
    assert cycle(kept, pods, list(RACKS), 1.0) == cycle(broker, pods, list(RACKS), 1.0) != {}


def test_a_gang_that_fits_no_domain_is_refused_in_all_of_them_without_an_error() -> None:
    broker, pods = gang(3, 8)
    for number in range(30):
        assert cycle(broker, pods, list(RACKS), float(number)) == {}
        broker.step(float(number), STEPS)
    assert not list(broker.entries()), "nothing is reserved"


def test_a_member_that_only_some_nodes_of_its_domain_take_is_planned_there() -> None:
    broker, pods = gang(2, 8)
    assert broker.filter(pods[0], RACKS["r1"], 0.0).nodes == ["r1a"]
    assert broker.filter(pods[1], ["r1a"], 0.0).nodes == ["r1a"], "its volume is there"
    assert broker.filter(pods[0], RACKS["r1"], 0.0).nodes == ["r1b"]


def tried(broker: Broker, pods: list[PodView], now: float) -> list[FilterAnswer]:
    return [broker.filter(pod, NODES, now) for pod in pods]


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_every_version_of_the_object_gives_the_minimum(version: str) -> None:
    broker, pods = gang(2, 8, level="")
    broker.observe([pod_group(3, level="", version=version)], 0.0)
    assert not any(answer.nodes for answer in tried(broker, pods, 0.0)), "two of three"
    broker.observe([pod_group(2, level="", version=version)], 1.0)
    assert all(answer.nodes for answer in tried(broker, pods, 1.0))


def test_a_minimum_that_is_lowered_starts_a_gang_that_waits() -> None:
    broker, pods = gang(14, 8, level="")
    assert not any(answer.nodes for answer in tried(broker, pods, 0.0)), "twelve nodes"
    effects = [*broker.observe([pod_group(12, level="")], 1.0), *broker.step(1.0, STEPS)]
    assert len(woken_set(effects)) == 12
    assert [bool(answer.nodes) for answer in tried(broker, pods, 1.0)] == [True] * 12 + [False] * 2


def test_a_minimum_that_is_raised_takes_back_a_plan_that_is_too_small() -> None:
    broker, pods = gang(14, 8, 12, level="")
    assert sum(bool(answer.nodes) for answer in tried(broker, pods, 0.0)) == 12
    broker.observe([pod_group(13, level="")], 1.0)
    broker.step(1.0, STEPS)
    assert not any(answer.nodes for answer in tried(broker, pods, 1.0))
    assert not list(broker.entries())


def test_a_minimum_that_is_raised_does_not_disturb_members_that_run() -> None:
    broker, pods = gang(3, 8, 2, level="")
    nodes = [answer.nodes[0] for answer in tried(broker, pods[:2], 0.0)]
    bind_all(broker, pods[:2], nodes, 0.0)
    broker.observe([pod_group(5, level="")], 1.0)
    broker.step(1.0, STEPS)
    assert [broker.pods[pod.uid].node for pod in pods[:2]] == nodes
    assert broker.filter(pods[2], NODES, 1.0).nodes, "the gang has started once"


def test_a_minimum_is_raised_before_its_members_exist() -> None:
    broker, pods = gang(2, 4, level="")
    broker.observe([pod_group(3, level="")], 0.5)
    assert not any(answer.nodes for answer in tried(broker, pods, 1.0))
    third = replace(device_pod("p2", 4), scheduling_group="g", created=3.0)
    effects = [*broker.observe([third], 2.0), *broker.step(2.0, STEPS)]
    assert woken_set(effects) >= {"p0", "p1"}
    assert all(answer.nodes for answer in tried(broker, [*pods, third], 2.0))


def test_a_group_without_a_gang_policy_places_each_member_that_fits() -> None:
    broker, pods = gang(14, 8, level="")
    basic = ClusterObject(KINDS["kubernetes"], "default/g", {"spec": {"schedulingPolicy": {"basic": {}}}})
    broker.observe([basic], 0.0)
    assert sum(bool(answer.nodes) for answer in tried(broker, pods, 0.0)) == 12


def test_a_parent_of_the_group_is_reported_and_the_group_is_planned_alone() -> None:
    broker, pods = gang(2, 8)
    effects = broker.observe([pod_group(2, version="v1beta1", parentCompositePodGroupName="tree")], 0.0)
    effects = (*effects, *broker.filter(pods[0], NODES, 0.0).effects)
    said = [getattr(effect, "sentence", "") for effect in effects]
    assert any("parentCompositePodGroupName" in message and "tree" in message for message in said)
    assert all(answer.nodes for answer in tried(broker, pods, 0.0))
