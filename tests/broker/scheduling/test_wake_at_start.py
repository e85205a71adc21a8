"""Who waits for a node and never asked here is woken once, when everything was listed."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.effects import Wake
from linkwise.model.views import PodView
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang

NOW = 100.0


def woken(*pods: PodView) -> list[str]:
    broker = broker_of(FakeNode("n", count=1))
    broker.observe(pods, NOW)
    return [wake.name for wake in broker.unanswered() if isinstance(wake, Wake)]


def test_pods_that_wait_are_woken_by_priority_and_age() -> None:
    old, new, urgent = (replace(device_pod(uid), created=at) for uid, at in (("old", 1.0), ("new", 2.0), ("up", 3.0)))
    assert woken(new, old, replace(urgent, priority=5)) == ["up", "old", "new"]


def test_pods_that_need_no_try_are_left_alone() -> None:
    pod = device_pod("a")
    bound, leaving = replace(pod, node="n"), replace(pod, deleting=True)
    gated, over = replace(pod, gates=("later",)), replace(pod, phase="Failed")
    for one in (bound, leaving, gated, over, PodView("default", "web", "a")):
        assert woken(one) == []


def test_a_pod_that_asked_is_remembered_and_not_woken_for_nothing() -> None:
    broker, pod = broker_of(FakeNode("n", count=1)), device_pod("a", 2)
    broker.observe([pod], NOW)
    assert broker.filter(pod, ["n"], NOW).nodes == []
    assert broker.unanswered() == ()


def test_a_member_that_requests_no_devices_is_woken_because_it_waits_for_its_group() -> None:
    with_device, without = in_gang(device_pod("a"), PodView("default", "b", "uid-b"), least=2)
    assert woken(with_device, without) == ["a", "b"]
