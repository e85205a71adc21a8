"""Pods that ask and that nobody ever sees do not fill the memory."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.unseen import UNSEEN, forget_unseen
from linkwise.testing.boxes import Box, broker_of, device_pod

LABELS = {"gputopology.scheduling.koordinator.sh/name": "g", "gputopology.scheduling.koordinator.sh/replica": "9"}


def test_asks_of_pods_that_do_not_exist_are_kept_up_to_a_number() -> None:
    broker = broker_of(Box("n", count=1))
    made_up = [device_pod(f"made-up-{number}") for number in range(UNSEEN + 10)]
    broker.state.asked |= {pod.uid: pod for pod in made_up}
    broker.filter(device_pod("one-more"), ["n"], 1.0)
    assert len(broker.state.asked) <= UNSEEN


def test_who_is_seen_or_promised_something_is_kept_and_of_the_others_the_newest() -> None:
    broker, pods = broker_of(Box("n", count=2)), [replace(device_pod(f"p{n}"), created=float(n)) for n in range(8)]
    broker.observe(pods[:1], 0.0)
    for pod in pods:
        broker.filter(pod, ["n"], 1.0)
    assert broker.bind(pods[1].uid, "n", 1.0).error == ""
    forget_unseen(broker.state, most=4)
    kept = [pods[number].uid for number in (0, 1, 6, 7)]
    assert sorted(broker.state.asked) == kept
    assert {refused.pod for refused in broker.state.waiting.pods()} <= set(kept)


def test_the_few_that_are_left_when_most_were_promised_something_are_kept() -> None:
    broker, pods = broker_of(Box("n", count=8)), [device_pod(f"p{n}") for n in range(9)]
    for pod in pods:
        broker.filter(pod, ["n"], 1.0)
    for pod in pods[:6]:
        assert broker.bind(pod.uid, "n", 1.0).error == ""
    forget_unseen(broker.state, most=8)
    assert len(broker.state.asked) == 9


def test_made_up_members_leave_their_group() -> None:
    broker = broker_of(Box("n", count=2))
    for number in range(4):
        broker.filter(replace(device_pod(f"m{number}"), labels=LABELS, created=float(number)), ["n"], 1.0)
    forget_unseen(broker.state, most=2)
    assert [uid for uid in (f"uid-m{n}" for n in range(4)) if broker.state.groups.key_of(uid)] == ["uid-m3"]


def test_a_pod_that_is_forgotten_and_real_after_all_is_bound_when_it_is_seen() -> None:
    broker, pod = broker_of(Box("n", count=2)), device_pod("real")
    broker.filter(pod, ["n"], 1.0)
    forget_unseen(broker.state, most=0)
    assert "not seen yet" in broker.bind(pod.uid, "n", 1.0).error
    broker.observe([pod], 2.0)
    assert broker.bind(pod.uid, "n", 2.0).error == ""
