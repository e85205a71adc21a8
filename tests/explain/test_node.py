"""What a person reads about a node: its devices, who has them, and what it could still take."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explanation_lines
from linkwise.model.settings import PlacingSettings, ShareSettings
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.explain.node import NodeExplanation
    from linkwise.model.node import Mode

GPU, NPU, MEMORY = "nvidia.com/gpu", "huawei.com/Ascend910", "aliyun.com/gpu-mem"


def pod(name: str, resource: str, count: int = 1) -> PodView:
    return PodView("team", name, name, (ContainerView("main", limits={resource: str(count)}),), version=1)


def one_node(machine: str, *pods: PodView, mode: Mode = "any", settings: PlacingSettings | None = None) -> Runner:
    runner = Runner(Broker(settings))
    runner.show(*fleet_node(profile(machine), "a", mode=mode))
    for number, view in enumerate(pods):
        assert runner.place(replace(view, created=float(number))).node
    return runner


def explained(runner: Runner) -> NodeExplanation:
    found = explain_node(runner.broker, "a", runner.now)
    assert found is not None
    return found


def lines(runner: Runner) -> list[str]:
    return explanation_lines(explained(runner))


def test_a_node_reports_its_devices_who_has_them_and_its_largest_set() -> None:
    runner = one_node("dgx1-v100", pod("train", GPU, 2), pod("other", GPU, 4))
    assert lines(runner) == [
        "node a: 8 devices (Tesla V100-SXM2-16GB), 2 idle; allocates whole devices (set by the node)",
        "devices 0, 3: pod team/train",
        "devices 1, 2: idle",
        "devices 4, 5, 6, 7: pod team/other",
        "a request for 1 or 2 devices fits now",
        "its largest set is {1,2}: NV2+PHB between them, link score 230 (92% of the best pair on this machine)",
    ]


def test_rings_limit_what_a_node_could_still_take() -> None:
    runner = one_node("atlas-800", *(pod(name, NPU) for name in "abcd"), pod("e", NPU, 2), pod("f", NPU))
    runner.show(PodDeleted("c"))
    explanation = explained(runner)
    assert (explanation.devices.idle, explanation.sizes) == (2, (1,))
    assert lines(runner)[-1] == "a request for 1 device fits now"


def test_a_shared_node_reports_what_is_left_and_for_whom() -> None:
    runner = one_node("p40-share", pod("serve", MEMORY, 20), pod("small", MEMORY, 1))
    assert lines(runner) == [
        "node a: 4 devices (Tesla P40), 3 idle; allocates device memory (set by the node)",
        "device 0: 21 of 22 GiB used: pod team/serve 20 GiB; pod team/small 1 GiB",
        "devices 1, 2, 3: idle",
        "the largest free share is 22 GiB, on device 1",
    ]


@pytest.mark.parametrize(("within", "whose"), [("namespace", " (namespace team only)"), ("any", "")])
def test_room_on_a_shared_device_is_for_its_namespace_unless_set_otherwise(within: str, whose: str) -> None:
    share = ShareSettings(within="any" if within == "any" else "namespace")
    views = [pod(f"p{number}", MEMORY, 12) for number in range(4)]
    runner = one_node("p40-share", *views, settings=PlacingSettings(share=share))
    assert lines(runner)[-1] == f"the largest free share is 10 GiB, on device 0{whose}"


def test_a_percent_node_reports_both_dimensions() -> None:
    runner = one_node("dgx-a100", pod("half", "koordinator.sh/gpu", 50), mode="percent")
    assert "device 0: 50 of 100% used: pod team/half 50% of the memory and 50% of the compute" in lines(runner)
    assert lines(runner)[-1] == "the largest free share is 100%, on device 1"


def test_the_first_pod_decides_how_a_node_hands_out_devices_where_nothing_else_does() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", inventory=False))
    assert lines(runner)[0].endswith("8 idle; its first pod decides the sharing mode")
    runner.place(pod("train", GPU, 8))
    assert lines(runner)[0].endswith("0 idle; allocates whole devices (set by its first pod, team/train)")
    assert lines(runner)[-1] == "no request for whole devices fits now"


def test_idle_devices_behind_a_full_cpu_are_reported() -> None:
    runner = one_node("dgx-a100")
    web = PodView("team", "web", "web", (ContainerView("main", limits={"cpu": "255500m"}),), node="a", phase="Running")
    runner.show(web)
    assert lines(runner)[-1] == (
        "8 devices are idle, but even a pod of 1 cpu and 1 GiB of memory does not fit: "
        "1 cpu requested, but only 0.5 of 256 are free"
    )


def test_a_cordoned_node_explains_why_its_idle_devices_are_unavailable() -> None:
    runner = one_node("dgx-a100")
    runner.show(replace(runner.broker.nodes["a"], unschedulable=True))
    assert lines(runner)[-1].endswith("does not fit: the node is cordoned")


def test_promised_and_leaving_pods_are_marked() -> None:
    runner = one_node("dgx-a100", pod("old", GPU, 2))
    old = runner.pod("old")
    assert old is not None
    runner.show(replace(old, deleting=True, version=9))
    runner.place(pod("new", GPU, 2), "unknown")
    assert lines(runner)[1:3] == [
        "devices 0, 1: pod team/old, terminating",
        "devices 2, 3: pod team/new, being bound",
    ]


def test_pods_without_a_record_and_unhealthy_devices_are_shown() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", unhealthy=(5,)))
    runner.show(replace(pod("wild", GPU, 2), node="a", phase="Running"))
    assert lines(runner) == [
        "node a: 8 devices (NVIDIA A100-SXM4-40GB), 5 idle; allocates whole devices (set by the node)",
        "devices 0, 1, 2, 3, 4, 6, 7: idle",
        "device 5: unhealthy",
        "pod team/wild has 2 devices, but it is not known which; that amount is counted as used",
        "a request for 1 to 5 devices fits now",
        "its largest set is {0,1,2,3,4}: NV12 between all of them, link score 12100 (the best set of 5 on this machine)",
    ]


def test_records_that_disagree_stand_at_the_end() -> None:
    runner = one_node("dgx-a100")
    view, found = fleet_node(profile("dgx-a100"), "a")
    assert isinstance(found, NodeObject)
    assert isinstance(found.document, dict)
    seen = [{"podUID": "ghost", "devices": ["nvidia-a-4"]}]
    runner.show(view, replace(found, document={**found.document, "status": {"allocations": seen}}))
    assert "device 4: pod ghost (unknown pod)" in lines(runner)
    assert lines(runner)[-1] == ("node a: device nvidia-a-4 is in use by unknown pod ghost; it counts as used")


def test_invalid_keys_of_a_node_are_reported() -> None:
    runner = Runner(Broker())
    runner.show(NodeView("a", capacity={GPU: "many"}))
    (none, problem) = lines(runner)
    assert none == "node a has no devices managed by Linkwise"
    assert problem.startswith("nvidia.com/gpu: 'many' ")


def test_a_node_that_was_never_seen_is_not_explained_and_the_others_are_data() -> None:
    runner = one_node("dgx-a100", pod("train", GPU, 2))
    assert explain_node(runner.broker, "b", 0.0) is None
    data = json.loads(json.dumps(asdict(explained(runner))))
    assert (data["decided"], data["devices"]["idle"], data["sizes"]) == ("node", 6, [1, 2, 3, 4, 5, 6])


@pytest.mark.rule("001.suspect")
def test_pairs_with_a_bad_sample_are_named_with_what_is_counted() -> None:
    assert [line for line in lines(one_node("dgx1-v100-measured")) if "bad sample" in line] == [
        "devices 0 and 4: 15.77 GB/s in one direction and 5 GB/s in the other; bad sample, 15.77 GB/s is used",
        "devices 1 and 4: 4.64 GB/s in one direction and 16.81 GB/s in the other; bad sample, 16.81 GB/s is used",
    ]


def test_of_many_bad_samples_the_rest_is_counted() -> None:
    found = explained(one_node("dgx1-v100-measured"))
    lines = explanation_lines(replace(found, suspects=found.suspects[:1] * 9))
    assert "1 more pair has a bad sample; measure the node again" in lines
    assert sum("GB/s in one direction" in line for line in lines) == 8


@pytest.mark.parametrize(("devices", "expected"), [(4, True), (1, False)])
def test_a_node_without_link_data_reports_both_ways_to_publish_it(devices: int, expected: bool) -> None:  # noqa: FBT001
    runner = Runner(Broker())
    runner.show(NodeView("a", capacity={GPU: str(devices)}, allocatable={GPU: str(devices)}))
    line = (
        "no link data for its devices, so nodes with link data go first; "
        "run the node agent (`linkwise agent`) or `linkwise topo --annotate node/a`"
    )
    assert (line in lines(runner)) == expected


def test_a_node_whose_profile_has_its_links_needs_no_others() -> None:
    assert not any("link data" in line for line in lines(one_node("atlas-800")))
