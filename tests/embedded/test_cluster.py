"""Pods of all five supported systems run on the embedded cluster, under the keys of their own system."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.embedded.runtime import Timers, scaled_clock
from linkwise.vendors.machines import profile
from support.e2e.api_client import Api
from support.e2e.brute_force_picks import by_links
from support.e2e.node_objects import device_ids, machine
from support.e2e.pod_objects import pod
from support.embedded.cluster import ClusterUnderTest, embedded
from support.virtual_clock import loop_clock, loop_time, run_idle

if TYPE_CHECKING:
    from support.e2e.node_objects import DeviceSource

GPU = "nvidia.com/gpu"


@pytest.mark.rule("000.story", "000.score")
@embedded()
async def test_of_two_nodes_of_eight_the_one_with_nvlink_gives_a_pair_with_the_most_links(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*machine("with", "nvlink"), *machine("without", "pcie"))
    granted = await cluster.place("train", {GPU: 2})
    assert granted.node == "with"
    one, other = granted.positions(device_ids("with", "dgx1-v100"))
    assert str(profile("dgx1-v100").topology.links[one][other]).startswith("NV2")
    await cluster.phase("train", "Running")
    await cluster.well()


@pytest.mark.rule("000.score")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@embedded()
async def test_a_pod_gets_the_best_set_that_a_node_has(cluster: ClusterUnderTest, size: int) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    granted = await cluster.place("train", {GPU: size})
    assert granted.positions(device_ids("a", "dgx1-v100")) == by_links(profile("dgx1-v100"), size, range(8))[1]


@pytest.mark.rule("000.unknown")
@embedded()
async def test_a_node_without_a_matrix_is_used_last_and_used(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("dark", "switch", links=False), *machine("slow", "pcie"))
    assert [(await cluster.place(f"p{number}", {GPU: 4})).node for number in range(3)] == ["slow", "slow", "dark"]


@pytest.mark.rule("000.skip")
@embedded()
async def test_a_pod_without_devices_is_neither_asked_about_nor_changed(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    await cluster.place("train", {GPU: 1})
    made = cluster.create("web", {"cpu": "1"})
    await cluster.service.stop()
    await cluster.placed("web")  # no scheduler could be asked
    bound = cluster.pod("web")
    assert bound["metadata"].get("annotations") == made["metadata"].get("annotations")
    assert {**bound["spec"], "nodeName": None} == {**made["spec"], "nodeName": None}
    await cluster.service.start(cluster.embedded.api.kubeconfig())


@pytest.mark.rule("002.whole")
@embedded()
async def test_no_device_of_a_full_node_is_given_twice(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    held = [(await cluster.place(f"p{number}", {GPU: 1})).devices for number in range(8)]
    assert {device for devices in held for device in devices} == set(device_ids("a", "dgx1-v100"))
    cluster.create("late", {GPU: 1})
    assert await cluster.refused("late") == f"0/1 nodes are available: 1 Insufficient {GPU}."
    await cluster.well()


@pytest.mark.rule("002.pack")
@embedded({"dgx1-v100": 3})
async def test_single_asks_fill_used_nodes_so_that_a_large_one_still_fits(cluster: ClusterUnderTest) -> None:
    used = {(await cluster.place(f"small-{number}", {GPU: 1})).node for number in range(8)}
    assert len(used) == 1
    assert (await cluster.place("large", {GPU: 8})).node not in used


@embedded({"dgx-a100": 1, "mi300": 1, "atlas-800": 1})
async def test_pods_of_three_vendors_get_their_devices(cluster: ClusterUnderTest) -> None:
    for node, resource in {"dgx-a100-0": GPU, "mi300-0": "amd.com/gpu", "atlas-800-0": "huawei.com/Ascend910"}.items():
        granted = await cluster.place(node, {resource: 4})
        assert (granted.node, len(granted.devices)) == (node, 4)
    await cluster.well()


@embedded()
async def test_devices_allocated_by_another_scheduler_are_counted_and_not_allocated_again(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*machine("a", "nvlink"))
    cluster.create("theirs", {GPU: 3}, nodeName="a")
    await cluster.counted(1)
    held = [(await cluster.place(f"p{number}", {GPU: 1})).devices for number in range(5)]
    assert len({device for devices in held for device in devices}) == 5
    cluster.create("late", {GPU: 1})
    await cluster.refused("late")


@pytest.mark.rule("000.unknown", "002.bare-metal")
@pytest.mark.parametrize("source", ["labels", "count"])
@embedded()
async def test_a_node_without_a_cloud_provider_or_link_data_is_used_by_count(
    cluster: ClusterUnderTest, source: DeviceSource
) -> None:
    await cluster.nodes(*machine("dark", "switch", source=source))
    assert (await cluster.place("train", {GPU: 4})).devices == ("#0", "#1", "#2", "#3")
    assert "providerID" not in cluster.store.get("nodes", "dark").read()["spec"]


@pytest.mark.rule("002.describe")
@embedded({"dgx1-v100": 1})
async def test_kubectl_describe_shows_devices_and_reasons(cluster: ClusterUnderTest) -> None:
    for name, size in (("given", 2), ("waiting", 7)):
        cluster.create(name, {GPU: size})
    await cluster.wait_for_event("given", "DevicesChosen")
    await cluster.refused("waiting")
    api, query = (
        Api(cluster.embedded.api.url, cluster.embedded.api.token),
        "/api/v1/namespaces/default/events?fieldSelector=",
    )
    about = {
        name: await asyncio.to_thread(api.list, f"{query}involvedObject.name%3D{name}") for name in ("given", "waiting")
    }
    on_node = await asyncio.to_thread(api.list, "/api/v1/pods?fieldSelector=spec.nodeName%3Ddgx1-v100-0")
    api.close()
    assert any("devices 0, 3 on node dgx1-v100-0, chosen by link-affinity" in one["message"] for one in about["given"])
    assert any(f"Insufficient {GPU}" in one["message"] for one in about["waiting"])
    assert [pod["spec"]["containers"][0]["resources"]["requests"][GPU] for pod in on_node] == ["2"]


@embedded({"dgx1-v100": 1})
async def test_idle_devices_behind_full_cpus_are_explained(cluster: ClusterUnderTest) -> None:
    cpus = int(cluster.store.get("nodes", "dgx1-v100-0").read()["status"]["allocatable"]["cpu"])
    await cluster.place("web", {"cpu": cpus - 1})
    cluster.create("train", {GPU: 2, "cpu": 4})
    assert await cluster.refused("train") == "0/1 nodes are available: 1 Insufficient cpu."
    explanation = await cluster.explained("train")
    assert "node dgx1-v100-0 has enough free devices, but lacks 3 cpu" in explanation
    assert f"it fits on node dgx1-v100-0 once pod default/web ({cpus - 1} cpu) finishes" in explanation


@embedded({"dgx1-v100": 2})
async def test_a_service_that_is_killed_and_started_again_knows_all_that_it_knew(cluster: ClusterUnderTest) -> None:
    for number in range(4):
        await cluster.place(f"p{number}", {GPU: 2})
    await cluster.service.kill()
    cluster.create("late", {GPU: 4})
    await cluster.refused("late", "Post")
    await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.placed("late")
    await cluster.well()


def test_a_cluster_that_ends_leaves_nothing_running() -> None:
    async def story() -> set[str]:
        async with EmbeddedCluster({"dgx1-v100": 2}, api=EmbeddedApi(tls=False)) as cluster:
            assert len(cluster.store.list("nodes").items) == 2
        return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(story()) == set()


def test_without_a_service_pods_are_bound_all_the_same() -> None:
    async def story() -> str:
        async with EmbeddedCluster({"dgx1-v100": 1}, api=EmbeddedApi(tls=False)) as cluster:
            cluster.store.create("pods", pod("default", "web", {GPU: 1}))
            async for event in cluster.store.watch("pods"):
                if node := event.stored.fields.get("spec.nodeName"):
                    return node
        return ""

    assert asyncio.run(story()) == "dgx1-v100-0"


def test_what_fails_inside_a_cluster_is_raised_when_it_ends() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def story() -> None:
        async with EmbeddedCluster({"dgx1-v100": 1}, api=EmbeddedApi(tls=False)) as cluster:
            cluster.nodes.timers.after(0.0, fail)
            await cluster.failed.wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert caught.group_contains(ZeroDivisionError)


def test_time_passes_faster_where_that_is_asked_for() -> None:
    async def story() -> tuple[list[str], float]:
        timers, rung, over = Timers(scaled_clock(loop_clock(), 10.0)), list[str](), asyncio.Event()
        running = asyncio.create_task(timers.run())
        timers.after(30.0, over.set)
        for name, seconds in (("second", 20.0), ("first", 10.0)):
            timers.after(seconds, partial(rung.append, name))
        await over.wait()
        running.cancel()
        return rung, loop_time()

    rung, seconds = run_idle(story())
    assert rung == ["first", "second"]
    assert seconds == pytest.approx(3.0, abs=0.01)
