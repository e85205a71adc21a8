"""What a person reads whose pod waits for devices."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explanation_lines
from linkwise.model.views import ContainerView, NodeView, Taint
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.builders.explained_cluster import GPU, MEMORY, NPU, cluster, explained, lines, placed, pod

if TYPE_CHECKING:
    from linkwise.explain.reports import Explanation
    from linkwise.model.views import PodView


def refused(runner: Runner, view: PodView) -> list[str]:
    runner.show(view)
    assert not runner.place(view).node
    return lines(runner, view.name)


def explained_waiting(runner: Runner, view: PodView) -> Explanation:
    refused(runner, view)
    return explained(runner, view.uid)


def sharing(**rooms: tuple[int, ...]) -> Runner:
    """Nodes of cards with 16276 MiB, of which so much is left."""
    runner = Runner(Broker())
    for name, left in rooms.items():
        amounts = {MEMORY: str(16276 * len(left)), "aliyun.com/gpu-count": str(len(left))}
        runner.show(NodeView(name, capacity=amounts))
        for card, room in enumerate(left):
            taken = str(16276 - room)
            keys = {"ALIYUN_COM_GPU_MEM_IDX": str(card), "ALIYUN_COM_GPU_MEM_POD": taken}
            if room < 16276:
                runner.show(replace(pod(f"{name}-{card}", MEMORY, taken), node=name, annotations=keys))
    return runner


def two_rings_with_one_idle_each() -> Runner:
    singles = [pod(name, NPU) for name in "abcd"]
    runner = placed(cluster(npu="atlas-800"), *singles, pod("e", NPU, 2), pod("f", NPU))
    runner.show(PodDeleted("c"))
    return runner


def test_two_rings_with_one_idle_device_each_are_named_with_the_pods_that_must_finish() -> None:
    runner = two_rings_with_one_idle_each()
    assert refused(runner, pod("train", NPU, 2)) == [
        "pod team/train is pending: it requests 2 devices (huawei.com/Ascend910)",
        "0 of 1 nodes are feasible",
        "node npu: ring 0 has 1 idle, ring 1 has 1 idle; 2 are needed in one ring",
        "it fits on node npu once pod team/a (1 device) finishes",
        "a request for 1 device would fit now on node npu",
    ]


def test_a_leaving_pod_is_what_others_wait_for_first() -> None:
    runner = two_rings_with_one_idle_each()
    leaving = runner.pod("f")
    assert leaving is not None
    runner.show(replace(leaving, deleting=True, version=9))
    explanation = refused(runner, pod("train", NPU, 2))
    assert "it fits on node npu once terminating pod team/f (1 device) has stopped" in explanation
    assert lines(runner, "f") == [
        "pod team/f is terminating; it keeps device 6 on node npu until its containers have stopped"
    ]


def test_figure_2_is_reported_card_by_card() -> None:
    runner = sharing(n1=(0, 4069), n2=(4069, 4069), n3=(8138, 0))
    view = pod("serve", MEMORY, 8138)
    runner.show(view)
    assert lines(runner, "serve")[:3] == [
        "pod team/serve is pending: it requests 8138 MiB of one device (aliyun.com/gpu-mem)",
        "1 of 3 nodes is feasible; it would get 8138 MiB of device 0 on node n3 (policy memory-share)",
        "node n3 is the only feasible node: 0 left free on the device, 0 free devices",
    ]
    placed(runner, view)
    assert refused(runner, pod("next", MEMORY, 8138)) == [
        "pod team/next is pending: it requests 8138 MiB of one device (aliyun.com/gpu-mem)",
        "0 of 3 nodes are feasible",
        (
            "3 nodes had no device with enough free memory; nearest is n1: "
            "device 0 has 0 MiB free, device 1 has 4069 MiB free; 8138 MiB is needed on one device"
        ),
        "it fits on node n1 once pod team/n1-0 (16276 MiB) finishes",
        "it fits on node n2 once pod team/n2-0 (12207 MiB) finishes",
        "it fits on node n3 once pod team/n3-0 (8138 MiB) finishes",
        "the largest request that fits on one device now is 4069 MiB, on device 1 of node n1",
    ]


@pytest.mark.rule("002.stranded")
def test_idle_devices_behind_full_cpus_are_explained() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("web", cpu="253", node="a", phase="Running"))
    assert refused(runner, pod("train", GPU, 2, cpu="6")) == [
        "pod team/train is pending: it requests 2 devices (nvidia.com/gpu)",
        "0 of 1 nodes are feasible",
        "node a: 6 cpu requested, but only 3 of 256 are free",
        "it fits on node a once pod team/web (253 cpu) finishes",
        "node a has enough free devices, but lacks 3 cpu",
    ]


def test_a_cordoned_node_is_distinguished_from_transient_refusals() -> None:
    runner = cluster(busy="dgx-a100", idle="dgx-a100", other="mi300")
    placed(runner, replace(pod("old", GPU, 8), node_selector={"kubernetes.io/hostname": "busy"}))
    view = runner.broker.nodes["idle"]
    runner.show(replace(view, unschedulable=True))
    assert refused(runner, pod("train", GPU, 8)) == [
        "pod team/train is pending: it requests 8 devices (nvidia.com/gpu)",
        "0 of 3 nodes are feasible; 1 may become feasible when other pods finish",
        "node busy: 8 devices requested, but none of 8 is free",
        "not resolved by other pods finishing:",
        "node idle: the node is cordoned",
        "node other: nvidia.com/gpu requested, but the node does not provide it",
        "it fits on node busy once pod team/old (8 devices) finishes",
        "node idle has enough free devices, but is cordoned",
    ]


def test_a_full_node_that_is_tainted_is_not_said_to_free_up() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("old", GPU, 8))
    runner.show(replace(runner.broker.nodes["a"], taints=(Taint("dedicated", "infra"),)))
    assert refused(runner, pod("train", GPU, 1)) == [
        "pod team/train is pending: it requests 1 device (nvidia.com/gpu)",
        "0 of 1 nodes are feasible (not resolved by other pods finishing)",
        "node a: the pod does not tolerate taint dedicated=infra:NoSchedule",
    ]


def test_of_pods_that_could_end_the_lowest_priority_and_then_the_oldest_is_named() -> None:
    runner = cluster(a="dgx-a100")
    placed(runner, pod("first", GPU, 4, priority=9), pod("second", GPU, 2), pod("third", GPU, 2))
    remedy = explained_waiting(runner, pod("train", GPU, 2)).remedies[0]
    assert [leaver.name for leaver in remedy.pods] == ["team/second"]


def test_several_pods_are_named_where_one_is_not_enough() -> None:
    runner = cluster(a="dgx-a100")
    placed(runner, pod("first", GPU, 4), pod("second", GPU, 2), pod("third", GPU, 2))
    assert "it fits on node a once pods team/first (4 devices) and team/second (2 devices) finish" in refused(
        runner, pod("train", GPU, 6)
    )


def test_more_than_three_pods_in_the_way_are_not_guessed_at() -> None:
    runner = placed(cluster(a="dgx-a100"), *(pod(name, GPU) for name in "abcdefgh"))
    assert refused(runner, pod("train", GPU, 8)) == [
        "pod team/train is pending: it requests 8 devices (nvidia.com/gpu)",
        "0 of 1 nodes are feasible",
        "node a: 8 devices requested, but none of 8 is free",
        "no node was found where it would fit after up to 3 pods finish",
    ]


def test_an_ask_larger_than_any_node_reads_that_waiting_is_in_vain_and_what_would_fit() -> None:
    runner = cluster(a="dgx-a100", b="dgx-a100", c="mi300")
    assert refused(runner, pod("huge", GPU, 20)) == [
        "pod team/huge is pending: it requests 20 devices (nvidia.com/gpu)",
        "0 of 3 nodes are feasible (not resolved by other pods finishing)",
        "2 nodes had fewer devices than requested; nearest is a: 20 devices requested, but the node has 8",
        "node c: nvidia.com/gpu requested, but the node does not provide it",
        "no node has that many devices: split it into a group of 4 pods with 5 devices each",
        "a request for 8 devices would fit now on node a",
    ]


def test_a_device_that_does_not_work_is_not_waited_for() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", unhealthy=(3,)))
    explanation = explained_waiting(runner, pod("train", GPU, 8))
    assert [group.final for group in explanation.against] == [True]
    assert "a request for 7 devices would fit now on node a" in explanation_lines(explanation)


def test_idle_devices_of_nodes_in_another_sharing_mode_are_counted() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", mode="percent"))
    assert refused(runner, pod("train", GPU, 2)) == [
        "pod team/train is pending: it requests 2 devices (nvidia.com/gpu)",
        "0 of 1 nodes are feasible (not resolved by other pods finishing)",
        "node a: the pod requests whole devices, but the node allocates percentages of devices",
        "8 devices are idle on 1 node of a different sharing mode",
    ]


def test_the_most_compute_left_is_reported_where_compute_is_short() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", mode="percent"))
    limits = {"koordinator.sh/gpu-core": "90", "koordinator.sh/gpu-memory-ratio": "10"}
    views = [replace(pod(f"p{n}"), containers=(ContainerView("main", limits=limits),)) for n in range(9)]
    placed(runner, *views[:8])
    assert "the most free compute on one device is 10%, on device 0 of node a" in refused(runner, views[8])


def test_a_pod_that_makes_no_sense_reads_what_is_wrong_with_it() -> None:
    runner = cluster(npu="atlas-800")
    runner.show(pod("half", GPU, "1.5"))
    (said,) = lines(runner, "half")
    assert said.startswith(
        "pod team/half can't be scheduled as requested: nvidia.com/gpu: '1.5' is not a whole number of 0 or more"
    )
    assert refused(runner, pod("three", NPU, 3)) == [
        (
            "pod team/three can't be scheduled as requested: "
            "3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8"
        ),
        "a request for 2 devices would fit now on node npu",
    ]


def test_the_explanation_of_a_feasible_pod_has_its_node_and_that_no_scheduler_called() -> None:
    runner = cluster(b="v100-pcie", a="dgx1-v100")
    runner.show(pod("train", GPU, 1, gates=("example.com/quota",)))
    assert lines(runner, "train") == [
        "pod team/train is pending: it requests 1 device (nvidia.com/gpu)",
        "2 of 2 nodes are feasible; it would get device 0 on node b (policy link-affinity)",
        "node b is the best of 2 feasible nodes: 7 free devices, other pods lose sets of 8 worth 512 GB/s",
        "{0}: link score to the other free devices 150",
        "chosen: the device that other pods need least",
        "runner-up {1}: the other free devices would lose as much; tie broken by lowest device index",
        "next best is node a: other pods lose sets of 8 worth 1344 GB/s instead of 512 GB/s",
        "no scheduler has called the extender for it yet; check its schedulerName, its scheduling gates and the scheduler",
        "it has scheduling gates: example.com/quota",
    ]


def test_offers_that_led_to_no_bind_are_counted() -> None:
    runner = cluster(a="dgx-a100", b="dgx-a100")
    view = pod("train", GPU, 2)
    for _ in range(3):
        runner.broker.filter(view, ["a", "b"], runner.now)
        runner.now += 10
    assert lines(runner, "train")[-1] == (
        "it was offered a, b 3 times without being bound; check volumes, quotas and other scheduler filters"
    )


def test_a_pod_whose_node_was_just_named_is_being_scheduled_there() -> None:
    runner = cluster(a="dgx-a100", b="dgx-a100")
    view = pod("train", GPU, 8)
    runner.broker.filter(view, ["a", "b"], runner.now)
    assert lines(runner, "train")[:2] == [
        "pod team/train is being scheduled to devices 0, 1, 2, 3, 4, 5, 6, 7 on node a",
        "its node was named to the scheduler a moment ago, and its bind is expected",
    ]
    runner.broker.filter(view, ["a", "b"], runner.now)
    assert lines(runner, "train")[-1] == (
        "it was offered a once without being bound; check volumes, quotas and other scheduler filters"
    )


def test_devices_of_a_pod_that_is_being_scheduled_are_not_free_for_others() -> None:
    runner = cluster(a="dgx-a100")
    runner.broker.filter(pod("first", GPU, 8), ["a"], runner.now)
    runner.broker.filter(pod("second", GPU, 8), ["a"], runner.now)
    assert "node a: 8 devices requested, but none of 8 is free" in "\n".join(lines(runner, "second"))
    node = explain_node(runner.broker, "a", runner.now)
    assert node is not None
    assert any("team/first, being scheduled" in line for line in explanation_lines(node))


def test_a_cluster_without_nodes_is_said_to_be_one() -> None:
    assert refused(Runner(Broker()), pod("train", GPU, 2)) == [
        "pod team/train is pending: it requests 2 devices (nvidia.com/gpu)",
        "no nodes have been observed yet",
    ]


def test_an_explanation_is_data_that_json_can_hold_and_the_same_each_time() -> None:
    runner = two_rings_with_one_idle_each()
    explanation = explained_waiting(runner, pod("train", NPU, 2))
    assert explanation == explained(runner, "train")
    data = json.loads(json.dumps(asdict(explanation)))
    assert (data["state"], data["asked"]["devices"], data["policy"]) == ("unschedulable", 2, "ring-affinity")
    (group,) = data["against"]
    assert (group["rule"], group["kind"], group["nodes"], group["final"]) == ("003.predicate", "one group", 1, False)
    assert [remedy["kind"] for remedy in data["remedies"]] == ["pods end", "fewer devices"]


def test_a_resource_that_no_node_has_is_named_with_the_nearest_there_is() -> None:
    runner = cluster(a="dgx1-v100")
    runner.show(pod("typo", "nvidia.com/gpus", 1))
    (line,) = lines(runner, "typo")
    assert line.endswith(
        "can't be scheduled as requested: no node provides nvidia.com/gpus; did you mean nvidia.com/gpu?"
    )


def test_a_pod_that_asks_for_nothing_but_what_nodes_have_is_not_kept_waiting_here() -> None:
    runner = cluster(a="dgx1-v100")
    runner.show(pod("plain", cpu="1"))
    assert lines(runner, "plain") == ["pod team/plain requests no devices; Linkwise does not keep it pending"]
