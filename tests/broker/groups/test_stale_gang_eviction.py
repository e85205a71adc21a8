"""Bound members of gangs that are stuck halfway are evicted only where that is allowed, in time, and before they run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Event, Evict
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

GANG = "gang.scheduling.koordinator.sh/"
NODES = ["n0", "n1"]
OVER = 601.0
"""when the gang has waited for as long as it does"""


def member(number: int, mode: str = "Strict") -> PodView:
    words = {f"{GANG}name": "g", f"{GANG}min-available": "2", f"{GANG}mode": mode}
    asks = (ContainerView("main", limits={"nvidia.com/gpu": "8"}),)
    return PodView("team", f"g{number}", f"u{number}", asks, annotations=words, created=float(number), version=1)


def half_bound(mode: str = "Strict", *, allowed: bool = True, **more: Any) -> Broker:  # noqa: ANN401 - as `replace`
    """One of two that must start together is bound, the other has its place in a plan; the room it needs is there."""
    broker = Broker(PlacingSettings(group=GroupSettings(evict_half_bound=allowed)))
    for name in NODES:
        broker.observe(fleet_node(profile("dgx1-v100"), name), 0.0)
    broker.observe([member(0, mode), member(1, mode)], 1.0)
    (node,) = broker.filter(member(0, mode), NODES, 1.0).nodes
    (bind,) = (effect for effect in broker.bind("u0", node, 1.0).effects if isinstance(effect, Bind))
    broker.outcome(bind, "written", 1.0)
    words = {**member(0, mode).annotations, **bind.annotations}
    broker.observe([replace(member(0, mode), node=node, annotations=words, version=2, **more)], 1.0)
    return broker


def evicted(effects: Iterable[object]) -> list[str]:
    return [effect.uid for effect in effects if isinstance(effect, Evict)]


def sentences(effects: Iterable[object], reason: str) -> list[str]:
    return [effect.sentence for effect in effects if isinstance(effect, Event) and effect.reason == reason]


def first(broker: Broker, **more: Any) -> PodView:  # noqa: ANN401 - same
    """The bound member with something else about it."""
    found = broker.pods["u0"]
    return replace(found, version=found.version + 1, **more)


@pytest.mark.rule("001.gang")
def test_a_bound_member_is_evicted_when_the_time_of_its_gang_is_over() -> None:
    broker = half_bound()
    assert evicted(broker.step(OVER - 1.0)) == []
    effects = broker.step(OVER)
    assert evicted(effects) == ["u0"]
    assert sentences(effects, "GangHalfBound")[0].endswith("the bound members are evicted now")
    assert len(sentences(effects, "GangEvicted")) == 1


def test_no_pod_is_evicted_unless_that_is_set() -> None:
    broker = half_bound(allowed=False)
    effects = broker.step(OVER)
    assert evicted(effects) == []
    assert sentences(effects, "GangHalfBound")[0].endswith("free devices for the others, or delete the gang's pods")


def test_members_of_a_gang_that_may_start_in_parts_are_left_alone() -> None:
    assert evicted(half_bound("NonStrict").step(OVER)) == []


@pytest.mark.parametrize("sign", [{"begun": True}, {"phase": "Running"}, {"phase": "Unknown"}])
def test_a_pod_that_has_begun_to_run_is_not_evicted(sign: dict[str, Any]) -> None:
    effects = half_bound(**sign).step(OVER)
    assert evicted(effects) == []
    assert "pod g0 has started, so none is evicted" in sentences(effects, "GangHalfBound")[0]


def test_no_pod_is_evicted_twice() -> None:
    broker = half_bound()
    broker.step(OVER)
    broker.filter(member(1), NODES, 700.0)
    assert [evicted(broker.step(now)) for now in (1400.0, 2100.0, 2800.0)] == [[], [], []]


def test_a_pod_that_joins_another_gang_is_not_evicted_for_that_one_too() -> None:
    broker = half_bound()
    broker.step(OVER)
    words = {**first(broker).annotations, f"{GANG}name": "other"}
    broker.observe([first(broker, annotations=words)], 602.0)
    assert evicted(broker.step(2000.0)) == []


def test_a_plan_that_breaks_leaves_the_gang_its_time() -> None:
    broker = half_bound()
    effects = broker.observe([PodDeleted("u1")], 10.0)
    assert sentences(effects, "GangHalfBound")[0].endswith("unless the others are placed or one of them starts first")
    assert broker.next_deadline() == 610.0
    assert evicted(broker.step(609.0)) == []
    assert evicted(broker.step(610.0)) == ["u0"]


def test_a_gang_that_starts_before_its_deadline_gets_the_notice_that_nothing_is_evicted() -> None:
    broker = half_bound()
    broker.observe([PodDeleted("u1")], 10.0)
    broker.observe([first(broker, begun=True)], 20.0)
    effects = broker.step(610.0)
    assert evicted(effects) == []
    assert "has started" in sentences(effects, "GangHalfBound")[0]


def test_a_gang_that_is_whole_in_time_is_let_be() -> None:
    broker = half_bound()
    broker.observe([PodDeleted("u1")], 10.0)
    broker.observe([replace(member(2), node="n1")], 20.0)
    assert broker.next_deadline() is None
    assert evicted(broker.step(OVER + 20.0)) == []


def test_a_restarted_service_finds_stale_gangs() -> None:
    before = half_bound()
    broker = Broker(before.settings)
    for name in NODES:
        broker.see(fleet_node(profile("dgx1-v100"), name))
    broker.see([before.pods["u0"]])
    broker.step(1000.0)
    assert broker.next_deadline() == 1600.0
    assert evicted(broker.step(1600.0)) == ["u0"]


@pytest.mark.parametrize("limits", [{"cpu": "1"}, {"nvidia.com/gpu": "1"}])
def test_a_gang_that_was_never_planned_here_is_left_to_its_own_scheduler(limits: dict[str, str]) -> None:
    broker = Broker(half_bound().settings)
    theirs = replace(member(0), containers=(ContainerView("main", limits=limits),), scheduler="other", node="n0")
    broker.observe([*fleet_node(profile("dgx1-v100"), "n0"), theirs], 1.0)
    assert broker.next_deadline() is None
    assert evicted(broker.step(5000.0)) == []


def test_a_clock_that_is_set_back_makes_no_group_wait_longer() -> None:
    broker = half_bound()
    broker.observe([PodDeleted("u1")], 5000.0)
    broker.step(0.0)
    assert broker.next_deadline() == 600.0


def test_an_eviction_is_wanted_for_the_pod_as_it_is_known() -> None:
    broker = half_bound()
    broker.step(OVER)
    assert broker.evictable("u0") == 2
    broker.observe([first(broker)], 602.0)
    assert broker.evictable("u0") == 3


@pytest.mark.parametrize("change", [{"begun": True}, {"deleting": True}, {"phase": "Failed"}])
def test_an_eviction_is_not_wanted_any_more_once_the_pod_has_begun_or_goes(change: dict[str, Any]) -> None:
    broker = half_bound()
    broker.step(OVER)
    broker.observe([first(broker, **change)], 602.0)
    assert broker.evictable("u0") is None


def test_an_eviction_is_not_wanted_any_more_once_the_gang_is_whole() -> None:
    broker = half_bound()
    broker.step(OVER)
    broker.observe([replace(member(1), node="n1", version=2)], 602.0)
    assert broker.evictable("u0") is None


def test_a_pod_without_a_decided_eviction_is_not_evictable() -> None:
    assert half_bound().evictable("u0") is None


def test_a_gang_that_comes_back_is_planned_as_a_whole() -> None:
    broker = half_bound()
    broker.step(OVER)
    again = replace(member(0), uid="u0-again", created=602.0)
    broker.observe([PodDeleted("u0"), again], 602.0)
    now = 700.0
    nodes = [broker.filter(pod, NODES, now).nodes for pod in (member(1), again)]
    assert sorted(nodes) == [["n0"], ["n1"]]


def test_a_gang_that_is_stuck_again_is_evicted_again() -> None:
    broker = half_bound()
    broker.step(OVER)
    broker.observe([PodDeleted("u0"), replace(member(0), uid="u0-again", node="n0")], 602.0)
    effects = broker.step(602.0 + 600.0)
    assert evicted(effects) == ["u0-again"]


def test_an_eviction_that_is_given_up_is_asked_for_again_when_the_gang_has_waited_once_more() -> None:
    broker = half_bound()
    broker.step(OVER)
    broker.not_evicted("u0", 700.0)
    assert broker.next_deadline() == 1300.0
    assert evicted(broker.step(1299.0)) == []
    assert evicted(broker.step(1300.0)) == ["u0"]


def test_an_eviction_that_is_given_up_is_not_asked_for_again_once_the_pod_has_begun_or_is_gone() -> None:
    for change in (lambda broker: [first(broker, begun=True)], lambda _: [PodDeleted("u0")]):
        broker = half_bound()
        broker.step(OVER)
        broker.observe(change(broker), 650.0)
        broker.not_evicted("u0", 700.0)
        assert evicted(broker.step(5000.0)) == []


def test_explanations_include_the_eviction_of_a_stale_gang() -> None:
    broker = half_bound()
    broker.observe([PodDeleted("u1")], 10.0)
    group, pod = explain_group(broker, "u0", 110.0), explain_pod(broker, "u0", 110.0)
    assert group is not None
    assert pod is not None
    for lines in (explanation_lines(group), explanation_lines(pod)):
        assert any("the bound members are evicted in 500 s" in line for line in lines)
    broker.step(610.0)
    asked = explain_group(broker, "u0", 611.0)
    assert asked is not None
    assert any("their eviction was requested" in line for line in explanation_lines(asked))


def test_a_snapshot_keeps_what_is_due_and_what_was_asked_for() -> None:
    broker = half_bound()
    broker.observe([PodDeleted("u1")], 10.0)
    kept = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(10.0)), BrokerState))
    assert evicted(kept.step(610.0)) == ["u0"]
    assert Broker.restore(decode_snapshot(encode_snapshot(kept.snapshot(610.0)), BrokerState)).evictable("u0") == 2


def test_an_eviction_that_is_kept_for_later_is_in_the_snapshot() -> None:
    broker = half_bound()
    explain_pod(broker, "u0", OVER)
    kept = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(OVER)), BrokerState))
    assert evicted(kept.step(OVER)) == ["u0"]
