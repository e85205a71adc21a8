"""The record of a member lists the devices of its group on the node, and members that can't see others are reported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.dialects.koordinator.allocation import TOPOLOGY
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, in_gang, in_group, seen_bound

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import BindAnswer
    from linkwise.model.views import PodView

NODE = FakeNode("n", count=8)
NOW = 20.0  # groups are not waited for any longer


def group(count: int, size: int = 2) -> list[PodView]:
    return in_group(*(device_pod(f"m{number}", size) for number in range(count)))


def cluster(*pods: PodView, node: FakeNode = NODE) -> Broker:
    broker = broker_of(node)
    broker.observe(pods, 0.0)
    return broker


def bind(broker: Broker, pod: PodView) -> BindAnswer:
    assert broker.filter(pod, ["n"], NOW).nodes == ["n"]
    return broker.bind(pod.uid, "n", NOW)


def start(broker: Broker, pod: PodView) -> PodView:
    """Bind a pod and observe it."""
    (bound,) = binds(bind(broker, pod).effects)
    broker.outcome(bound, "written", NOW)
    broker.observe([seen_bound(pod, bound)], NOW)
    return seen_bound(pod, bound)


def listed(answer: BindAnswer) -> list[str]:
    (bound,) = binds(answer.effects)
    return list(json.loads(bound.annotations[TOPOLOGY])["visibleGPUs"])


def warned(answer: BindAnswer) -> list[str]:
    events = [effect for effect in answer.effects if isinstance(effect, Event)]
    return [event.sentence for event in events if event.reason == "VisibilityReduced"]


@pytest.mark.rule("001.record")
def test_members_that_are_bound_and_members_that_wait_are_listed() -> None:
    pods = group(3)
    broker = cluster(*pods)
    lists = [listed(bind(broker, pod)) for pod in pods]
    assert lists == [["0", "1", "2", "3", "4", "5"]] * 3


def test_binds_in_flight_do_not_look_like_reduced_visibility() -> None:
    pods = group(3)
    broker = cluster(*pods)
    assert [warned(bind(broker, pod)) for pod in pods] == [[], [], []]


def test_a_member_of_an_earlier_plan_whose_bind_is_in_flight_is_reported() -> None:
    first, second = group(2)
    broker = cluster(first, second)
    bind(broker, first)
    broker.observe(replace(NODE, unhealthy=frozenset({2, 3}), version=2).events(), NOW)
    (sentence,) = warned(bind(broker, second))
    assert sentence == "its devices are not listed as visible to m0, which started earlier"


def test_a_device_that_the_node_lost_is_not_listed() -> None:
    first, second = group(2)
    broker = cluster(first, second)
    start(broker, first)
    broker.observe(replace(NODE, count=7, ids=NODE.devices(1, 2, 3, 4, 5, 6, 7), version=2).events(), NOW)
    assert listed(bind(broker, second)) == ["0", "1", "2"]


def test_what_the_agent_reports_is_listed_before_what_is_recorded() -> None:
    first, second = group(2)
    broker = cluster(first, second)
    start(broker, first)
    broker.observe(replace(NODE, allocations={first.uid: NODE.devices(6, 7)}, version=2).events(), NOW)
    assert {"6", "7"} <= set(listed(bind(broker, second)))


def test_members_that_are_being_deleted_are_not_listed() -> None:
    first, second, third = group(3)
    broker = cluster(first, second, third)
    start(broker, first)
    broker.observe([replace(start(broker, second), deleting=True, version=3)], NOW)
    assert len(listed(bind(broker, third))) == 4


def test_pods_of_groups_without_the_record_are_not_reported() -> None:
    pods = in_gang(device_pod("a", 2), device_pod("b", 2), least=2)
    broker = cluster(*pods)
    answers = [bind(broker, pod) for pod in pods]
    assert [warned(answer) for answer in answers] == [[], []]
    assert not any(TOPOLOGY in bound.annotations for answer in answers for bound in binds(answer.effects))
