"""Simulated kubelets: running, finishing and terminating pods, and failing devices and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from linkwise.embedded.nodes.machines import machine_objects, node_names
from linkwise.errors import InputError
from support.e2e.node_objects import gpushare, koordinator
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
NODE: Final = "dgx1-v100-0"
INVENTORIES: Final = "deviceinventories.linkwise.dev"


def allocations(cluster: ClusterUnderTest, node: str = NODE) -> dict[str, list[str]]:
    """Devices by the name of the pod, as the agent tells."""
    found = cluster.store.get(INVENTORIES, node).read().get("status") or {}
    return {pod["name"]: pod["devices"] for pod in found.get("allocations", ())}


def state(pod: Raw) -> set[str]:
    return {word for found in pod["status"]["containerStatuses"] for word in found["state"]}


@embedded({"dgx1-v100": 1})
async def test_a_pod_that_runs_has_an_address_containers_and_its_devices_in_the_inventory(
    cluster: ClusterUnderTest,
) -> None:
    granted = await cluster.place("train", {GPU: 2})
    pod = await cluster.phase("train", "Running")
    assert pod["status"]["podIP"].startswith("10.")
    assert state(pod) == {"running"}
    assert allocations(cluster) == {"train": list(granted.devices)}


@pytest.mark.rule("002.release")
@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
@embedded({"dgx1-v100": 1})
async def test_a_pod_that_ends_gives_its_devices_back_though_it_is_still_there(
    cluster: ClusterUnderTest, code: str, phase: str
) -> None:
    said = {"sim.linkwise.dev/seconds": "0.05", "sim.linkwise.dev/exit-code": code}
    await cluster.place("old", {GPU: 8}, annotations=said, restartPolicy="Never")
    cluster.create("new", {GPU: 8})
    pod = await cluster.phase("old", phase)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)
    await cluster.placed("new")
    await cluster.until(lambda: set(allocations(cluster)) == {"new"}, "the agent tells of the new one alone")
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_containers_that_end_are_started_again_where_the_pod_says_so(cluster: ClusterUnderTest) -> None:
    await cluster.place("again", {GPU: 1}, annotations={"sim.linkwise.dev/seconds": "0.01"})
    await cluster.until(lambda: restarts(cluster, "again") >= 2, "it was started again")
    assert cluster.pod("again")["status"]["phase"] == "Running"


def restarts(cluster: ClusterUnderTest, name: str) -> int:
    found = cluster.pod(name)["status"].get("containerStatuses")
    return int(found[0]["restartCount"]) if found else 0


@pytest.mark.rule("002.release")
@embedded({"dgx1-v100": 1})
async def test_devices_of_a_deleted_pod_are_free_after_its_containers_have_stopped(cluster: ClusterUnderTest) -> None:
    slow = {"sim.linkwise.dev/stop-seconds": "3600"}
    first = await cluster.place("old", {GPU: 8}, annotations=slow, terminationGracePeriodSeconds=3600)
    await cluster.phase("old", "Running")
    cluster.delete("old")
    cluster.create("new", {GPU: 8})
    await cluster.refused("new")
    assert set(allocations(cluster)) == {"old"}
    cluster.store.patch("pods", "old", {"metadata": {"annotations": {"sim.linkwise.dev/stop-seconds": "0"}}}, "default")
    cluster.embedded.nodes.resume_heartbeat(NODE)  # where they stop now
    assert (await cluster.placed("new")).devices == first.devices
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_pod_that_is_deleted_without_grace_goes_at_once(cluster: ClusterUnderTest) -> None:
    await cluster.place("old", {GPU: 8}, annotations={"sim.linkwise.dev/stop-seconds": "60"})
    await cluster.phase("old", "Running")
    cluster.delete("old")  # its grace period is 0
    await cluster.place("new", {GPU: 8})
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_device_that_dies_takes_its_pod_with_it_and_is_not_given_again(cluster: ClusterUnderTest) -> None:
    await cluster.place("train", {GPU: 8}, restartPolicy="Never")
    await cluster.phase("train", "Running")
    assert cluster.embedded.nodes.kill_device(NODE, 3) == [cluster.pod("train")["metadata"]["uid"]]
    await cluster.phase("train", "Failed")
    assert cluster.store.get("nodes", NODE).read()["status"]["allocatable"][GPU] == "7"
    cluster.create("all", {GPU: 8})
    await cluster.refused("all")
    granted = await cluster.place("seven", {GPU: 7})
    assert 3 not in granted.positions([f"nvidia-{NODE}-{index}" for index in range(8)])
    await cluster.gone("seven")
    cluster.embedded.nodes.repair_device(NODE, 3)
    await cluster.placed("all")
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_pod_that_is_always_started_again_crashes_until_its_device_works(cluster: ClusterUnderTest) -> None:
    await cluster.place("train", {GPU: 8})
    await cluster.phase("train", "Running")
    cluster.embedded.nodes.kill_device(NODE, 0)
    await cluster.until(lambda: state(cluster.pod("train")) == {"waiting"}, "it crashes")
    cluster.embedded.nodes.repair_device(NODE, 0)
    await cluster.until(lambda: state(cluster.pod("train")) == {"running"}, "it runs again")


@embedded()
async def test_devices_die_in_the_words_of_every_system(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*gpushare("share", cards=2))
    await cluster.nodes(*koordinator("koord"))
    for node in ("share", "koord"):
        cluster.embedded.nodes.kill_device(node, 0)
    cluster.create("part", {"aliyun.com/gpu-mem": 22})
    assert (await cluster.placed("part")).devices == ("#1",)
    cluster.create("whole", {"koordinator.sh/gpu": 800})
    await cluster.refused("whole")
    await cluster.phase("part", "Running")
    assert cluster.embedded.nodes.kill_device("share", 1) == [cluster.pod("part")["metadata"]["uid"]]
    with pytest.raises(InputError, match="has no device 8"):
        cluster.embedded.nodes.kill_device("koord", 8)


@embedded({"dgx1-v100": 2})
async def test_pods_of_a_silent_node_are_asked_to_go_and_do_so_when_it_is_heard_of_again(
    cluster: ClusterUnderTest,
) -> None:
    granted = await cluster.place("train", {GPU: 8}, terminationGracePeriodSeconds=30)
    await cluster.phase("train", "Running")
    cluster.embedded.nodes.stop_heartbeat(granted.node)
    await cluster.until(lambda: "deletionTimestamp" in cluster.pod("train")["metadata"], "it is asked to go")
    assert (await cluster.place("next", {GPU: 8})).node != granted.node
    await cluster.well()
    cluster.embedded.nodes.resume_heartbeat(granted.node)
    await cluster.until(lambda: cluster.store.find("pods", "train", "default") is None, "it is gone")
    assert (await cluster.place("last", {GPU: 8})).node == granted.node
    await cluster.well()


@embedded({"dgx1-v100": 2})
async def test_pods_of_a_node_that_is_gone_are_removed(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("train", {GPU: 8})
    cluster.embedded.nodes.remove(granted.node)
    await cluster.until(lambda: cluster.store.find("pods", "train", "default") is None, "it is removed")
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_cordoned_node_takes_no_more_pods(cluster: ClusterUnderTest) -> None:
    cluster.embedded.nodes.cordon(NODE)
    cluster.create("train", {GPU: 1})
    assert await cluster.refused("train") == "0/1 nodes are available: 1 node(s) were unschedulable."
    cluster.embedded.nodes.cordon(NODE, undo=True)
    await cluster.placed("train")


def test_nodes_of_a_fleet_are_named_in_order() -> None:
    assert node_names("p40-share", 2) == ["p40-share-0", "p40-share-1"]
    assert node_names("dgx1-v100/percent", 11)[10] == "dgx1-v100-percent-10"


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [("dgx9", "unknown machine profile 'dgx9'"), ("dgx1-v100/half", "unknown sharing mode 'half'")],
)
def test_an_unknown_machine_is_reported_with_the_known_ones(machine: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        machine_objects(machine, "a")


@embedded({"dgx1-v100": 1})
async def test_a_node_reports_since_when_it_is_ready(cluster: ClusterUnderTest) -> None:
    node = cluster.store.get("nodes", NODE).read()
    (ready,) = node["status"]["conditions"]
    assert ready["lastTransitionTime"] == ready["lastHeartbeatTime"] == node["metadata"]["creationTimestamp"]


@embedded({"dgx1-v100": 1})
async def test_a_device_that_dies_is_reported_at_its_node_and_at_its_pod(cluster: ClusterUnderTest) -> None:
    await cluster.place("train", {GPU: 8})
    cluster.embedded.nodes.kill_device(NODE, 3)
    assert "became unhealthy; 7 of 8 devices are usable" in await cluster.wait_for_event(NODE, "DeviceFailed")
    assert "device 3" in await cluster.wait_for_event("train", "DeviceFailed", "which this pod uses")
