"""Members refused because their group was incomplete get an event when it is complete and does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import PodDeleted
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, woken_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

NODES = ["n0", "n1"]
"""two devices each"""
LATER = 20.0
"""when a refusal is not remembered any more"""


def notices(effects: Iterable[Effect]) -> dict[str, str]:
    """The events that members get about their group, by name."""
    return {
        effect.name: effect.sentence
        for effect in effects
        if isinstance(effect, Event) and effect.reason == "GroupDoesNotFit"
    }


def gang(devices: int, names: str = "abc", name: str = "g", bundle: str = "") -> list[PodView]:
    return in_gang(*(device_pod(each, devices) for each in names), least=len(names), name=name, bundle=bundle)


def tried(broker: Broker, *pods: PodView, now: float = 0.0) -> dict[str, str]:
    """Create and try the pods one after the other; the events that other pods got."""
    said: dict[str, str] = {}
    for pod in pods:
        broker.observe([pod], now)
        answer = broker.filter(pod, NODES, now)
        assert answer.nodes == []
        said |= notices(answer.effects)
    return said


def cluster(settings: GroupSettings | None = None) -> Broker:
    return broker_of(*map(FakeNode, NODES), settings=PlacingSettings(group=settings or GroupSettings()))


def test_members_refused_as_incomplete_get_an_event_when_the_gang_does_not_fit() -> None:
    sentence = (
        "its group does not fit: the 3 pending members of the pod's gang would not fit together even on empty nodes; "
        "for remedies, run: linkwise explain group/default/g"
    )
    assert tried(cluster(), *gang(2)) == {"a": sentence, "b": sentence}


def test_members_of_a_gang_are_notified_once() -> None:
    broker, pods = cluster(), gang(2)
    tried(broker, *pods)
    assert tried(broker, *pods, now=1.0) == tried(broker, *pods, now=LATER) == {}


def test_the_pod_being_filtered_gets_the_answer_and_no_event() -> None:
    broker, (first, *others, last) = cluster(), gang(2)
    tried(broker, first, *others)
    broker.observe([last], 0.0)
    assert set(tried(broker, first)) == {"b"}
    assert tried(broker, last) == {}


def test_a_gang_that_becomes_incomplete_again_is_notified_again() -> None:
    broker, pods = cluster(), gang(2)
    tried(broker, *pods)
    broker.observe([PodDeleted("uid-c")], LATER)
    tried(broker, pods[0], now=LATER)
    again = replace(pods[2], uid="uid-again", name="again")
    assert set(tried(broker, again, now=LATER)) == {"a"}


def test_members_of_a_gang_that_fits_are_woken_without_a_notice() -> None:
    broker, (first, *others, last) = cluster(), gang(1)
    tried(broker, first, *others)
    broker.observe([last], 0.0)
    answer = broker.filter(last, NODES, 0.0)
    assert (woken_set(answer.effects), notices(answer.effects)) == ({"a", "b"}, {})


def test_members_whose_plan_takes_longer_are_woken_only_if_it_succeeds() -> None:
    for devices, woken in ((1, {"a", "b", "c"}), (2, set[str]())):
        broker, pods = cluster(GroupSettings(steps=1)), gang(devices)
        assert tried(broker, *pods) == {}
        effects = broker.step(1.0, 1000)
        assert (woken_set(effects), set(notices(effects))) == (woken, set("abc") - woken)


def test_gangs_that_start_together_are_notified_together() -> None:
    one, other = gang(2, "ab", bundle="g h"), gang(2, "cd", name="h", bundle="g h")
    assert set(tried(cluster(), *one, *other)) == {"a", "b", "c"}


def test_a_broker_restored_from_a_snapshot_reports_it_too() -> None:
    broker, (*early, last) = cluster(), gang(2)
    tried(broker, *early)
    assert set(tried(Broker.restore(broker.snapshot(0.0)), last)) == {"a", "b"}


def test_a_thousand_members_are_notified_once_each() -> None:
    pods = in_gang(*(device_pod(f"p{number}") for number in range(1000)), least=1000)
    broker = cluster()
    broker.observe(pods[:-1], 0.0)
    for pod in pods[:-1]:
        broker.filter(pod, NODES, 0.0)
    assert len(tried(broker, pods[-1])) == 999
    assert not any(notices(broker.filter(pod, NODES, 0.0).effects) for pod in pods)


def group_words(*pods: PodView) -> dict[str, str]:
    effects = cluster().observe(pods, 0.0)
    return {
        effect.name: effect.sentence
        for effect in effects
        if isinstance(effect, Event) and effect.reason == "GroupWords"
    }


def test_members_that_contradict_the_oldest_one_get_an_event() -> None:
    a, b, c = in_gang(*(device_pod(name, 1) for name in "abc"), least=2)
    other = {**b.annotations, "gang.scheduling.koordinator.sh/min-available": "3"}
    assert group_words(a, replace(b, annotations=other), c) == {
        "b": "it declares a minimum of 3, unlike a, the oldest member of its group, whose values count; "
        "use the same values on all members"
    }


def test_members_may_leave_values_to_the_oldest() -> None:
    first, second = in_gang(device_pod("a", 1), device_pod("b", 1), least=2)
    key = "gang.scheduling.koordinator.sh/waiting-time"
    assert group_words(replace(first, annotations={**first.annotations, key: "90s"}), second) == {}
    differing = replace(second, annotations={**second.annotations, key: "90s"})
    assert "a waiting time of 90s" in group_words(first, differing)["b"]


def test_an_unknown_policy_makes_an_event() -> None:
    pod = replace(device_pod("a", 1), annotations={"linkwise.dev/policy": "fastest"})
    broker = cluster()
    (event,) = broker.observe([pod], 0.0)
    assert isinstance(event, Event)
    assert (event.reason, event.uid) == ("PolicyInvalid", pod.uid)
    assert event.sentence.startswith("policy 'fastest' is not registered; use one of ")
    assert broker.observe([pod], 1.0) == ()


def test_a_group_of_one_has_one_member() -> None:
    labels = {f"gputopology.scheduling.koordinator.sh/{key}": value for key, value in (("name", "g"), ("replica", "1"))}
    pods = [replace(device_pod(name, 1), labels=labels) for name in "ab"]
    (event,) = (effect for effect in cluster().observe(pods, 0.0) if isinstance(effect, Event))
    assert event.sentence == "its group already has 1 member; it is scheduled separately"
