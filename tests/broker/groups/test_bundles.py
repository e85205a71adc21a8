"""Gangs that start together: complete together, planned together, held all or none."""

from __future__ import annotations

import json
from dataclasses import replace

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Event, Wake
from linkwise.broker.watch_events import ClusterObject, NodeGone, PodDeleted
from linkwise.explain.group.group import explain_group
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.state import state_of

GANG = "gang.scheduling.koordinator.sh/"
BUNDLE = json.dumps(["team/a", "team/b"])


def member(gang: str, number: int, total: int = 1) -> PodView:
    annotations = {
        f"{GANG}name": gang,
        f"{GANG}min-available": "1",
        f"{GANG}total-number": str(total),
        f"{GANG}groups": BUNDLE,
    }
    asks = (ContainerView("main", limits={"nvidia.com/gpu": "8"}),)
    return PodView(
        "team", f"{gang}{number}", f"u-{gang}{number}", asks, annotations=annotations, created=number, version=1
    )


def cluster(nodes: int) -> Broker:
    broker = Broker()
    for number in range(nodes):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    return broker


def names(broker: Broker) -> list[str]:
    return list(broker.nodes)


def tried(broker: Broker, pod: PodView, now: float = 1.0) -> list[str]:
    return broker.filter(pod, names(broker), now).nodes


def bound(broker: Broker, pod: PodView, now: float = 2.0) -> None:
    (node,) = tried(broker, pod, now)
    (bind,) = (effect for effect in broker.bind(pod.uid, node, now).effects if isinstance(effect, Bind))
    broker.outcome(bind, "written", now)
    broker.observe([replace(pod, node=node, annotations={**pod.annotations, **bind.annotations}, version=2)], now)


def test_a_gang_waits_until_the_gangs_that_start_with_it_are_complete() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0)], 1.0)
    answer = broker.filter(member("a", 0), names(broker), 1.0)
    assert set(answer.unresolvable.values()) == {"node(s): a gang of the same bundle is incomplete"}
    assert state_of(broker).groups.plans == {}


def test_gangs_that_start_together_are_planned_when_the_first_member_is_tried() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    first = tried(broker, member("a", 0))
    assert list(state_of(broker).groups.plans) == ["team/a", "team/b"]
    assert sorted((first, tried(broker, member("b", 0)))) == [["n0"], ["n1"]]


def test_where_one_of_them_has_no_room_nothing_is_held_for_the_other() -> None:
    broker = cluster(1)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    assert tried(broker, member("a", 0)) == tried(broker, member("b", 0)) == []
    assert state_of(broker).groups.plans == {}
    assert not list(broker.entries())


def test_where_not_all_fit_as_many_start_as_must() -> None:
    broker = cluster(2)
    pods = [member("a", 0, total=2), member("a", 1, total=2), member("b", 0)]
    broker.observe(pods, 1.0)
    places = [tried(broker, pod) for pod in pods]
    assert sorted(map(len, places)) == [0, 1, 1]
    assert places[1] == []


def test_plans_that_are_held_together_break_together_and_are_made_again_together() -> None:
    broker = cluster(4)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    nodes = [node for name in "ab" for node in tried(broker, member(name, 0))]
    effects = broker.observe(map(NodeGone, nodes), 2.0)
    assert state_of(broker).groups.plans == {}
    assert {effect.uid for effect in effects if isinstance(effect, Event)} == {"u-a0", "u-b0"}
    assert {effect.uid for effect in broker.step(2.0, 1000) if isinstance(effect, Wake)} == {"u-a0", "u-b0"}
    assert list(state_of(broker).groups.plans) == ["team/a", "team/b"]


def test_plans_that_break_together_hold_nothing_if_one_does_not_fit_any_more() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    (node,) = tried(broker, member("a", 0))
    broker.observe([NodeGone(node)], 2.0)
    assert not any(isinstance(effect, Wake) for effect in broker.step(2.0, 1000))
    assert not list(broker.entries())


def test_plans_that_are_held_together_end_together() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    tried(broker, member("a", 0))
    broker.step(600.9)
    assert len(state_of(broker).groups.plans) == 2
    broker.step(601.0)
    assert state_of(broker).groups.plans == {}
    assert not list(broker.entries())


def test_a_bind_of_one_prolongs_the_plans_of_all() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    bound(broker, member("a", 0), 100.0)
    assert state_of(broker).groups.plans["team/b"].expires == 700.0


def test_a_gang_whose_mates_have_started_is_planned_alone() -> None:
    broker = cluster(3)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    for pod in (member("a", 0), member("b", 0)):
        bound(broker, pod)
    broker.observe([PodDeleted("u-b0"), member("b", 7)], 3.0)
    assert len(tried(broker, member("b", 7), 3.0)) == 1


def test_a_pod_group_object_may_name_the_bundle() -> None:
    broker = cluster(1)
    kind = "PodGroup.scheduling.sigs.k8s.io"
    meta = {"annotations": {f"{GANG}groups": BUNDLE}}
    broker.observe([ClusterObject(kind, "team/a", {"metadata": meta, "spec": {"minMember": 1}})], 0.0)
    labels = {"pod-group.scheduling.sigs.k8s.io": "a"}
    pod = replace(member("a", 0), labels=labels, annotations={})
    broker.observe([pod], 1.0)
    answer = broker.filter(pod, names(broker), 1.0)
    assert set(answer.unresolvable.values()) == {"node(s): a gang of the same bundle is incomplete"}


def test_a_plan_that_was_made_after_its_gang_had_started_does_not_end_with_the_others() -> None:
    broker = cluster(3)
    first, later, other = member("a", 0, total=2), member("a", 1, total=2), member("b", 0)
    broker.observe([first, other], 1.0)
    tried(broker, first)
    bound(broker, first, 12.0)
    broker.observe([later], 13.0)
    (home,) = tried(broker, later, 13.0)
    (node,) = tried(broker, other, 13.0)
    broker.observe([NodeGone(node)], 14.0)
    assert list(state_of(broker).groups.plans) == ["team/a"]
    assert tried(broker, later, 14.0) == [home]


def test_a_gang_that_the_others_do_not_name_waits_for_them_and_is_planned_by_itself() -> None:
    broker = cluster(3)
    broker.observe([member("a", 0), member("b", 0), member("c", 0)], 1.0)
    assert len(tried(broker, member("c", 0))) == 1
    assert list(state_of(broker).groups.plans) == ["team/c"]
    tried(broker, member("a", 0))
    assert {key: held.bundle for key, held in state_of(broker).groups.plans.items()} == {
        "team/c": (),
        "team/a": ("team/b",),
        "team/b": ("team/a",),
    }


def one_sided(pod: PodView, *others: str) -> PodView:
    words = {key: text for key, text in pod.annotations.items() if key != f"{GANG}groups"}
    return replace(pod, annotations={**words, **({f"{GANG}groups": json.dumps(others)} if others else {})})


def test_a_gang_that_does_not_name_another_never_waits_for_it() -> None:
    broker = cluster(2)
    alone = one_sided(member("b", 0))
    broker.observe([alone], 1.0)
    assert tried(broker, alone) == ["n0"]


def test_a_gang_waits_for_one_that_it_names_and_is_planned_without_it_if_that_does_not_name_it() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0)], 1.0)
    assert tried(broker, member("a", 0)) == []
    broker.observe([one_sided(member("b", 0))], 2.0)
    answer = broker.filter(member("a", 0), names(broker), 2.0)
    assert list(state_of(broker).groups.plans) == ["team/a"]
    (event,) = [effect for effect in answer.effects if isinstance(effect, Event)]
    assert (event.reason, event.name) == ("GangsApart", "a0")
    assert "must start together with team/b, which does not list the same gangs" in event.sentence


def test_gangs_of_which_one_names_more_are_planned_one_by_one_and_an_explanation_says_so() -> None:
    broker = cluster(2)
    third = one_sided(member("c", 0), "team/a", "team/b", "team/c")
    broker.observe([member("a", 0), one_sided(member("b", 0), "team/a", "team/b", "team/c"), third], 1.0)
    assert len(tried(broker, member("a", 0))) == 1
    explanation = explain_group(broker, "team/a", 1.0)
    assert explanation is not None
    assert any(
        "must start together with team/b, which does not list the same gangs" in note for note in explanation.notes
    )


def test_gangs_that_name_each_other_get_no_notice() -> None:
    broker = cluster(2)
    broker.observe([member("a", 0), member("b", 0)], 1.0)
    answer = broker.filter(member("a", 0), names(broker), 1.0)
    assert not [effect for effect in answer.effects if isinstance(effect, Event)]
