"""Members that request no devices start with their gang, and need not wait for the others of a group that is no gang."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.watch_events import PodDeleted
from linkwise.model.views import ContainerView
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, in_gang, in_group

LATER = 20.0
"""when missing members are no longer waited for"""
LAUNCHER = replace(device_pod("launcher"), containers=(ContainerView("main"),))


def test_a_member_of_a_group_that_does_not_fit_starts_alone() -> None:
    broker, pods = broker_of(FakeNode("n", count=2)), in_group(device_pod("worker", 4), LAUNCHER)
    broker.observe(pods, LATER)
    assert not broker.filter(pods[0], ["n"], LATER).nodes
    assert broker.filter(pods[1], ["n"], LATER).nodes == ["n"]
    assert binds(broker.bind(pods[1].uid, "n", LATER).effects)


def test_what_it_was_offered_it_gets_though_the_others_are_planned_again_meanwhile() -> None:
    broker, pods = broker_of(FakeNode("n", count=2)), in_group(device_pod("worker", 2), LAUNCHER)
    broker.observe([device_pod("other", 2), *pods], LATER)
    broker.bind("uid-other", "n", LATER)
    assert not broker.filter(pods[0], ["n"], LATER).nodes
    assert broker.filter(pods[1], ["n"], LATER).nodes == ["n"]
    broker.observe([PodDeleted("uid-other")], LATER)
    assert binds(broker.bind(pods[1].uid, "n", LATER).effects)


def test_a_member_of_a_gang_that_does_not_fit_is_not_bound() -> None:
    broker, pods = broker_of(FakeNode("n", count=2)), in_gang(device_pod("worker", 4), LAUNCHER, least=2)
    broker.observe(pods, LATER)
    assert not broker.filter(pods[1], ["n"], LATER).nodes
    assert "without a plan" in broker.bind(pods[1].uid, "n", LATER).error


def test_a_member_of_a_gang_that_is_planned_is_bound() -> None:
    broker, pods = broker_of(FakeNode("n", count=4)), in_gang(device_pod("worker", 4), LAUNCHER, least=2)
    broker.observe(pods, LATER)
    assert broker.filter(pods[1], ["n"], LATER).nodes == ["n"]
    assert binds(broker.bind(pods[1].uid, "n", LATER).effects)
