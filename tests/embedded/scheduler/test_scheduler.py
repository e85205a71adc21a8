"""The embedded scheduler: which pods it serves, where they fit, and kube-scheduler's messages for those that do not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from linkwise.embedded.scheduler.extender_client import Extender
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.errors import ClusterError, InputError
from support.e2e.node_objects import ascend, machine, node
from support.embedded.cluster import QUICK, Bed, embedded
from support.environment import reserve

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
SLOW: Final = replace(
    QUICK, scheduler=replace(QUICK.scheduler, queue=QueueSettings(initial_backoff=60.0, max_backoff=60.0))
)


def give_priorities(bed: Bed, **values: int) -> None:
    for name, value in values.items():
        bed.store.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})


@embedded()
async def test_an_unschedulable_pod_gets_kube_schedulers_message_with_counted_reasons(bed: Bed) -> None:
    tainted = node("tainted")
    tainted["spec"] = {"taints": [{"key": "team", "value": "blue", "effect": "NoSchedule"}]}
    await bed.nodes(tainted, *(node(f"n{number}") for number in range(3)))
    bed.create("picky", {"cpu": 100})
    assert await bed.refused("picky") == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {team: blue}, 3 Insufficient cpu."
    )
    condition = next(one for one in bed.pod("picky")["status"]["conditions"] if one["type"] == "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")


@embedded()
async def test_equal_refusals_are_one_event_that_is_counted(bed: Bed) -> None:
    bed.create("early", {"cpu": 1})
    assert await bed.refused("early") == "no nodes available to schedule pods"
    bed.store.patch("pods", "early", {"metadata": {"annotations": {"try": "again"}}}, "default")

    def counts() -> list[int]:
        found = (one.read() for one in bed.store.list("events").items)
        return [one["count"] for one in found if one["reason"] == "FailedScheduling"]

    await bed.until(lambda: counts() == [2], "the same again is counted")


@embedded({"dgx1-v100": 1})
async def test_a_gated_pod_is_not_tried_until_its_gates_are_gone(bed: Bed) -> None:
    bed.create("later", {GPU: 1}, schedulingGates=[{"name": "example.com/wait"}])
    await bed.place("now", {GPU: 1})
    assert bed.bound() == {"now"}
    bed.store.patch("pods", "later", {"spec": {"schedulingGates": []}}, "default")
    await bed.placed("later")


@embedded({"dgx1-v100": 1})
async def test_pods_of_other_schedulers_are_left_alone(bed: Bed) -> None:
    bed.create("theirs", {GPU: 1}, scheduler="yunikorn")
    await bed.place("ours", {GPU: 1}, scheduler="linkwise-scheduler")
    assert bed.bound() == {"ours"}


@embedded(settings=replace(QUICK, scheduler=replace(QUICK.scheduler, queue=QueueSettings(initial_backoff=0.0))))
async def test_of_pods_that_wait_the_most_important_is_first(bed: Bed) -> None:
    give_priorities(bed, high=1000)
    await bed.nodes(node("a"))
    await bed.place("all", {"cpu": 64})
    for name, more in (("low", {}), ("high", {"priorityClassName": "high", "preemptionPolicy": "Never"})):
        bed.create(name, {"cpu": 64}, **more)
        await bed.refused(name)
    await bed.until(lambda: bed.cluster.scheduler.queue.counts() == {"unschedulable": 2}, "both wait")
    bed.delete("all")
    await bed.placed("high")
    assert "low" not in bed.bound()


@embedded()
async def test_pods_without_devices_go_to_the_least_loaded_node(bed: Bed) -> None:
    await bed.nodes(node("a"), node("b"))
    places = [(await bed.place(f"p{number}", {"cpu": 8})).node for number in range(4)]
    assert sorted(places) == ["a", "a", "b", "b"]


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_a_pod_that_is_refused_pauses_though_there_is_room_again(bed: Bed) -> None:
    await bed.place("all", {GPU: 8})
    bed.create("next", {GPU: 8})
    await bed.refused("next")
    await bed.gone("all")
    await bed.until(lambda: bed.cluster.scheduler.queue.counts() == {"backoff": 1}, "it pauses")
    assert bed.bound() == set()


@embedded({"dgx1-v100": 1})
async def test_a_bind_has_events_of_the_scheduler_and_of_the_service(bed: Bed) -> None:
    await bed.place("train", {GPU: 2})
    assert await bed.told("train", "Scheduled") == "Successfully assigned default/train to dgx1-v100-0"
    assert "devices 0, 3 on node dgx1-v100-0, chosen by link-affinity" in await bed.told("train", "DevicesChosen")


@embedded({"dgx1-v100": 1})
async def test_a_pod_of_higher_priority_gets_the_devices_of_others(bed: Bed) -> None:
    give_priorities(bed, high=1000)
    for number in range(4):
        await bed.place(f"cheap-{number}", {GPU: 2})
    await bed.place("high", {GPU: 4}, priorityClassName="high")
    assert len(bed.bound()) == 3
    await bed.well()


@embedded({"dgx1-v100": 1})
async def test_no_pod_is_evicted_for_a_pod_of_the_same_priority(bed: Bed) -> None:
    await bed.place("first", {GPU: 8})
    bed.create("second", {GPU: 4})
    await bed.refused("second")
    assert bed.bound() == {"first"}


@pytest.mark.rule("003.ring")
@embedded()
async def test_pods_are_evicted_only_where_their_chips_make_a_ring(bed: Bed) -> None:
    give_priorities(bed, cheap=10, dear=20, high=1000, fixed=5000)
    await bed.nodes(*ascend("torn"), *ascend("whole"))
    for number in range(8):
        word = "cheap" if number in {3, 7} else "fixed"
        await bed.place(f"{word}-{number}", {CHIP: 1}, priorityClassName=word, nodeSelector=on("torn"))
    for number in range(4):
        await bed.place(f"dear-{number}", {CHIP: 2}, priorityClassName="dear", nodeSelector=on("whole"))
    found = await bed.place("high", {CHIP: 2}, priorityClassName="high")
    assert found.node == "whole"
    assert len({int(chip[1:]) // 4 for chip in found.devices}) == 1
    assert {"cheap-3", "cheap-7"} <= bed.bound()
    await bed.well()


def on(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


@embedded()
async def test_a_device_that_works_again_wakes_who_waits_for_it_though_no_node_or_pod_changed(bed: Bed) -> None:
    made, well = machine("a", "nvlink")
    _, ill = machine("a", "nvlink", sick=[3])
    await bed.nodes(made, ill)
    bed.create("all", {GPU: 8})
    await bed.refused("all", "node(s) had too few usable devices")
    bed.store.patch("deviceinventories.linkwise.dev", "a", {"spec": well["spec"]})
    await bed.placed("all")


@embedded({"dgx1-v100": 1})
async def test_who_was_refused_by_a_service_that_died_is_woken_by_the_next(bed: Bed) -> None:
    bed.cluster.nodes.kill_device("dgx1-v100-0", 3)
    bed.store.patch("nodes", "dgx1-v100-0", {"status": {"allocatable": {GPU: "8"}}}, subresource="status")
    bed.create("all", {GPU: 8})
    await bed.refused("all", "node(s) had too few usable devices")
    await bed.service.kill()
    found = bed.store.get("deviceinventories.linkwise.dev", "dgx1-v100-0").read()["spec"]["devices"]
    well = {"spec": {"devices": [{**one, "healthy": True} for one in found], "healthyCount": 8}}
    bed.store.patch("deviceinventories.linkwise.dev", "dgx1-v100-0", well)
    await bed.service.start(bed.cluster.api.kubeconfig())
    await bed.placed("all")


@embedded({"dgx1-v100": 2})
async def test_a_burst_of_pods_is_bound_side_by_side_and_nothing_is_given_twice(bed: Bed) -> None:
    for number in range(16):
        bed.create(f"p{number}", {GPU: 1})
    await bed.until(lambda: len(bed.bound()) == 16, "all are bound")
    await bed.well()


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:80", "http://host"])
def test_an_address_that_can_not_be_called_is_refused_with_its_form(url: str) -> None:
    with pytest.raises(InputError, match="http://HOST:PORT"):
        Extender(url)


def test_a_service_that_is_not_there_is_reported_with_its_address() -> None:
    with reserve() as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f'Post "{url}/filter"'):
            asyncio.run(Extender(url).filter(b"{}", []))
