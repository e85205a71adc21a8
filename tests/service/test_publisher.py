"""Publisher of conditions: which pods come first, how often, and at what cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Condition, Event
from linkwise.broker.watch_events import PodDeleted
from linkwise.config.settings import ExplainSettings
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.model.views import ContainerView, NodeView, PodCondition
from linkwise.serve.explanations.explainer import Explainer
from linkwise.serve.explanations.publisher import Publisher
from linkwise.serve.gauges import Gauges
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.testing.recorder import Recorder
from support.fakes.scripted_api import FakeTime

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import PodView

SETTINGS = ExplainSettings(schedulers=("linkwise",), delay=3.0, interval=10.0, rate=1.0, burst=2)


class Harness:
    """A publisher of a broker with a full node, on a clock that the test moves."""

    def __init__(self, settings: ExplainSettings = SETTINGS, broker: Broker | None = None) -> None:
        self.time = FakeTime()
        self.broker = broker or broker_of(FakeNode("a", count=4))
        self.effects: list[Effect] = []
        explainer = Explainer(self.broker, lambda: self.time.seconds)
        self.publisher = Publisher(explainer, self.effects.extend, settings, self.time.timing)

    def see(self, *events: WatchEvent) -> None:
        """Deliver watch events."""
        self.publisher.observe(events)
        self.broker.observe(events, self.time.seconds)

    def after(self, seconds: float) -> list[str]:
        """The pods whose condition is published in a round after this many seconds."""
        self.time.seconds += seconds
        del self.effects[:]
        asyncio.run(self.publisher.round())
        return [effect.name for effect in self.effects if isinstance(effect, Condition)]

    def shown(self, pod: PodView) -> PodView:
        """The pod as the watch delivers it, with the condition that was published last."""
        last = next(each for each in self.effects if isinstance(each, Condition) and each.uid == pod.uid)
        shown = replace(pod, condition=last.condition, version=pod.version + 1)
        self.see(shown)
        return shown


def test_nothing_is_published_before_the_delay_is_over() -> None:
    harness = Harness()
    harness.see(device_pod("p", 8))
    assert harness.after(2.9) == []
    assert harness.after(0.1) == ["p"]
    assert [type(effect) for effect in harness.effects] == [Condition, Event]


def test_a_pod_with_a_plan_gets_a_condition_only_if_its_scheduler_does_not_carry_it_out() -> None:
    harness = Harness()
    harness.see(replace(device_pod("p", 8), annotations={GROUP_PLAN: "{}"}))
    assert harness.after(3.0) == []
    assert harness.after(29.9) == []
    assert harness.after(0.1) == ["p"]


def test_a_pod_that_is_bound_before_gets_nothing() -> None:
    harness = Harness()
    pod = device_pod("p", 2)
    harness.see(pod)
    harness.see(place(harness.broker, pod, "a"))
    assert harness.after(10.0) == []


def test_pods_of_higher_priority_and_older_ones_are_first_when_the_rate_is_used_up() -> None:
    harness = Harness()
    harness.see(
        device_pod("young", 8, created=9.0),
        device_pod("old", 8, created=1.0),
        device_pod("urgent", 8, created=9.0, priority=5),
        device_pod("older", 8, created=0.5),
    )
    assert harness.after(3.0) == ["urgent", "older"]
    assert harness.after(1.0) == ["old"]
    assert harness.after(1.0) == ["young"]


def test_a_pod_is_explained_again_only_after_the_interval() -> None:
    harness = Harness()
    harness.see(device_pod("p", 2, cpu="1000"))
    harness.after(3.0)
    explained = harness.publisher.explained
    harness.after(9.0)
    assert harness.publisher.explained == explained
    harness.after(1.0)
    assert harness.publisher.explained == explained + 1


def test_fifty_equal_pods_cost_one_explanation() -> None:
    harness = Harness(replace(SETTINGS, burst=100))
    main = device_pod("p", 8).containers
    harness.see(*(replace(device_pod(f"p{number}", 8), containers=main) for number in range(50)))
    assert len(harness.after(3.0)) == 50
    assert harness.publisher.explained == 1


def test_the_condition_becomes_true_when_the_pod_is_bound() -> None:
    harness = Harness()
    holder = place(harness.broker, device_pod("holder", 4), "a")
    pod = device_pod("p", 4)
    harness.see(pod)
    harness.after(3.0)
    pod = harness.shown(pod)
    harness.see(PodDeleted(holder.uid))
    harness.see(replace(place(harness.broker, pod, "a"), condition=pod.condition))
    assert harness.after(1.0) == ["p"]
    (condition,) = harness.effects
    assert isinstance(condition, Condition)
    assert (condition.condition.status, condition.condition.reason) == (True, "Placed")
    assert harness.after(10.0) == []


def test_another_reason_is_published_and_counted() -> None:
    harness = Harness()
    pod = device_pod("p", 4)
    place(harness.broker, device_pod("holder", 2), "a")
    harness.see(pod)
    harness.after(3.0)
    assert harness.publisher.codes() == {"NoRoom": 1}
    harness.shown(pod)
    harness.see(FakeNode("a", count=4, cordoned=True, version=2).view())
    assert harness.after(10.0) == ["p"]
    assert harness.publisher.codes() == {"Excluded": 1}


def test_a_bound_pod_with_an_old_condition_gets_a_new_one_after_a_restart() -> None:
    harness = Harness()
    bound = place(harness.broker, device_pod("p", 1), "a")
    harness.see(replace(bound, condition=PodCondition(status=False, reason="NoRoom", message="", since=1.0)))
    assert harness.after(0.5) == ["p"]


def test_pods_of_other_schedulers_are_left_alone() -> None:
    harness = Harness()
    harness.see(replace(device_pod("p", 8), scheduler="volcano"))
    assert harness.after(100.0) == []


def test_a_deleted_pod_is_forgotten() -> None:
    harness = Harness()
    harness.see(device_pod("p", 8))
    harness.after(3.0)
    harness.see(PodDeleted("uid-p"))
    assert harness.after(100.0) == []
    assert harness.publisher.codes() == {}


def test_pending_pods_are_counted_by_code() -> None:
    time = FakeTime()
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("holder", 2), "a")
    service = Service(broker, Recorder(), Counting(), clock=lambda: time.seconds, explain=SETTINGS, timing=time.timing)
    service.synced = True
    service.observe([device_pod("p", 8), device_pod("q", 3)])
    time.seconds += 3.0
    assert service.publisher is not None
    asyncio.run(service.publisher.round())
    (family,) = [each for each in Gauges(service, dict, dict).collect() if each.name == "linkwise_pending_pods"]
    assert {sample.labels["code"]: sample.value for sample in family.samples if sample.value} == {
        "NoTopology": 1,
        "NoRoom": 1,
    }


def test_a_resource_that_no_node_provides_is_reported_for_pods_of_our_scheduler_only() -> None:
    harness = Harness()
    for name, scheduler in (("ours", "linkwise"), ("other", "default-scheduler")):
        containers = (ContainerView("main", limits={"nvidia.com/tpu-v5": "1"}),)
        harness.see(replace(device_pod(name, 1), containers=containers, scheduler=scheduler))
    assert harness.after(3.0) == ["ours"]
    (condition,) = [effect.condition for effect in harness.effects if isinstance(effect, Condition)]
    assert condition.reason == "Invalid"
    assert "no node provides nvidia.com/tpu-v5" in condition.message


def test_a_pod_with_a_resource_of_another_plugin_gets_no_condition() -> None:
    harness = Harness()
    harness.see(NodeView("b", allocatable={"example.com/nic": "4"}))
    harness.see(replace(device_pod("p", 1), containers=(ContainerView("main", limits={"example.com/nic": "1"}),)))
    assert harness.after(3.0) == []
