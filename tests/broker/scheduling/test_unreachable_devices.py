"""Devices that other nodes can't reach: pods of larger jobs do not get them, single pods do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.broker.volcano.bookings import Task
from linkwise.broker.volcano.callbacks import FITS
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod, in_gang, steers, woken_set
from support.builders.volcano import pod_group, volcano_pod
from support.volcano_cluster import VolcanoCluster, job

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

TORN: Final = FakeNode("torn", "ring", 8, unreachable=frozenset({0, 5}))
WHOLE: Final = replace(TORN, unreachable=frozenset(), version=2)
PER_POD: Final = PlacingSettings(job_shape="per-pod")


def in_group(*pods: PodView, name: str = "g", replica: int = 0) -> list[PodView]:
    prefix = "gputopology.scheduling.koordinator.sh"
    labels = {f"{prefix}/name": name, f"{prefix}/replica": str(replica or len(pods))}
    return [replace(pod, labels=labels) for pod in pods]


def chips(broker: Broker, pod: PodView) -> set[str]:
    entry = broker.entry(pod.uid)
    return {device[-1] for device in entry.grant.offer.devices} if entry else set()


@pytest.mark.rule("003.faulty")
def test_a_single_pod_and_a_group_of_one_use_all_chips() -> None:
    for pods in ([device_pod("a", 8, ASCEND)], in_group(device_pod("a", 8, ASCEND))):
        broker = broker_of(TORN)
        broker.observe(pods, 0.0)
        assert list(broker.filter(pods[0], ["torn"], 0.0).nodes) == ["torn"]


@pytest.mark.rule("003.faulty")
def test_a_member_of_a_group_gets_only_chips_that_other_nodes_can_reach() -> None:
    broker = broker_of(TORN, settings=PER_POD)
    pods = in_group(*(device_pod(name, 2, ASCEND) for name in "ab"))
    broker.observe(pods, 0.0)
    for pod in pods:
        assert list(broker.filter(pod, ["torn"], 0.0).nodes) == ["torn"]
    assert not {"0", "5"} & (chips(broker, pods[0]) | chips(broker, pods[1]))


@pytest.mark.rule("003.faulty")
def test_members_that_request_no_chips_do_not_make_a_job_of_several_pods() -> None:
    broker = broker_of(TORN, settings=PER_POD)
    launcher = replace(device_pod("launcher"), containers=())
    pods = in_group(device_pod("a", 8, ASCEND), launcher)
    broker.observe(pods, 0.0)
    assert list(broker.filter(pods[0], ["torn"], 0.0).nodes) == ["torn"]


@pytest.mark.rule("003.faulty")
def test_a_member_whose_siblings_are_not_created_yet_counts_as_one_of_several() -> None:
    broker = broker_of(TORN, settings=PER_POD)
    (pod,) = in_group(device_pod("a", 8, ASCEND), replica=2)
    assert list(broker.filter(pod, ["torn"], 0.0).nodes) == []


@pytest.mark.rule("003.faulty")
@pytest.mark.parametrize(("total", "fits"), [(1, ["torn"]), (2, [])])
def test_a_member_that_is_planned_without_the_missing_ones_still_counts_as_one_of_several(
    total: int, fits: list[str]
) -> None:
    broker = broker_of(TORN, settings=PER_POD)
    (pod,) = in_gang(device_pod("a", 8, ASCEND), least=1, total=total)
    broker.observe([pod], 0.0)
    broker.filter(pod, ["torn"], 0.0)
    answer = broker.filter(pod, ["torn"], 11.0)
    assert list(answer.nodes) == fits
    assert "the group is incomplete" not in str(answer)


@pytest.mark.rule("003.faulty")
def test_a_gang_waits_for_reachable_chips_and_starts_when_the_network_is_repaired() -> None:
    broker = broker_of(TORN, replace(TORN, name="other"), settings=PER_POD)
    pods = in_gang(*(device_pod(name, 8, ASCEND) for name in "ab"), least=2)
    broker.observe(pods, 0.0)
    assert not any(broker.filter(pod, ["torn", "other"], 0.0).nodes for pod in pods)
    effects = broker.observe([*WHOLE.events(), *replace(WHOLE, name="other").events()], 1.0)
    assert woken_set([*effects, *broker.step(1.0, 1000)]) == {"a", "b"}
    assert broker.filter(pods[0], ["torn", "other"], 2.0).nodes


@pytest.mark.rule("003.faulty")
def test_a_plan_is_dropped_when_the_network_of_a_planned_chip_fails() -> None:
    broker = broker_of(WHOLE, replace(WHOLE, name="other"), settings=PER_POD)
    pods = in_gang(*(device_pod(name, 8, ASCEND) for name in "ab"), least=2)
    broker.observe(pods, 0.0)
    broker.filter(pods[0], ["torn", "other"], 0.0)
    assert all(broker.entry(pod.uid) for pod in pods)
    broker.observe(replace(TORN, version=3).events(), 1.0)
    assert not any(broker.entry(pod.uid) for pod in pods)


@pytest.mark.rule("003.faulty")
def test_explanations_name_the_chips_and_the_network() -> None:
    broker = broker_of(TORN, settings=PER_POD)
    (pod, _) = pods = in_group(*(device_pod(name, 8, ASCEND) for name in "ab"))
    broker.observe(pods, 0.0)
    answer = broker.filter(pod, ["torn"], 0.0)
    assert not answer.nodes
    report, node = explain_group(broker, "default/g/2", 0.0), explain_node(broker, "torn", 0.0)
    assert report
    assert node
    assert "other nodes can't reach devices 0, 5" in "\n".join(explanation_lines(report))
    assert "devices 0, 5: idle; unreachable from other nodes" in explanation_lines(node)


@pytest.mark.rule("003.faulty", level="L")
def test_volcano_gets_the_same_answers_without_the_gate() -> None:
    broker = broker_of(TORN, settings=PER_POD)
    pods = [volcano_pod(name, 8, "g") for name in "ab"]
    single = volcano_pod("single", 8)
    broker.observe([pod_group("g", 1), *pods, single], 0.0)
    assert broker.predicate(single, "torn", 0.0).code == FITS
    fit = broker.predicate(pods[0], "torn", 0.0)
    assert "other nodes can't reach devices 0, 5" in fit.reason
    assert broker.book(Task(pods[0].uid, "torn", pods[0]), 0.0).error


@pytest.mark.rule("003.faulty", level="L")
def test_gated_pods_of_a_volcano_job_are_planned_on_reachable_chips() -> None:
    cluster = VolcanoCluster(TORN, settings=PER_POD)
    cluster.submit(*job("j", 2, 2))
    recorded = [steer.annotations[ASCEND] for steer in steers(cluster.effects)]
    assert len(recorded) == 2
    assert not any("Ascend910-0" in text or "Ascend910-5" in text for text in recorded)


@pytest.mark.rule("003.faulty")
def test_fifty_gangs_at_once_get_reachable_chips_and_no_chip_twice() -> None:
    torn = {f"n{number}": number % 8 for number in range(120)}
    nodes = [FakeNode(name, "ring", 8, unreachable=frozenset({chip})) for name, chip in torn.items()]
    broker = broker_of(*nodes, settings=PER_POD)
    gangs = [
        in_gang(*(device_pod(f"g{gang}-{number}", 4, ASCEND) for number in range(2)), least=2, name=f"g{gang}")
        for gang in range(50)
    ]
    pods = [pod for gang in gangs for pod in gang]
    broker.observe(pods, 0.0)
    assert all(broker.filter(pod, list(torn), 0.0).nodes for pod in pods)
    offers = [entry.grant.offer for pod in pods if (entry := broker.entry(pod.uid))]
    used = [(offer.node, device) for offer in offers for device in offer.devices]
    assert len(set(used)) == len(used) == 400
    assert not [node for node, device in used if device.endswith(f"-d{torn[node]}")]
