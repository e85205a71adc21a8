"""Pods that are filtered and never observed do not fill the memory, and do not stay in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.unobserved import forget_unobserved
from linkwise.engine.queue.scheduling_queue import MAX_UNOBSERVED, UNOBSERVED_TIME
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.model.views import PodView

NOW = 100.0


def left(broker: Broker) -> list[object]:
    """All that is kept in mind of pods that asked."""
    state = state_of(broker)
    return [*state.queue, *state.queue.unobserved(), *state.queue.shown, *state.cluster.ledger.entries()]


def asked(broker: Broker) -> list[str]:
    return [queued.uid for queued in state_of(broker).queue]


def ask(broker: Broker, pod: PodView, now: float = NOW) -> list[str]:
    return broker.filter(pod, ["n"], now).nodes


def test_asks_of_pods_that_do_not_exist_are_kept_up_to_a_number_and_for_a_while() -> None:
    broker = broker_of(FakeNode("n", count=1))
    for number in range(MAX_UNOBSERVED + 2000):  # the first is offered the node, and all others are refused
        ask(broker, device_pod(f"made-up-{number}", created=-number))
    broker.step(NOW + 2.0)
    state = state_of(broker)
    assert len(state.queue) == len(state.queue.unobserved()) == MAX_UNOBSERVED
    assert state.queue.waiting == 0
    assert next(iter(state.queue)).uid == "uid-made-up-2000"
    assert broker.next_deadline() == NOW + UNOBSERVED_TIME
    broker.step(NOW + UNOBSERVED_TIME)
    assert left(broker) == []
    assert broker.next_deadline() is None


def test_offers_to_pods_that_do_not_exist_are_forgotten_as_well() -> None:
    broker = broker_of(FakeNode("n", count=1))
    for number in range(3000):
        assert ask(broker, device_pod(f"made-up-{number}"), NOW + 3.0 * number) == ["n"]
    assert len(asked(broker)) == UNOBSERVED_TIME // 3
    broker.step(NOW + 9000.0 + UNOBSERVED_TIME)
    assert left(broker) == []


def test_who_asks_again_is_kept_for_longer() -> None:
    broker = broker_of(FakeNode("n", count=1))
    ask(broker, device_pod("a"))
    ask(broker, device_pod("b"))
    ask(broker, device_pod("a"), NOW + 50.0)
    broker.step(NOW + UNOBSERVED_TIME)
    assert asked(broker) == ["uid-a"]


def test_what_a_pod_says_of_its_age_does_not_keep_it() -> None:
    broker = broker_of(FakeNode("n", count=1))
    ask(broker, device_pod("made-up", created=1e12))
    broker.step(NOW + UNOBSERVED_TIME)
    assert left(broker) == []


def test_who_is_seen_is_not_forgotten() -> None:
    broker, pod = broker_of(FakeNode("n", count=1)), device_pod("a", 2)
    ask(broker, pod)
    broker.observe([pod], NOW + 1.0)
    broker.step(NOW + 10 * UNOBSERVED_TIME)
    assert asked(broker) == ["uid-a"]
    assert [queued.uid for queued in state_of(broker).queue.unschedulable()] == ["uid-a"]
    assert broker.next_deadline() is None


def test_who_is_seen_or_promised_something_is_kept_and_of_the_others_who_asked_last() -> None:
    broker, pods = broker_of(FakeNode("n", count=2)), [device_pod(f"p{n}", created=-n) for n in range(8)]
    broker.observe(pods[:1], 0.0)
    for pod in pods:
        ask(broker, pod)
    assert broker.bind(pods[1].uid, "n", NOW).error == ""
    forget_unobserved(state_of(broker), NOW, most=3)
    kept = [pods[number].uid for number in (0, 1, 5, 6, 7)]
    assert sorted(asked(broker)) == kept
    assert {queued.uid for queued in state_of(broker).queue.unschedulable()} <= set(kept)


def test_who_was_promised_something_is_forgotten_a_while_after_the_promise_is_over() -> None:
    broker, pod = broker_of(FakeNode("n", count=1)), device_pod("a")
    ask(broker, pod)
    (bound,) = binds(broker.bind(pod.uid, "n", NOW).effects)
    broker.step(NOW + UNOBSERVED_TIME)
    assert asked(broker) == ["uid-a"]
    broker.outcome(bound, "refused", NOW + UNOBSERVED_TIME)
    broker.step(NOW + 2 * UNOBSERVED_TIME)
    assert left(broker) == []


def test_a_clock_that_is_set_back_keeps_no_pod_longer_and_loses_none() -> None:
    broker = broker_of(FakeNode("n", count=1))
    ask(broker, device_pod("a"), NOW + 3600.0)
    broker.step(NOW)
    assert asked(broker) == ["uid-a"]
    assert broker.next_deadline() == NOW + UNOBSERVED_TIME
    broker.step(NOW + UNOBSERVED_TIME)
    assert left(broker) == []


def test_a_pod_that_is_forgotten_and_real_after_all_is_bound_when_it_is_seen() -> None:
    broker, pod = broker_of(FakeNode("n", count=2)), device_pod("real")
    ask(broker, pod)
    broker.step(NOW + UNOBSERVED_TIME)
    assert "not been observed yet" in broker.bind(pod.uid, "n", NOW + UNOBSERVED_TIME).error
    broker.observe([pod], NOW + UNOBSERVED_TIME)
    assert broker.bind(pod.uid, "n", NOW + UNOBSERVED_TIME).error == ""


@pytest.mark.parametrize("shown", [False, True])
def test_a_snapshot_knows_since_when_pods_are_not_seen(*, shown: bool) -> None:
    broker, pods = broker_of(FakeNode("n", count=1)), [device_pod(name, 2) for name in ("b", "a")]
    for second, pod in enumerate(pods):
        ask(broker, pod, NOW + second)
    if shown:
        broker.see(pods[:1])
    other = Broker.restore(broker.snapshot(NOW + 1.0))
    assert other.snapshot(NOW + 1.0) == broker.snapshot(NOW + 1.0)
    room = FakeNode("n", count=2).events()
    assert other.observe(room, NOW + 1.0) == broker.observe(room, NOW + 1.0)
    for each in (broker, other):
        each.step(NOW + UNOBSERVED_TIME)
        assert sorted(asked(each)) == (["uid-a", "uid-b"] if shown else ["uid-a"])
