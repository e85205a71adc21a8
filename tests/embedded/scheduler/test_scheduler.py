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
from support.embedded.cluster import QUICK, ClusterUnderTest, embedded
from support.environment import reserve

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
SLOW: Final = replace(
    QUICK, scheduler=replace(QUICK.scheduler, queue=QueueSettings(initial_backoff=60.0, max_backoff=60.0))
)


def give_priorities(cluster: ClusterUnderTest, **values: int) -> None:
    for name, value in values.items():
        cluster.store.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})


@embedded()
async def test_an_unschedulable_pod_gets_kube_schedulers_message_with_counted_reasons(
    cluster: ClusterUnderTest,
) -> None:
    tainted = node("tainted")
    tainted["spec"] = {"taints": [{"key": "team", "value": "blue", "effect": "NoSchedule"}]}
    await cluster.nodes(tainted, *(node(f"n{number}") for number in range(3)))
    cluster.create("picky", {"cpu": 100})
    assert await cluster.refused("picky") == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {team: blue}, 3 Insufficient cpu."
    )
    condition = next(one for one in cluster.pod("picky")["status"]["conditions"] if one["type"] == "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")


@embedded()
async def test_equal_refusals_are_one_event_that_is_counted(cluster: ClusterUnderTest) -> None:
    cluster.create("early", {"cpu": 1})
    assert await cluster.refused("early") == "no nodes available to schedule pods"
    cluster.store.patch("pods", "early", {"metadata": {"annotations": {"try": "again"}}}, "default")

    def counts() -> list[int]:
        found = (one.read() for one in cluster.store.list("events").items)
        return [one["count"] for one in found if one["reason"] == "FailedScheduling"]

    await cluster.until(lambda: counts() == [2], "the same again is counted")


@embedded({"dgx1-v100": 1})
async def test_a_gated_pod_is_not_tried_until_its_gates_are_gone(cluster: ClusterUnderTest) -> None:
    cluster.create("later", {GPU: 1}, schedulingGates=[{"name": "example.com/wait"}])
    await cluster.place("now", {GPU: 1})
    assert cluster.bound() == {"now"}
    cluster.store.patch("pods", "later", {"spec": {"schedulingGates": []}}, "default")
    await cluster.placed("later")


@embedded({"dgx1-v100": 1})
async def test_pods_of_other_schedulers_are_left_alone(cluster: ClusterUnderTest) -> None:
    cluster.create("theirs", {GPU: 1}, scheduler="yunikorn")
    await cluster.place("ours", {GPU: 1}, scheduler="linkwise-scheduler")
    assert cluster.bound() == {"ours"}


@embedded(settings=replace(QUICK, scheduler=replace(QUICK.scheduler, queue=QueueSettings(initial_backoff=0.0))))
async def test_of_pods_that_wait_the_most_important_is_first(cluster: ClusterUnderTest) -> None:
    give_priorities(cluster, high=1000)
    await cluster.nodes(node("a"))
    await cluster.place("all", {"cpu": 64})
    for name, more in (("low", {}), ("high", {"priorityClassName": "high", "preemptionPolicy": "Never"})):
        cluster.create(name, {"cpu": 64}, **more)
        await cluster.refused(name)
    await cluster.until(lambda: cluster.embedded.scheduler.queue.counts() == {"unschedulable": 2}, "both wait")
    cluster.delete("all")
    await cluster.placed("high")
    assert "low" not in cluster.bound()


@embedded()
async def test_pods_without_devices_go_to_the_least_loaded_node(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(node("a"), node("b"))
    places = [(await cluster.place(f"p{number}", {"cpu": 8})).node for number in range(4)]
    assert sorted(places) == ["a", "a", "b", "b"]


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_a_pod_that_is_refused_pauses_though_there_is_room_again(cluster: ClusterUnderTest) -> None:
    await cluster.place("all", {GPU: 8})
    cluster.create("next", {GPU: 8})
    await cluster.refused("next")
    await cluster.gone("all")
    await cluster.until(lambda: cluster.embedded.scheduler.queue.counts() == {"backoff": 1}, "it pauses")
    assert cluster.bound() == set()


@embedded({"dgx1-v100": 1})
async def test_a_bind_has_events_of_the_scheduler_and_of_the_service(cluster: ClusterUnderTest) -> None:
    await cluster.place("train", {GPU: 2})
    assert await cluster.wait_for_event("train", "Scheduled") == "Successfully assigned default/train to dgx1-v100-0"
    assert "devices 0, 3 on node dgx1-v100-0, chosen by link-affinity" in await cluster.wait_for_event(
        "train", "DevicesChosen"
    )


@embedded({"dgx1-v100": 1})
async def test_a_pod_of_higher_priority_gets_the_devices_of_others(cluster: ClusterUnderTest) -> None:
    give_priorities(cluster, high=1000)
    for number in range(4):
        await cluster.place(f"cheap-{number}", {GPU: 2})
    await cluster.place("high", {GPU: 4}, priorityClassName="high")
    assert len(cluster.bound()) == 3
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_no_pod_is_evicted_for_a_pod_of_the_same_priority(cluster: ClusterUnderTest) -> None:
    await cluster.place("first", {GPU: 8})
    cluster.create("second", {GPU: 4})
    await cluster.refused("second")
    assert cluster.bound() == {"first"}


@pytest.mark.rule("003.ring")
@embedded()
async def test_pods_are_evicted_only_where_their_chips_make_a_ring(cluster: ClusterUnderTest) -> None:
    give_priorities(cluster, cheap=10, dear=20, high=1000, fixed=5000)
    await cluster.nodes(*ascend("torn"), *ascend("whole"))
    for number in range(8):
        word = "cheap" if number in {3, 7} else "fixed"
        await cluster.place(f"{word}-{number}", {CHIP: 1}, priorityClassName=word, nodeSelector=on("torn"))
    for number in range(4):
        await cluster.place(f"dear-{number}", {CHIP: 2}, priorityClassName="dear", nodeSelector=on("whole"))
    found = await cluster.place("high", {CHIP: 2}, priorityClassName="high")
    assert found.node == "whole"
    assert len({int(chip[1:]) // 4 for chip in found.devices}) == 1
    assert {"cheap-3", "cheap-7"} <= cluster.bound()
    await cluster.well()


def on(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


@embedded()
async def test_a_device_that_works_again_wakes_who_waits_for_it_though_no_node_or_pod_changed(
    cluster: ClusterUnderTest,
) -> None:
    made, well = machine("a", "nvlink")
    _, ill = machine("a", "nvlink", unhealthy=[3])
    await cluster.nodes(made, ill)
    cluster.create("all", {GPU: 8})
    await cluster.refused("all", "node(s) had too few usable devices")
    cluster.store.patch("deviceinventories.linkwise.dev", "a", {"spec": well["spec"]})
    await cluster.placed("all")


@embedded({"dgx1-v100": 1})
async def test_who_was_refused_by_a_service_that_died_is_woken_by_the_next(cluster: ClusterUnderTest) -> None:
    cluster.embedded.nodes.kill_device("dgx1-v100-0", 3)
    cluster.store.patch("nodes", "dgx1-v100-0", {"status": {"allocatable": {GPU: "8"}}}, subresource="status")
    cluster.create("all", {GPU: 8})
    await cluster.refused("all", "node(s) had too few usable devices")
    await cluster.service.kill()
    found = cluster.store.get("deviceinventories.linkwise.dev", "dgx1-v100-0").read()["spec"]["devices"]
    well = {"spec": {"devices": [{**one, "healthy": True} for one in found], "healthyCount": 8}}
    cluster.store.patch("deviceinventories.linkwise.dev", "dgx1-v100-0", well)
    await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.placed("all")


@embedded({"dgx1-v100": 2})
async def test_a_burst_of_pods_is_bound_side_by_side_and_nothing_is_given_twice(cluster: ClusterUnderTest) -> None:
    for number in range(16):
        cluster.create(f"p{number}", {GPU: 1})
    await cluster.until(lambda: len(cluster.bound()) == 16, "all are bound")
    await cluster.well()


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:80", "http://host"])
def test_an_address_that_can_not_be_called_is_refused_with_its_form(url: str) -> None:
    with pytest.raises(InputError, match="http://HOST:PORT"):
        Extender(url)


def test_a_service_that_is_not_there_is_reported_with_its_address() -> None:
    with reserve() as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f'Post "{url}/filter"'):
            asyncio.run(Extender(url).filter(b"{}", []))
