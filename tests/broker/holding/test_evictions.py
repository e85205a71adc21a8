"""Pods of lower priority are evicted for groups, and for pods that the scheduler's own preemption can't help."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event, Evict, Wake
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.dialects.kubernetes.objects import BUDGET
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from linkwise.model.views import Owner
from linkwise.testing.cluster import ASCEND, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, in_gang, place
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import PodView

ON = PlacingSettings(preemption=PreemptionSettings(evict=True, hold=100.0))
OFF = PlacingSettings(preemption=PreemptionSettings(evict=False))
NODES = ["n0", "n1"]


def two_full_nodes(settings: PlacingSettings = ON, **low: Any) -> Broker:  # noqa: ANN401 - as `replace`
    """Two nodes of eight devices, each with a pod of low priority that has them all."""
    broker = broker_of(*(FakeNode(name, count=8) for name in NODES), settings=settings)
    for name in NODES:
        place(broker, replace(device_pod(f"low-{name}", 8), **low), name)
    return broker


def high_gang(size: int = 8, members: int = 2, **more: Any) -> list[PodView]:  # noqa: ANN401 - same
    pods = (replace(device_pod(f"high{number}", size, priority=9), **more) for number in range(members))
    return in_gang(*pods, least=members, name="high")


def tried(broker: Broker, pods: list[PodView], now: float = 1.0, nodes: Iterable[str] = NODES) -> list[Any]:
    """The members are observed and refused; what the service does in the seconds after."""
    broker.observe(pods, now)
    for pod in pods:
        broker.filter(pod, list(nodes), now)
    return [effect for later in (0.1, 2.0, 4.1) for effect in broker.step(now + later)]


def evicted(effects: Iterable[Any]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Evict)]


def gone(broker: Broker, *names: str, now: float) -> list[Any]:
    return [effect for name in names for effect in broker.observe([PodDeleted(f"uid-{name}")], now)]


@pytest.mark.rule("001.gang")
def test_a_gang_gets_the_devices_of_pods_of_lower_priority_on_several_nodes() -> None:
    broker, gang = two_full_nodes(), high_gang()
    effects = tried(broker, gang)
    assert evicted(effects) == ["low-n0", "low-n1"]
    woken = gone(broker, "low-n0", "low-n1", now=10.0)
    assert {effect.name for effect in woken if isinstance(effect, Wake)} == {"high0", "high1"}
    assert sorted(name for pod in gang for name in broker.filter(pod, NODES, 11.0).nodes) == NODES


def test_a_gang_is_planned_when_the_scheduler_preempts_for_a_member() -> None:
    """Where devices are short in number, it never calls filter."""
    broker, gang = two_full_nodes(), high_gang()
    broker.observe(gang, 1.0)
    assert broker.preempt(gang[0], {"n0": ["uid-low-n0"]}, 1.0) == {}
    assert evicted(effect for now in (1.1, 3.2) for effect in broker.step(now, 100)) == ["low-n0", "low-n1"]
    woken = gone(broker, "low-n0", "low-n1", now=10.0)
    assert [effect.name for effect in woken if isinstance(effect, Wake)] == ["high0"]
    assert sorted(name for pod in gang for name in broker.filter(pod, NODES, 11.0).nodes) == NODES


def test_a_gang_whose_members_are_observed_after_the_scheduler_preempts_for_them_is_planned_then() -> None:
    broker, gang = two_full_nodes(), high_gang()
    for pod in gang:
        assert broker.preempt(pod, {"n0": ["uid-low-n0"]}, 1.0) == {}
    broker.observe(gang, 1.1)
    assert evicted(effect for now in (1.2, 3.3) for effect in broker.step(now, 100)) == ["low-n0", "low-n1"]


def test_both_sides_get_an_event() -> None:
    events = [each for each in tried(two_full_nodes(), high_gang()) if isinstance(each, Event)]
    sentences = {(event.reason, event.name): event.sentence for event in events}
    assert sentences["Preempted", "low-n0"].startswith("preempted by group default/high")
    expected = "evicting 2 pods of lower priority: default/low-n0 on node n0, default/low-n1 on node n1"
    assert sentences["Preempting", "high0"] == sentences["Preempting", "high1"] == expected


def test_no_pod_is_evicted_if_that_is_turned_off_and_explanations_say_so() -> None:
    broker = two_full_nodes(OFF)
    assert evicted(tried(broker, high_gang())) == []
    assert "because placing.preemption.evict is off" in explained_group(broker)


def test_pods_are_evicted_by_default() -> None:
    assert evicted(tried(two_full_nodes(PlacingSettings()), high_gang())) == ["low-n0", "low-n1"]


def test_explanations_say_why_no_pod_is_evicted_for_a_group() -> None:
    broker = two_full_nodes()
    tried(broker, high_gang(preempts=False))
    assert "its preemptionPolicy is Never" in explained_group(broker)
    broker = two_full_nodes(owner=Owner("DaemonSet", "d", "u"))
    tried(broker, high_gang())
    assert "evicting pods of lower priority does not help it" in explained_group(broker)
    broker = two_full_nodes(priority=9)
    tried(broker, high_gang())
    assert "evict" not in explained_group(broker)


def explained_group(broker: Broker) -> str:
    group = explain_group(broker, "uid-high0", 6.0)
    assert group is not None
    return "\n".join(explanation_lines(group))


@pytest.mark.parametrize("change", [{"preempts": False}, {"priority": 0}], ids=["Never", "equal"])
def test_no_pod_is_evicted_for_a_gang_that_may_not_preempt(change: dict[str, Any]) -> None:
    assert evicted(tried(two_full_nodes(), high_gang(**change))) == []


@pytest.mark.parametrize("low", [{"owner": Owner("DaemonSet", "d", "u")}, {"priority": 10}], ids=["daemon", "higher"])
def test_pods_that_come_back_or_have_a_higher_priority_stay(low: dict[str, Any]) -> None:
    assert evicted(tried(two_full_nodes(**low), high_gang())) == []


def test_no_pod_is_evicted_for_a_gang_that_would_not_fit_all_the_same() -> None:
    assert evicted(tried(two_full_nodes(), high_gang(members=3))) == []


def test_no_more_pods_are_evicted_than_must_go() -> None:
    broker = broker_of(*(FakeNode(name, count=8) for name in NODES), settings=ON)
    for name, size in (("a", 4), ("b", 2), ("c", 1), ("d", 1)):
        for node in NODES:
            place(broker, device_pod(f"{name}-{node}", size), node)
    assert len(evicted(tried(broker, high_gang(4)))) == 2


def test_the_lowest_priority_gives_way_first() -> None:
    broker = broker_of(*(FakeNode(f"n{number}", count=8) for number in range(4)), settings=ON)
    for number in range(4):
        place(broker, device_pod(f"low-n{number}", 8, priority=number % 2), f"n{number}")
    assert evicted(tried(broker, high_gang(), nodes=broker.nodes)) == ["low-n0", "low-n2"]


def test_a_gang_among_many_small_pods_takes_as_few_as_fit() -> None:
    broker = broker_of(*(FakeNode(f"n{number}", count=8) for number in range(4)), settings=ON)
    for node in range(4):
        for number in range(8):
            place(broker, device_pod(f"p{node}-{number}", 1, priority=1 + (node in {1, 2})), f"n{node}")
    names = evicted(tried(broker, high_gang(), nodes=broker.nodes))
    assert {name[:2] for name in names} == {"p0", "p3"}
    assert len(names) == 16


def test_a_gang_is_evicted_whole_or_not_at_all() -> None:
    for priority, expected in ((0, ["low0", "low1"]), (9, ["single"])):
        broker = broker_of(*(FakeNode(name, count=8) for name in (*NODES, "n2")), settings=ON)
        low = in_gang(device_pod("low0", 8), device_pod("low1", 8, priority=priority), least=2, name="low")
        broker.observe([replace(pod, node=node) for pod, node in zip(low, NODES, strict=True)], 0.0)
        place(broker, device_pod("single", 8, priority=1), "n2")
        high = in_gang(device_pod("high0", 8, priority=9), least=1, name="high")
        assert sorted(evicted(tried(broker, high, nodes=broker.nodes))) == expected


def test_pods_that_a_disruption_budget_protects_stay() -> None:
    broker = two_full_nodes(labels={"app": "db"})
    spec = {"selector": {"matchLabels": {"app": "db"}}}
    budget = {"spec": spec, "status": {"disruptionsAllowed": 1}}
    broker.observe([ClusterObject(BUDGET, "default/b", budget)], 0.5)
    assert evicted(tried(broker, high_gang())) == []
    broker.observe([ClusterObject(BUDGET, "default/b", {**budget, "status": {"disruptionsAllowed": 2}})], 30.0)
    assert evicted(effect for later in (31.0, 33.0) for effect in broker.step(later)) == ["low-n0", "low-n1"]


def test_the_room_is_held_while_the_victims_terminate() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang)
    broker.observe([replace(broker.pods["uid-low-n1"], deleting=True, version=9)], 6.0)
    gone(broker, "low-n0", now=7.0)
    thief = device_pod("thief", 1, priority=5)
    broker.observe([thief], 8.0)
    assert broker.filter(thief, NODES, 8.0).nodes == []
    assert broker.filter(gang[0], NODES, 8.0).nodes == []
    gone(broker, "low-n1", now=9.0)
    assert [len(broker.filter(pod, NODES, 10.0).nodes) for pod in gang] == [1, 1]


def test_an_explanation_counts_the_victims_that_have_not_terminated() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang)
    waits = "it waits for {} of lower priority to terminate"
    for terminated, left in (("", "2 pods"), ("low-n0", "1 pod")):
        gone(broker, *filter(None, [terminated]), now=7.0)
        report = explain_pod(broker, gang[0].uid, 8.0)
        assert report is not None
        assert waits.format(left) in "\n".join(explanation_lines(report))


def test_devices_that_are_free_already_are_held_too() -> None:
    broker = broker_of(FakeNode("n0", count=8), FakeNode("n1", count=8), settings=ON)
    place(broker, device_pod("low", 8), "n0")
    tried(broker, high_gang())
    thief = device_pod("thief", 1, priority=5)
    broker.observe([thief], 8.0)
    assert broker.filter(thief, NODES, 8.0).nodes == []


def test_what_is_held_is_released_when_the_victims_do_not_terminate_in_time() -> None:
    broker = broker_of(FakeNode("n0", count=8), FakeNode("n1", count=8), settings=ON)
    place(broker, device_pod("low", 8), "n0")
    tried(broker, high_gang())
    broker.observe([PodDeleted("uid-high0"), PodDeleted("uid-high1")], 50.0)
    thief = device_pod("thief", 8)
    broker.observe([thief], 51.0)
    assert broker.filter(thief, NODES, 51.0).nodes == ["n1"]


def test_a_deadline_releases_what_is_held_and_the_gang_is_looked_into_again() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang)
    effects = [effect for now in (102.0, 104.0, 120.0, 122.0) for effect in broker.step(now)]
    assert evicted(effects) == ["low-n0", "low-n1"]


def test_a_refused_eviction_leads_to_other_victims() -> None:
    broker = broker_of(*(FakeNode(f"n{number}", count=8) for number in range(3)), settings=ON)
    for number in range(3):
        place(broker, device_pod(f"low-n{number}", 8), f"n{number}")
    assert evicted(tried(broker, high_gang(), nodes=broker.nodes)) == ["low-n0", "low-n1"]
    assert [broker.evictable("uid-low-n0") for _ in range(4)] == [0, 0, 0, None]
    refused = broker.not_evicted("uid-low-n0", 10.0)
    assert {event.reason for event in refused if isinstance(event, Event)} == {"PreemptionRefused"}
    assert evicted(broker.step(10.1)) == ["low-n1", "low-n2"]


def test_victims_that_are_gone_or_terminating_are_not_evicted_again() -> None:
    broker = two_full_nodes()
    tried(broker, high_gang())
    broker.observe([replace(broker.pods["uid-low-n0"], deleting=True, version=9)], 6.0)
    assert broker.evictable("uid-low-n0") is None
    broker.not_evicted("uid-low-n0", 6.0)
    assert evicted(broker.step(20.0)) == []


def test_no_pod_is_evicted_for_a_gang_that_fits_by_now() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang)
    broker.observe([event for name in ("n8", "n9") for event in FakeNode(name, count=8).events()], 6.0)
    for _ in range(5):
        broker.step(7.0, 100)
    assert broker.evictable("uid-low-n0") is None
    assert len(broker.plans()) == 1


def test_terminating_pods_are_waited_for_after_a_restart() -> None:
    first, gang = two_full_nodes(), high_gang()
    tried(first, gang)
    broker = broker_of(*(FakeNode(name, count=8) for name in NODES), settings=ON)
    broker.observe([replace(first.pods[f"uid-low-{name}"], deleting=True, version=9) for name in NODES], 6.0)
    effects = tried(broker, gang, 7.0)
    assert evicted(effects) == []
    gone(broker, "low-n0", "low-n1", now=20.0)
    assert [len(broker.filter(pod, NODES, 21.0).nodes) for pod in gang] == [1, 1]


def test_a_snapshot_keeps_the_evictions_and_what_is_held() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang)
    gone(broker, "low-n0", now=6.0)
    copy = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(6.0)), BrokerState))
    assert copy.snapshot(6.0) == broker.snapshot(6.0)
    assert copy.evictable("uid-low-n1") == 0
    gone(copy, "low-n1", now=7.0)
    assert [len(copy.filter(pod, NODES, 8.0).nodes) for pod in gang] == [1, 1]


def scattered(**priorities: int) -> Broker:
    """Nodes of two rings with a free chip in each, by default one; the others have a pod of low priority each."""
    broker = broker_of(settings=ON)
    for node, priority in (priorities or {"n0": 0}).items():
        ring, names = FakeNode(node, "ring", 8), {chip: f"p{node[1:]}{chip}" for chip in (1, 2, 3, 5, 6, 7)}
        reports = {f"uid-{name}": ring.devices(chip) for chip, name in names.items()}
        broker.observe(replace(ring, allocations=reports).events(), 0.0)
        pods = (device_pod(name, 1, ASCEND, priority=priority) for name in names.values())
        broker.observe([replace(pod, node=node, phase="Running") for pod in pods], 0.0)
    return broker


@pytest.mark.rule("003.ring")
def test_a_pod_whose_devices_are_free_in_number_but_in_two_rings_gets_two_in_one() -> None:
    broker, pod = scattered(), device_pod("high", 2, ASCEND, priority=9)
    assert evicted(tried(broker, [pod], nodes=["n0"])) == ["p01"]
    ring = FakeNode("n0", "ring", 8)
    listing = replace(ring, allocations={f"uid-p0{chip}": ring.devices(chip) for chip in (2, 3, 5, 6, 7)})
    thief = device_pod("thief", 1, ASCEND)
    broker.observe([PodDeleted("uid-p01"), listing.inventory_object(), thief], 8.0)
    assert broker.filter(thief, ["n0"], 8.5).nodes == ["n0"]  # in the other ring
    assert broker.filter(pod, ["n0"], 9.0).nodes == ["n0"]


@pytest.mark.parametrize(("priorities", "victim"), [({"n0": 1, "n1": 2}, "p01"), ({"n0": 2, "n1": 1}, "p11")])
def test_a_pod_gets_the_node_where_the_lowest_priority_gives_way(priorities: dict[str, int], victim: str) -> None:
    pod = device_pod("high", 2, ASCEND, priority=9)
    assert evicted(tried(scattered(**priorities), [pod])) == [victim]


def test_memory_is_freed_on_one_card() -> None:
    broker = broker_of(FakeNode("n0", "share", 2, 12), settings=ON)
    for name in "ab":
        place(broker, device_pod(name, 8, MEMORY), "n0")
    pod = device_pod("high", 8, MEMORY, priority=9)
    assert len(evicted(tried(broker, [pod], nodes=["n0"]))) == 1
    (victim,) = (uid for uid in ("uid-a", "uid-b") if broker.evictable(uid) == 0)
    thief = device_pod("thief", 6, MEMORY)
    broker.observe([PodDeleted(victim), thief], 8.0)
    assert broker.filter(thief, ["n0"], 8.0).nodes == []
    assert broker.filter(pod, ["n0"], 9.0).nodes == ["n0"]


def test_the_scheduler_does_not_evict_for_a_pod_that_the_service_evicts_for() -> None:
    broker, pod = scattered(), device_pod("high", 2, ASCEND, priority=9)
    tried(broker, [pod], nodes=["n0"])
    assert broker.preempt(pod, {"n0": ["uid-p07"]}, 7.0) == {}


def test_a_pod_that_the_scheduler_nominated_is_left_to_it() -> None:
    pod = replace(device_pod("high", 2, ASCEND, priority=9), nominated="n0")
    assert evicted(tried(scattered(), [pod], nodes=["n0"])) == []


def test_the_same_pods_are_not_evicted_for_two_preemptors() -> None:
    broker = two_full_nodes()
    broker.observe([*FakeNode("n2", count=8).events()], 0.0)
    place(broker, device_pod("low-n2", 8), "n2")
    first, second = (in_gang(device_pod(name, 8, priority=9), least=1, name=name) for name in ("x", "y"))
    names = [*evicted(tried(broker, first, nodes=broker.nodes)), *evicted(tried(broker, second, 9.0, broker.nodes))]
    assert len(names) == len(set(names)) == 2


def test_fifty_gangs_at_once_evict_no_pod_twice_and_none_in_vain() -> None:
    broker = broker_of(*(FakeNode(f"n{number}", count=8) for number in range(10)), settings=ON)
    for number in range(10):
        place(broker, device_pod(f"low-n{number}", 8), f"n{number}")
    gangs = [in_gang(device_pod(f"g{n}", 8, NVIDIA, priority=9), least=1, name=f"g{n}") for n in range(50)]
    effects = [effect for gang in gangs for effect in tried(broker, gang, 1.0, broker.nodes)]
    effects += [effect for second in range(10, 60, 2) for effect in broker.step(float(second))]
    names = evicted(effects)
    assert sorted(names) == sorted(f"low-n{number}" for number in range(10))


def test_a_clock_that_is_set_back_holds_nothing_longer() -> None:
    broker, gang = two_full_nodes(), high_gang()
    tried(broker, gang, 1000.0)
    broker.step(1.0)
    assert [record.until for record in broker.state_at(1.0).preemptions.records.values()] == [101.0]


def explained(broker: Broker, name: str, now: float = 6.0) -> str:
    report = explain_pod(broker, f"uid-{name}", now)
    assert report is not None
    return "\n".join(explanation_lines(report))


def test_explanations_tell_both_sides_what_happens() -> None:
    broker = two_full_nodes()
    tried(broker, high_gang())
    assert "it is being evicted for group default/high" in explained(broker, "low-n0")
    assert "it waits for 2 pods of lower priority to terminate" in explained(broker, "high0")
    group = explain_group(broker, "uid-high0", 6.0)
    assert group is not None
    assert any("it waits for 2 pods" in line for line in explanation_lines(group))


def test_explanations_say_where_the_scheduler_does_not_preempt() -> None:
    ring = FakeNode("n0", "ring", 8)
    taken = {f"uid-p{chip}": ring.devices(chip) for chip in (1, 2, 3, 5, 6, 7)}
    broker = broker_of(replace(ring, allocations=taken), settings=OFF)
    broker.observe([replace(device_pod(f"p{chip}", 1, ASCEND), node="n0") for chip in (1, 2, 3, 5, 6, 7)], 0.0)
    for name, priority in (("high", 9), ("low", 0)):
        pod = device_pod(name, 2, ASCEND, priority=priority)
        broker.observe([pod], 1.0)
        broker.filter(pod, ["n0"], 1.0)
    sentence = "kube-scheduler does not preempt where enough devices are free but not as the pod needs them"
    assert f"{sentence}; with placing.preemption.evict, Linkwise does" in explained(broker, "high")
    assert sentence not in explained(broker, "low")
