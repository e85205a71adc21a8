"""Groups whose clock is set back: nothing lasts longer for it."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.sights import PodGone
from linkwise.testing.boxes import Box, broker_of, device_pod, place
from linkwise.testing.group_pods import in_group, woken

HOUR = 3600.0


def test_a_plan_holds_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(Box("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    assert broker.filter(pods[0], ["n0"], HOUR).nodes
    broker.step(0.0)
    assert broker.next_deadline() == 60.0
    broker.step(60.0)
    assert not list(broker.state.cluster.ledger.entries())


def test_a_group_rests_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(Box("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    broker.filter(pods[0], ["n0"], HOUR)
    broker.step(HOUR + 60.0)
    assert broker.filter(pods[0], ["n0"], HOUR + 61.0).nodes == []
    assert woken(broker.step(0.0)) == {"a", "b"}
    assert broker.filter(pods[0], ["n0"], 1.0).nodes == ["n0"]


def test_a_group_that_rests_again_by_a_clock_set_back_is_woken_all_the_same() -> None:
    broker = broker_of(Box("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, HOUR)
    broker.filter(pods[0], ["n0"], HOUR)
    broker.step(HOUR + 60.0)
    assert woken(broker.step(HOUR + 70.0)) == {"a", "b"}
    assert broker.filter(pods[0], ["n0"], 0.0).nodes == []
    assert woken(broker.step(0.0)) == {"a", "b"}


def test_a_group_waits_no_longer_for_members_when_the_clock_is_set_back() -> None:
    broker = broker_of(Box("n0"))
    pod = in_group(device_pod("a"), total=2)[0]
    broker.observe([pod], HOUR)
    assert broker.filter(pod, ["n0"], HOUR).nodes == []
    assert woken(broker.step(0.0)) == {"a"}
    assert broker.filter(pod, ["n0"], 0.0).nodes == ["n0"]


def test_a_place_is_kept_no_longer_when_the_clock_is_set_back() -> None:
    broker = broker_of(Box("n0"))
    pods = in_group(device_pod("a"), device_pod("b"))
    bound = place(broker, replace(pods[0], labels={}), "n0", HOUR)
    broker.observe([replace(bound, labels=pods[0].labels, version=5), pods[1]], HOUR)
    broker.observe([PodGone(bound.uid)], HOUR)
    assert [entry.pod for entry in broker.state.cluster.ledger.entries()] == ["uid-a/place"]
    broker.step(0.0)
    assert not list(broker.state.cluster.ledger.entries())
