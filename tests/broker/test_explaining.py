"""What a person reads who waits for devices, or wonders about those a pod has."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.explaining import explanation_lines
from linkwise.broker.fleet import fleet_node
from linkwise.broker.replay import Runner
from linkwise.broker.sights import PodGone
from linkwise.model.entry import Entry
from linkwise.model.settings import PlacingSettings
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, NodeView, PodView, Taint
from linkwise.vendors.profiles import profile

if TYPE_CHECKING:
    from linkwise.broker.explanation import Explanation

GPU, NPU, MEMORY = "nvidia.com/gpu", "huawei.com/Ascend910", "aliyun.com/gpu-mem"


def pod(name: str, resource: str = "", count: object = 1, cpu: str = "", **fields: Any) -> PodView:  # noqa: ANN401 - any field of a view
    limits = {key: value for key, value in ((resource, str(count)), ("cpu", cpu)) if key and value}
    return PodView("team", name, name, (ContainerView("main", limits=limits),), version=1, **fields)


def cluster(**machines: str) -> Runner:
    runner = Runner(Broker())
    for name, machine in machines.items():
        runner.show(*fleet_node(profile(machine), name))
    return runner


def placed(runner: Runner, *pods: PodView) -> Runner:
    for number, view in enumerate(pods):
        assert runner.place(replace(view, created=float(number))).node, view.name
    return runner


def refused(runner: Runner, view: PodView) -> list[str]:
    runner.show(view)
    assert not runner.place(view).node
    return lines(runner, view.name)


def explained(runner: Runner, uid: str) -> Explanation:
    found = runner.broker.explain(uid, runner.now)
    assert found is not None
    return found


def lines(runner: Runner, uid: str) -> list[str]:
    return explanation_lines(explained(runner, uid))


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
    runner.show(PodGone("c"))
    return runner


def test_a_pod_on_the_nvlink_node_reads_why_it_is_there() -> None:
    runner = placed(cluster(nvlink="dgx1-v100", pcie="v100-pcie"), pod("train", GPU, 2))
    assert lines(runner, "train") == [
        "pod team/train has devices 0, 3 of node nvlink",
        "it asks for 2 devices (nvidia.com/gpu), placed by link-affinity",
        "node nvlink is the best of 2 nodes that fit now, this pod taken out: links 230 points, 6 free",
        "{0,3}: NV2+PHB between them, 230 points, 12.4 of 100",
        "chosen: the best set of the best partition, total 920: {0,3} {1,2} {4,7} {5,6}",
        (
            "runner-up {2,3}: the set alone scores more, but its partition totals 920 as well: "
            "of equal partitions the first by sorted positions is taken"
        ),
        "next is node pcie: links 50 points instead of 230",
        "the node's agent hands out exactly these devices",
    ]


def test_two_rings_with_one_idle_each_are_told_with_their_numbers_and_who_must_end() -> None:
    runner = two_rings_with_one_idle_each()
    assert refused(runner, pod("train", NPU, 2)) == [
        "pod team/train waits for 2 devices (huawei.com/Ascend910)",
        "0 of 1 nodes can take it",
        "node npu: ring 0 has 1 idle, ring 1 has 1 idle; 2 are needed in one ring",
        "it fits on node npu when pod team/a (1 device) ends",
        "1 device would fit now on node npu",
    ]


def test_a_leaving_pod_is_what_others_wait_for_first() -> None:
    runner = two_rings_with_one_idle_each()
    leaving = runner.pod("f")
    assert leaving is not None
    runner.show(replace(leaving, deleting=True, version=9))
    told = refused(runner, pod("train", NPU, 2))
    assert "it fits on node npu when pod team/f (1 device), being deleted, has stopped" in told
    assert lines(runner, "f") == [
        "pod team/f is being deleted; it keeps device 6 of node npu until its containers have stopped"
    ]


def test_figure_2_is_told_card_by_card() -> None:
    runner = sharing(n1=(0, 4069), n2=(4069, 4069), n3=(8138, 0))
    view = pod("serve", MEMORY, 8138)
    runner.show(view)
    assert lines(runner, "serve")[:3] == [
        "pod team/serve waits for 8138 MiB of one device (aliyun.com/gpu-mem)",
        "1 of 3 nodes can take it now; it would get 8138 MiB of device 0 of node n3, by memory-share",
        "node n3 is the only one that fits now: 0 left on the device, 0 free",
    ]
    placed(runner, view)
    assert refused(runner, pod("next", MEMORY, 8138)) == [
        "pod team/next waits for 8138 MiB of one device (aliyun.com/gpu-mem)",
        "0 of 3 nodes can take it",
        (
            "3 nodes: no device has enough room; nearest is n1: "
            "device 0 has 0 left, device 1 has 4069 left; 8138 are needed on one device"
        ),
        "it fits on node n1 when pod team/n1-0 (16276 MiB) ends",
        "it fits on node n2 when pod team/n2-0 (12207 MiB) ends",
        "it fits on node n3 when pod team/n3-0 (8138 MiB) ends",
        "the largest room it may have on one device is 4069 MiB now, on device 1 of node n1",
    ]


@pytest.mark.rule("002.stranded")
def test_idle_devices_behind_full_cpus_are_explained() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("web", cpu="253", node="a", phase="Running"))
    assert refused(runner, pod("train", GPU, 2, cpu="6")) == [
        "pod team/train waits for 2 devices (nvidia.com/gpu)",
        "0 of 1 nodes can take it",
        "node a: 6 cpu are asked for and 3 of 256 are left",
        "it fits on node a when pod team/web (253 cpu) ends",
        "node a has the devices and lacks 3 cpu",
    ]


def test_a_cordoned_node_is_told_apart_from_what_passes() -> None:
    runner = cluster(busy="dgx-a100", idle="dgx-a100", other="mi300")
    placed(runner, replace(pod("old", GPU, 8), node_selector={"kubernetes.io/hostname": "busy"}))
    view = runner.broker.state.cluster.nodes["idle"]
    runner.show(replace(view, unschedulable=True))
    assert refused(runner, pod("train", GPU, 8)) == [
        "pod team/train waits for 8 devices (nvidia.com/gpu)",
        "0 of 3 nodes can take it; on 1 that may change when pods end",
        "node busy: 8 devices are asked for and 0 of 8 are free",
        "node other: nvidia.com/gpu is asked for and the node has none to hand out; no pod's end changes that",
        "node idle: the node is cordoned; no pod's end changes that",
        "it fits on node busy when pod team/old (8 devices) ends",
        "node idle has the devices and is cordoned",
    ]


def test_a_full_node_that_is_tainted_is_not_said_to_free_up() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("old", GPU, 8))
    runner.show(replace(runner.broker.state.cluster.nodes["a"], taints=(Taint("dedicated", "infra"),)))
    assert refused(runner, pod("train", GPU, 1)) == [
        "pod team/train waits for 1 device (nvidia.com/gpu)",
        "0 of 1 nodes can take it, and no pod's end changes that",
        "node a: taint dedicated=infra:NoSchedule is not tolerated",
    ]


def test_of_pods_that_could_end_the_lowest_priority_and_then_the_oldest_is_named() -> None:
    runner = cluster(a="dgx-a100")
    placed(runner, pod("first", GPU, 4, priority=9), pod("second", GPU, 2), pod("third", GPU, 2))
    remedy = explained_waiting(runner, pod("train", GPU, 2)).remedies[0]
    assert [leaver.name for leaver in remedy.pods] == ["team/second"]


def test_several_pods_are_named_where_one_is_not_enough() -> None:
    runner = cluster(a="dgx-a100")
    placed(runner, pod("first", GPU, 4), pod("second", GPU, 2), pod("third", GPU, 2))
    assert "it fits on node a when pods team/first (4 devices) and team/second (2 devices) end" in refused(
        runner, pod("train", GPU, 6)
    )


def test_more_than_three_pods_in_the_way_are_not_guessed_at() -> None:
    runner = placed(cluster(a="dgx-a100"), *(pod(name, GPU) for name in "abcdefgh"))
    assert refused(runner, pod("train", GPU, 8)) == [
        "pod team/train waits for 8 devices (nvidia.com/gpu)",
        "0 of 1 nodes can take it",
        "node a: 8 devices are asked for and 0 of 8 are free",
        "no pods, up to 3 on one node, were found whose end would make room",
    ]


def test_an_ask_larger_than_any_node_reads_that_waiting_is_in_vain_and_what_would_fit() -> None:
    runner = cluster(a="dgx-a100", b="dgx-a100", c="mi300")
    assert refused(runner, pod("huge", GPU, 20)) == [
        "pod team/huge waits for 20 devices (nvidia.com/gpu)",
        "0 of 3 nodes can take it, and no pod's end changes that",
        "2 nodes: too few devices are free; nearest is a: 20 devices are asked for and 8 of 8 are free",
        "node c: nvidia.com/gpu is asked for and the node has none to hand out",
        "8 devices would fit now on node a",
    ]


def test_a_device_that_does_not_work_is_not_waited_for() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", sick=(3,)))
    told = explained_waiting(runner, pod("train", GPU, 8))
    assert [group.final for group in told.against] == [True]
    assert "7 devices would fit now on node a" in explanation_lines(told)


def test_idle_devices_that_are_handed_out_in_another_way_are_named() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", mode="percent"))
    assert refused(runner, pod("train", GPU, 2)) == [
        "pod team/train waits for 2 devices (nvidia.com/gpu)",
        "0 of 1 nodes can take it, and no pod's end changes that",
        "node a: the pod asks for whole devices and the node hands out percents of devices",
        (
            "8 devices are idle on 1 node and can't serve it: "
            "the pod asks for whole devices and the node hands out percents of devices"
        ),
    ]


def test_the_most_compute_left_is_told_where_compute_is_short() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", mode="percent"))
    limits = {"koordinator.sh/gpu-core": "90", "koordinator.sh/gpu-memory-ratio": "10"}
    views = [replace(pod(f"p{n}"), containers=(ContainerView("main", limits=limits),)) for n in range(9)]
    placed(runner, *views[:8])
    assert "the most compute left of one device is 10 % now, on device 0 of node a" in refused(runner, views[8])


def test_a_pod_that_makes_no_sense_reads_what_is_wrong_with_it() -> None:
    runner = cluster(npu="atlas-800")
    runner.show(pod("half", GPU, "1.5"))
    (said,) = lines(runner, "half")
    assert said.startswith(
        "pod team/half can't be placed, and waiting does not help: nvidia.com/gpu: '1.5' is no count"
    )
    assert refused(runner, pod("three", NPU, 3)) == [
        (
            "pod team/three can't be placed, and waiting does not help: "
            "3 devices can't be asked for on ascend-910; ask for 1, 2, 4 or 8"
        ),
        "2 devices would fit now on node npu",
    ]


def test_a_pod_without_devices_reads_that_it_is_no_concern_of_ours() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("web", cpu="1"))
    assert lines(runner, "web") == ["pod team/web asks for no device: nothing here keeps it waiting"]
    assert runner.broker.explain("nobody", 0.0) is None


def test_a_pod_that_ended_holds_nothing() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 2))
    view = runner.pod("train")
    assert view is not None
    runner.show(replace(view, phase="Succeeded", version=9))
    assert lines(runner, "train") == ["pod team/train has ended and holds nothing"]


def test_a_pod_that_fits_reads_where_it_would_go_and_that_nobody_asked() -> None:
    runner = cluster(b="v100-pcie", a="dgx1-v100")
    runner.show(pod("train", GPU, 1, gates=("example.com/quota",)))
    assert lines(runner, "train") == [
        "pod team/train waits for 1 device (nvidia.com/gpu)",
        "2 of 2 nodes can take it now; it would get device 0 of node a, by link-affinity",
        "node a is the best of 2 nodes that fit now: 7 free",
        "{0}: its links to the other free devices are worth 750 points",
        "chosen: the device whose loss costs the others least",
        "runner-up {1}: taking it would cost the others as much; the lower position is taken",
        "node b is as good in every term",
        "no scheduler has asked about it yet: look at its schedulerName, its gates, and the scheduler",
        "no scheduler tries it before its scheduling gates are gone: example.com/quota",
    ]


def test_offers_that_led_to_no_bind_are_counted() -> None:
    runner = cluster(a="dgx-a100", b="dgx-a100")
    view = pod("train", GPU, 2)
    for _ in range(3):
        runner.broker.filter(view, ["a", "b"], runner.now)
        runner.now += 10
    assert lines(runner, "train")[-1] == (
        "it was offered 3 times without a bind: a, b; look at volumes, quota or other filters"
    )


def test_an_offer_of_a_moment_ago_is_awaited_and_keeps_others_off() -> None:
    runner = cluster(a="dgx-a100")
    first, second = pod("first", GPU, 8), pod("second", GPU, 8)
    runner.broker.filter(first, ["a"], runner.now)
    runner.broker.filter(second, ["a"], runner.now)
    assert lines(runner, "first")[-1] == "it was offered a a moment ago, and its bind is awaited"
    assert lines(runner, "second")[-1] == (
        "its devices were offered to other pods a moment ago; it is tried again when these are bound"
    )


def test_a_pod_passes_by_nodes_that_others_were_just_offered() -> None:
    runner = Runner(Broker(PlacingSettings(breadth=0)))
    for name in ("a", "b"):
        runner.show(*fleet_node(profile("dgx-a100"), name))
    runner.broker.filter(pod("first", GPU, 8), ["a"], runner.now)
    runner.show(pod("second", GPU, 8))
    assert "2 of 2 nodes can take it now; it would get devices 0, 1, 2, 3, 4, 5, 6, 7 of node b, by link-affinity" in (
        lines(runner, "second")
    )


def test_a_bind_of_which_nobody_knows_how_it_ended_says_so() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx1-v100"), "a", inventory=False))
    runner.place(pod("train", GPU, 8), "unknown")
    assert lines(runner, "train") == [
        "pod team/train was promised devices 0, 1, 2, 3, 4, 5, 6, 7 of node a",
        "how its bind ended is not known: the devices stay promised until the pod is seen or read again",
        "it asks for 8 devices (nvidia.com/gpu), placed by link-affinity",
        "node a is the only one that fits now, this pod taken out: links 3000 points, 0 free",
        (
            "{0,1,2,3,4,5,6,7}: 2 pairs NV2+PIX, 4 pairs NV2+PHB, 2 pairs NV2+SYS, 2 pairs NV1+PIX, 4 pairs NV1+PHB, "
            "2 pairs NV1+SYS, 12 pairs SYS, 3000 points, 5.8 of 100"
        ),
        "chosen: the best set of the best partition, total 3000: {0,1,2,3,4,5,6,7}",
        "these devices are expected: the node's device plugin decides, and may take others",
    ]


def test_a_pod_without_a_record_reads_that_nobody_tells() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("wild", GPU, 2, node="a", phase="Running"))
    assert lines(runner, "wild") == [
        "pod team/wild has 2 devices (nvidia.com/gpu) of node a",
        "nobody tells which devices it got: as many are kept free on its node",
    ]


def test_devices_that_a_plan_keeps_are_told_before_the_bind() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("member", GPU, 2))
    offer = Offer("a", (Part("main", ("nvidia-a-4", "nvidia-a-5")),))
    runner.broker.state.cluster.ledger.plan([Entry(Grant("member", "bandwidth", offer, "p1"), "PLANNED", expires=99.0)])
    told = lines(runner, "member")
    assert told[0] == "pod team/member has devices 4, 5 of node a kept for it by the plan of its group"
    assert "{4,5}: slowest pair 576 GB/s, the usual of its link kind" in told


def test_a_cluster_without_nodes_is_said_to_be_one() -> None:
    assert refused(Runner(Broker()), pod("train", GPU, 2)) == [
        "pod team/train waits for 2 devices (nvidia.com/gpu)",
        "no node was seen yet",
    ]


def test_records_that_disagree_are_told_to_the_pods_that_they_concern() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 1), pod("other", GPU, 1))
    view = runner.pod("train")
    assert view is not None
    record = view.annotations["linkwise.dev/grant"].replace("nvidia-a-0", "nvidia-a-7")
    runner.show(replace(view, annotations={"linkwise.dev/grant": record}, version=9))
    drift = "node a: the record of pod team/train was changed to nvidia-a-7; nvidia-a-0 counts"
    assert drift in lines(runner, "train")
    assert drift not in lines(runner, "other")


def test_a_pod_that_is_not_where_it_would_go_now_reads_what_is_better() -> None:
    runner = cluster(pcie="v100-pcie")
    placed(runner, pod("train", GPU, 2))
    runner.show(*fleet_node(profile("dgx1-v100"), "nvlink"))
    told = lines(runner, "train")
    assert "node pcie is number 2 of 2 nodes that fit now, this pod taken out: links 50 points, 6 free" in told
    assert "node nvlink would be better now: links 230 points instead of 50" in told


def test_a_term_that_only_orders_equals_is_not_called_better() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 2))
    runner.show(*fleet_node(profile("dgx-a100"), "b"))
    placed(runner, replace(pod("other", GPU, 4), node_selector={"kubernetes.io/hostname": "b"}))
    assert lines(runner, "train")[-2] == (
        "node b would be better now: 2 free instead of 6, which only orders nodes of one class: "
        "among these the scheduler's own preferences decide"
    )


def test_a_set_that_would_not_be_chosen_now_says_which_would() -> None:
    runner = placed(cluster(a="dgx1-v100"), pod("first", GPU, 2), pod("second", GPU, 2))
    runner.show(PodGone("first"))
    told = explained(runner, "second").choice
    assert told is not None
    assert (told.devices, told.now) == ((1, 2), (0, 3))
    assert "now {0,3} would be chosen; of {1,2}: its partition totals 920 as well" in " ".join(lines(runner, "second"))


def test_devices_are_told_by_container() -> None:
    containers = tuple(ContainerView(name, limits={GPU: "1"}) for name in ("left", "right"))
    runner = placed(cluster(a="dgx-a100"), replace(pod("pair"), containers=containers))
    assert lines(runner, "pair")[0] == (
        "pod team/pair has device 0 for container left and device 1 for container right, of node a"
    )
    assert [part.indices for part in explained(runner, "pair").devices] == [(0,), (1,)]


def test_an_explanation_is_data_that_json_can_hold_and_the_same_each_time() -> None:
    runner = two_rings_with_one_idle_each()
    told = explained_waiting(runner, pod("train", NPU, 2))
    assert told == explained(runner, "train")
    data = json.loads(json.dumps(asdict(told)))
    assert (data["state"], data["asked"]["devices"], data["policy"]) == ("waiting", 2, "ring-affinity")
    (group,) = data["against"]
    assert (group["rule"], group["kind"], group["nodes"], group["final"]) == ("003.predicate", "one group", 1, False)
    assert [remedy["kind"] for remedy in data["remedies"]] == ["pods end", "fewer devices"]


def test_the_terms_of_a_score_have_names() -> None:
    runner = placed(cluster(nvlink="dgx1-v100"), pod("train", GPU, 2))
    terms = {term.name: (term.value, term.leading) for term in explained(runner, "train").terms}
    assert terms == {"known": (1, True), "links": (230, True), "packing": (-6, False)}


def explained_waiting(runner: Runner, view: PodView) -> Explanation:
    refused(runner, view)
    return explained(runner, view.uid)
