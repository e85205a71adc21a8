"""Pods that were refused are retried when room appears, and none is missed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.effects import Wake
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.inspect import inspect_nodes
from linkwise.testing.cluster import MEMORY, FakeNode, binds, broker_of, device_pod, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import PodView

NOW = 100.0


def woken(effects: Iterable[Effect]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Wake)]


def refused(broker: Broker, pod: PodView, now: float = NOW) -> None:
    broker.observe([pod], now)
    assert broker.filter(pod, list(broker.nodes), now).nodes == []


def full() -> tuple[Broker, PodView]:
    """A node of two devices that one pod has."""
    broker = broker_of(FakeNode("n"))
    return broker, place(broker, device_pod("holder", 2), "n")


@pytest.mark.parametrize("how", ["finished", "gone", "stopped"])
def test_room_that_a_pod_leaves_wakes_those_that_fit(how: str) -> None:
    broker, holder = full()
    for name in ("a", "b", "c"):
        refused(broker, device_pod(name, created=float(ord(name))))
    leaving: dict[str, WatchEvent] = {
        "finished": replace(holder, phase="Succeeded", version=9),
        "gone": PodDeleted(holder.uid),
        "stopped": replace(holder, deleting=True, stopped=True, version=9),
    }
    effects = broker.observe([leaving[how]], NOW)
    assert woken(effects) == ["a", "b"]
    assert [effect.sentence for effect in effects if isinstance(effect, Wake)] == ["it may fit on node n now"] * 2


def test_a_pod_that_is_only_leaving_wakes_no_pod() -> None:
    broker, holder = full()
    refused(broker, device_pod("a"))
    assert woken(broker.observe([replace(holder, deleting=True, version=9)], NOW)) == []


def test_a_bind_that_was_refused_wakes_those_that_wait_for_its_devices() -> None:
    broker = broker_of(FakeNode("n"))
    broker.observe([device_pod("holder", 2)], NOW)
    (bound,) = binds(broker.bind("uid-holder", "n", NOW).effects)
    refused(broker, device_pod("a"))
    assert woken(broker.outcome(bound, "unknown", NOW)) == []
    assert woken(broker.outcome(bound, "refused", NOW)) == ["a"]


def test_a_device_that_recovers_wakes_and_one_that_dies_does_not() -> None:
    broker = broker_of(FakeNode("n", unhealthy=frozenset({0})))
    refused(broker, device_pod("a", 2))
    assert woken(broker.observe(FakeNode("n").events(), NOW)) == ["a"]
    assert woken(broker.observe(FakeNode("n", unhealthy=frozenset({1})).events(), NOW)) == []


def test_a_new_node_wakes() -> None:
    broker = broker_of(FakeNode("small", count=1))
    refused(broker, device_pod("a", 2))
    assert woken(broker.observe(FakeNode("n").events(), NOW)) == ["a"]


def test_a_node_that_is_ready_again_or_has_its_plugin_again_wakes() -> None:
    for before in (FakeNode("n", ready=False), FakeNode("n", registered=False)):
        broker = broker_of(before)
        refused(broker, device_pod("a"))
        assert woken(broker.observe(FakeNode("n").events(), NOW)) == ["a"]


def test_who_was_refused_for_the_sake_of_a_pending_pod_is_woken_when_that_is_over() -> None:
    broker = broker_of(FakeNode("n", count=1))
    broker.filter(device_pod("first"), ["n"], NOW)
    refused(broker, device_pod("a"))
    assert woken(broker.step(NOW + 1.9)) == []
    assert broker.next_deadline() == NOW + 2.0
    assert woken(broker.step(NOW + 2.0)) == ["a"]


def test_who_was_refused_for_the_sake_of_a_pod_that_is_gone_is_woken_at_once() -> None:
    broker = broker_of(FakeNode("n", count=1))
    broker.filter(device_pod("first"), ["n"], NOW)
    refused(broker, device_pod("a"))
    assert woken(broker.observe([PodDeleted("uid-first")], NOW)) == ["a"]


def test_who_was_refused_for_the_sake_of_a_pod_that_went_elsewhere_is_woken() -> None:
    broker = broker_of(FakeNode("n0", count=1), FakeNode("n1", count=1))
    broker.filter(device_pod("first"), ["n0", "n1"], NOW)
    broker.filter(device_pod("second"), ["n0", "n1"], NOW)
    refused(broker, device_pod("a"))
    answer = broker.filter(device_pod("second"), ["n0"], NOW)
    assert answer.nodes == [], "first was offered n0"
    assert woken(answer.effects) == ["a"], "n1 is free again"
    bound = broker.bind("uid-first", "n0", NOW)
    assert binds(bound.effects)
    assert woken(bound.effects) == [], "who was woken and did not ask yet is not woken again"


@pytest.mark.parametrize("question", ["prioritize", "dry run", "preempt", "preferred"])
def test_effects_that_a_query_causes_are_returned_with_the_next_answer(question: str) -> None:
    broker = broker_of(FakeNode("n", count=1))
    broker.filter(device_pod("first"), ["n"], NOW)
    refused(broker, device_pod("a"))
    later = NOW + 5.0
    questions: dict[str, Callable[[], object]] = {
        "prioritize": lambda: broker.prioritize(device_pod("x"), ["n"], later),
        "dry run": lambda: broker.dry_run(device_pod("x"), later),
        "preempt": lambda: broker.preempt(device_pod("x"), {}, later),
        "preferred": lambda: broker.preferred("n", ["n-d0"], (), 1, later),
    }
    questions[question]()
    assert woken(broker.step(later)) == ["a"]
    assert woken(broker.step(later)) == []


def test_a_repeated_bind_returns_pending_effects() -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("m", count=1))
    broker.observe([device_pod("under-way")], NOW)
    broker.bind("uid-under-way", "m", NOW)
    broker.filter(device_pod("first"), ["n"], NOW)
    refused(broker, device_pod("a"))
    assert woken(broker.bind("uid-under-way", "m", NOW + 5.0).effects) == ["a"]


def test_who_was_answered_bound_or_is_gone_is_not_woken() -> None:
    broker, holder = full()
    for name in ("answered", "bound", "gone", "waits"):
        refused(broker, device_pod(name))
    assert woken(broker.observe(FakeNode("m", count=3).events(), NOW)) == ["answered", "bound", "gone"]
    broker.filter(device_pod("answered"), ["m"], NOW)
    place(broker, device_pod("bound"), "m")
    broker.observe([PodDeleted("uid-gone")], NOW)
    broker.filter(device_pod("waits"), ["n"], NOW)  # it was woken for m, and the scheduler names n alone
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["waits"]


def test_a_pod_of_another_namespace_is_woken_when_a_device_changes_hands() -> None:
    broker = broker_of(FakeNode("n", "share", 1))
    mine, theirs = (device_pod(name, 4, MEMORY, namespace=name) for name in ("mine", "theirs"))
    placed = place(broker, mine, "n")
    refused(broker, theirs)
    assert woken(broker.observe([PodDeleted(placed.uid)], NOW)) == ["theirs"]


def test_a_pod_that_can_not_use_the_node_does_not_keep_its_room_from_others() -> None:
    broker, holder = full()
    refused(broker, device_pod("selective", 2, priority=9, cpu="999"))
    refused(broker, device_pod("modest", 2))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["modest"]


def test_room_that_was_meant_for_a_pod_that_is_gone_wakes_the_next() -> None:
    broker, holder = full()
    refused(broker, device_pod("a", 2))
    refused(broker, device_pod("b", 2))
    assert woken(broker.observe([PodDeleted(holder.uid)], NOW)) == ["a"]
    assert woken(broker.observe([PodDeleted("uid-a")], NOW)) == ["b"]


def test_a_clock_set_back_makes_no_pod_wait_longer() -> None:
    broker = broker_of(FakeNode("n", count=1))
    broker.filter(device_pod("first"), ["n"], NOW)
    refused(broker, device_pod("a"))
    assert woken(broker.step(NOW - 3600.0)) == ["a"]
    assert broker.filter(device_pod("a"), ["n"], NOW - 3600.0).nodes == ["n"]


def test_an_expired_offer_that_a_query_noticed_is_an_immediate_deadline() -> None:
    broker = broker_of(FakeNode("a", count=8))
    first, waits = device_pod("first", 8), device_pod("waits", 8)
    broker.filter(first, ["a"], NOW)
    broker.observe([first, waits], NOW)
    broker.filter(waits, ["a"], NOW)
    inspect_nodes(broker, None, NOW + 3)
    assert broker.next_deadline() == 0.0
    assert [effect.uid for effect in broker.step(NOW + 3) if isinstance(effect, Wake)] == ["uid-waits"]
    assert broker.next_deadline() is None


@pytest.mark.parametrize("change", [{"deleting": True}, {"phase": "Failed"}])
def test_a_pod_that_can_never_be_bound_is_not_woken(change: dict[str, Any]) -> None:
    broker = broker_of(FakeNode("a", count=8))
    holder, waits = device_pod("holder", 8), device_pod("waits", 8)
    broker.filter(holder, ["a"], NOW)
    broker.bind(holder.uid, "a", NOW)
    broker.filter(waits, ["a"], NOW)
    broker.observe([replace(waits, **change)], NOW)
    assert [effect for effect in broker.observe([PodDeleted(holder.uid)], NOW) if isinstance(effect, Wake)] == []
