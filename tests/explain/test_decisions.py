"""A decision is remembered: the reason of a placed pod is that of the moment when it was chosen, not of today."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT, recorded_decision
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.views import ContainerView
from linkwise.testing.cluster import (
    ASCEND,
    KOORDINATOR,
    MEMORY,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    place,
    seen_bound,
)
from support.builders.explained_cluster import GPU, NPU, cluster, explained, lines, placed, pod


def explanation(broker: Broker, name: str) -> list[str]:
    report = explain_pod(broker, f"uid-{name}", 9.0)
    assert report is not None
    return explanation_lines(report)


def worth_of(broker: Broker, name: str) -> str:
    report = explain_pod(broker, f"uid-{name}", 9.0)
    assert report is not None
    assert report.because is not None
    assert report.because.choice is not None
    return report.because.choice.worth


def test_two_pods_on_one_card_do_not_both_claim_to_have_come_second() -> None:
    broker = broker_of(FakeNode("p40", "share", memory=22))
    place(broker, device_pod("gpu-mem", 8, MEMORY), "p40")
    place(broker, device_pod("gpu-mem-2", 8, MEMORY), "p40")
    assert worth_of(broker, "gpu-mem") == "22 free before, 14 after"
    assert worth_of(broker, "gpu-mem-2") == "14 free before, 6 after"


def test_the_group_of_a_chip_is_the_one_it_had_when_it_was_placed() -> None:
    runner = placed(cluster(npu="atlas-800"), pod("a", NPU, 1), pod("b", NPU, 1))
    first, second = " ".join(lines(runner, "a")), " ".join(lines(runner, "b"))
    assert (
        "{0}: in ring 0 (4 idle before) chosen: for 1, a ring with 1 idle is best, then 3, 2, 4; this is group D"
        in first
    )
    assert (
        "{1}: in ring 0 (3 idle before) chosen: for 1, a ring with 1 idle is best, then 3, 2, 4; this is group B"
        in second
    )


def test_the_reason_stays_when_everything_around_the_pod_has_changed() -> None:
    runner = placed(cluster(nvlink="dgx1-v100", pcie="v100-pcie"), pod("train", GPU, 2))
    before = explained(runner, "train").because
    placed(runner, *(pod(f"other-{number}", GPU, 2) for number in range(5)))
    assert before is not None
    assert explained(runner, "train").because == before


def test_pods_that_are_filtered_in_a_burst_before_the_first_bind_have_reasons_in_that_order() -> None:
    broker, names = broker_of(FakeNode("a", "share", memory=64)), ["a"]
    burst = [device_pod(f"p{number}", 1, MEMORY) for number in range(50)]
    broker.observe(burst, 1.0)
    for view in burst:
        broker.filter(view, names, 1.0)
    for view in reversed(burst):
        answer = broker.bind(view.uid, "a", 1.0)
        broker.observe([seen_bound(view, binds(answer.effects)[0])], 1.0)
    assert [worth_of(broker, view.name) for view in burst] == [
        f"{64 - number} free before, {63 - number} after" for number in range(50)
    ]


def test_a_restarted_service_and_a_restored_snapshot_give_the_same_reason() -> None:
    runner = placed(cluster(nvlink="dgx1-v100", pcie="v100-pcie"), pod("train", GPU, 2), pod("more", GPU, 4))
    expected = lines(runner, "train")
    restored = Broker.restore(runner.broker.snapshot(runner.now))
    again = Broker()
    again.observe((*runner.broker.nodes.values(), *_objects(runner.broker), *runner.broker.pods.values()), runner.now)
    for broker in (restored, again):
        report = explain_pod(broker, "train", runner.now)
        assert report is not None
        assert explanation_lines(report) == expected


def test_a_snapshot_between_filter_and_bind_binds_with_the_same_record() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    view = device_pod("p", 2)
    broker.observe([view], 1.0)
    (node,) = broker.filter(view, ["a", "b"], 1.0).nodes
    restored = Broker.restore(broker.snapshot(1.0))
    assert restored.bind(view.uid, node, 1.0).effects == broker.bind(view.uid, node, 1.0).effects


def test_a_repeated_bind_writes_the_same_reason() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    view = device_pod("p", 2)
    broker.observe([view], 1.0)
    broker.filter(view, ["a", "b"], 1.0)
    (first,), (second,) = binds(broker.bind(view.uid, "a", 1.0).effects), binds(broker.bind(view.uid, "a", 1.0).effects)
    assert '"considered":2' in first.annotations[GRANT]
    assert second.annotations[GRANT] == first.annotations[GRANT]


def test_a_pod_of_another_scheduler_gets_no_invented_reason() -> None:
    broker = broker_of(FakeNode("p40", "share", memory=22))
    keys = {"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_POD": "8", "ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
    view = replace(device_pod("n4-1", 8, MEMORY), node="p40", phase="Running", annotations=keys)
    broker.observe([view], 1.0)
    said = explanation(broker, "n4-1")
    assert said[1] == "it requests 8 GiB of one device (aliyun.com/gpu-mem); placed by another scheduler"
    assert not [line for line in said if "because" in line or "chosen" in line or "again" in line]


def test_a_grant_of_an_earlier_version_says_that_the_reason_is_not_recorded() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 2))
    view = runner.broker.pods["train"]
    record, _, _ = view.annotations[GRANT].partition(',"why":')
    again = Broker()
    again.observe((*runner.broker.nodes.values(), *_objects(runner.broker)), 0.0)
    again.observe([replace(view, annotations={GRANT: f"{record}}}"})], 0.0)
    report = explain_pod(again, "train", 0.0)
    assert report is not None
    assert "why it was placed there is not recorded" in explanation_lines(report)


def test_a_node_that_was_nominated_for_the_pod_is_mentioned() -> None:
    broker = broker_of(FakeNode("a", count=4))
    view = replace(device_pod("high", 2), nominated="a", priority=100)
    broker.observe([view], 1.0)
    broker.filter(view, ["a"], 1.0)
    broker.observe([seen_bound(view, binds(broker.bind(view.uid, "a", 1.0).effects)[0])], 1.0)
    assert "node a had been nominated for it, as preemption does once it has made room" in explanation(broker, "high")


def test_a_bind_without_a_recent_offer_says_so() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    view = device_pod("late", 2)
    broker.observe([view], 1.0)
    broker.filter(view, ["a", "b"], 1.0)
    broker.observe([seen_bound(view, binds(broker.bind(view.uid, "a", 60.0).effects)[0])], 60.0)
    said = " ".join(explanation(broker, "late"))
    assert "placed because the scheduler bound it to node a without a recent offer: " in said
    assert "next best was" not in said


def test_the_runner_up_of_many_nodes_is_one_that_could_have_taken_the_pod() -> None:
    nodes = [FakeNode(f"n{number:02}", count=4, cpu="1" if number == 1 else "64") for number in range(30)]
    broker = broker_of(*nodes)
    view = device_pod("p", 2)
    view = replace(view, containers=(replace(view.containers[0], requests={"cpu": "8"}),))
    broker.observe([view], 1.0)
    named = [node.name for node in nodes if node.name != "n01"]
    broker.filter(view, named, 1.0)
    (bound,) = binds(broker.bind(view.uid, "n00", 1.0).effects)
    decision = recorded_decision(seen_bound(view, bound), GRANT)
    assert decision is not None
    assert (decision.considered, [name for name, _ in decision.others]) == (29, ["n02"])


@pytest.mark.parametrize(
    ("family", "resource", "count", "size"),
    [("linked", GPU, 8, 2), ("ring", ASCEND, 8, 2), ("share", MEMORY, 2, 4), ("percent", KOORDINATOR, 2, 50)],
)
def test_the_next_best_node_is_the_one_that_is_chosen_without_the_best(
    family: str, resource: str, count: int, size: int
) -> None:
    nodes = [FakeNode(f"n{number:02}", family, count=count) for number in range(20)]  # type: ignore[arg-type]  # a parameter
    broker = broker_of(*nodes)
    place(broker, device_pod("there", size, resource), "n07")
    place(broker, device_pod("too", size, resource), "n04")
    place(broker, device_pod("three", size, resource), "n04")
    names = [node.name for node in nodes]
    view = device_pod("p", size, resource)
    broker.observe([view], 1.0)
    (best,) = broker.filter(view, names, 1.0, keep=False).nodes
    (second,) = broker.filter(view, [name for name in names if name != best], 1.0, keep=False).nodes
    broker.filter(view, names, 1.0)
    decision = recorded_decision(seen_bound(view, binds(broker.bind(view.uid, best, 1.0).effects)[0]), GRANT)
    assert decision is not None
    assert [name for name, _ in decision.others] == [second]


def test_a_pod_that_asks_again_is_not_its_own_runner_up() -> None:
    broker = broker_of(*(FakeNode(f"n{number:02}", count=4) for number in range(20)))
    view, names = device_pod("p", 2), [f"n{number:02}" for number in range(20)]
    broker.observe([view], 1.0)
    broker.filter(view, names, 1.0)
    (node,) = broker.filter(view, names, 1.0).nodes
    (bound,) = binds(broker.bind(view.uid, node, 1.0).effects)
    decision = recorded_decision(seen_bound(view, bound), GRANT)
    assert decision is not None
    assert decision.others[0][0] not in {node, ""}
    assert decision.free == (0, 1, 2, 3)


def test_devices_for_several_containers_have_one_reason() -> None:
    containers = tuple(ContainerView(name, limits={GPU: "1"}) for name in ("left", "right"))
    runner = placed(cluster(a="dgx1-v100"), replace(pod("pair"), containers=containers))
    because = explained(runner, "pair").because
    assert because is not None
    assert because.choice is not None
    assert because.choice.devices == (0, 3)


def test_a_deleted_neighbour_changes_only_what_would_be_chosen_now() -> None:
    runner = placed(cluster(a="dgx1-v100"), pod("first", GPU, 2), pod("second", GPU, 2))
    before = lines(runner, "second")
    runner.show(PodDeleted("first"))
    after = lines(runner, "second")
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert [one for one, _ in changed] == ["if placed again now: the same devices"]


def _objects(broker: Broker) -> list[NodeObject]:
    return [NodeObject(name, "DeviceInventory", broker.node_object(name, "DeviceInventory")) for name in broker.nodes]
