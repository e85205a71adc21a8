"""Simulated nodes allocate devices with the node agent's own code: what a container sees is what is on record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.node_objects import device_ids, gpushare, koordinator, machine
from support.e2e.service import grant
from support.embedded.cluster import QUICK, ClusterUnderTest, embedded

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
NODE: Final = "dgx1-v100-0"
INVENTORIES: Final = "deviceinventories.linkwise.dev"
GROUP: Final = "gputopology.scheduling.koordinator.sh/"
SLOW: Final = replace(QUICK, simulation=replace(QUICK.simulation, start_delay=0.5))
"""time to change something between the binding and the start"""


def own(cluster: ClusterUnderTest, name: str, container: str = "main") -> list[str]:
    """The devices that a container uses."""
    return environment(cluster, name, container).get("CUDA_VISIBLE_DEVICES", "").split(",")


def environment(cluster: ClusterUnderTest, name: str, container: str = "main") -> dict[str, str]:
    return cluster.embedded.nodes.environment(cluster.pod(name)["metadata"]["uid"], container)


def on_record(cluster: ClusterUnderTest, name: str) -> list[str]:
    return list(grant(cluster.pod(name)).devices)


def published(cluster: ClusterUnderTest, node: str = NODE) -> dict[str, list[str]]:
    """Devices by the name of the pod, as the inventory lists them."""
    status = cluster.store.get(INVENTORIES, node).read().get("status") or {}
    return {each["name"]: each["devices"] for each in status.get("allocations", ())}


def container(name: str, limits: Mapping[str, int], **more: str) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "image": "example.com/none", "resources": {"limits": amounts}, **more}


@pytest.mark.rule("000.agree")
@embedded({"dgx1-v100": 3})
async def test_pods_of_one_size_that_are_created_together_get_the_devices_on_record(cluster: ClusterUnderTest) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        cluster.create(name, {GPU: 1})
    for name in names:
        await cluster.phase(name, "Running")
    assert all(own(cluster, name) == on_record(cluster, name) for name in names)
    listed = [published(cluster, node.name) for node in cluster.store.list("nodes").items]
    assert {name: devices for each in listed for name, devices in each.items()} == {
        name: on_record(cluster, name) for name in names
    }
    assert not any(cluster.events(name, "RecordCorrected") for name in names)


@embedded({"dgx1-v100": 1})
async def test_the_containers_of_a_pod_get_their_own_devices(cluster: ClusterUnderTest) -> None:
    containers = [container("small", {GPU: 1}), container("large", {GPU: 2}), container("none", {})]
    granted = await cluster.place("two", containers=containers)
    await cluster.phase("two", "Running")
    assert {name: own(cluster, "two", name) for name in ("small", "large")} == {
        name: part["devices"] for name, part in granted.containers.items()
    }
    assert environment(cluster, "two", "none") == {}


@pytest.mark.rule("001.environment")
@embedded({"dgx1-v100-measured": 1})
async def test_members_of_a_group_see_all_its_devices_on_the_node_and_use_their_own(cluster: ClusterUnderTest) -> None:
    for name in ("a", "b"):
        cluster.create(name, {GPU: 2}, labels={f"{GROUP}name": "g", f"{GROUP}replica": "2"})
    records = {name: on_record(cluster, name) for name in ("a", "b") if await cluster.phase(name, "Running")}
    everything = {device for devices in records.values() for device in devices}
    for name, devices in records.items():
        assert own(cluster, name) == devices
        assert set(environment(cluster, name)["NVIDIA_VISIBLE_DEVICES"].split(",")) == everything


@pytest.mark.parametrize("sidecar", [False, True])
@embedded({"dgx1-v100": 1})
async def test_an_init_container_uses_devices_of_the_containers_after_it(
    cluster: ClusterUnderTest, *, sidecar: bool
) -> None:
    later = [container("watch", {GPU: 1}, restartPolicy="Always")] if sidecar else []
    granted = await cluster.place("p", {GPU: 2}, initContainers=[container("load", {GPU: 1}), *later])
    await cluster.phase("p", "Running")
    assert {*own(cluster, "p", "load")} < {*granted.devices}
    for name, part in granted.containers.items():
        assert own(cluster, "p", name) == part["devices"]
    assert sorted(published(cluster)["p"]) == sorted(granted.devices)
    assert not cluster.events("p", "RecordCorrected")


@embedded({"dgx1-v100": 1})
async def test_containers_that_are_restarted_keep_their_devices(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("again", {GPU: 2}, annotations={"sim.linkwise.dev/seconds": "0.01"})

    def restarts() -> int:
        return sum(each["restartCount"] for each in cluster.pod("again")["status"].get("containerStatuses", ()))

    await cluster.until(lambda: restarts() >= 2, "it was restarted")
    assert own(cluster, "again") == list(granted.devices)
    assert published(cluster) == {"again": list(granted.devices)}


@pytest.mark.rule("004.allocate", "004.environment")
@embedded({"p40-share": 1})
async def test_a_share_is_given_as_it_is_on_record_and_marked_as_assigned(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("part", {MEMORY: 6})
    pod = await cluster.phase("part", "Running")
    assert own(cluster, "part") == list(granted.devices)
    assert (
        environment(cluster, "part").items()
        >= {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "ALIYUN_COM_GPU_MEM_POD": "6",
            "ALIYUN_COM_GPU_MEM_CONTAINER": "6",
        }.items()
    )
    assert pod["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"


@pytest.mark.parametrize("node", ["p40-share-0", "plugin"])
@embedded({"p40-share": 1})
async def test_a_share_without_a_record_is_refused_with_the_sentence_of_the_agent(
    cluster: ClusterUnderTest, node: str
) -> None:
    await cluster.nodes(*gpushare("plugin"))
    cluster.create("stranger", {MEMORY: 4}, nodeName=node)
    pod = await cluster.phase("stranger", "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert f"no pod on this node has 4 {MEMORY} on record" in pod["status"]["message"]
    assert cluster.events("stranger", "UnexpectedAdmissionError")


@embedded({"dgx1-v100": 1})
async def test_whole_devices_without_a_record_are_chosen_as_the_scheduler_would_and_published(
    cluster: ClusterUnderTest,
) -> None:
    cluster.create("stranger", {GPU: 2}, nodeName=NODE, scheduler="other-scheduler")
    await cluster.phase("stranger", "Running")
    ids = [f"nvidia-{NODE}-{index}" for index in range(8)]
    assert own(cluster, "stranger") == [ids[0], ids[3]]  # the first pair with two NVLinks
    assert published(cluster) == {"stranger": [ids[0], ids[3]]}


@embedded({"dgx1-v100": 1})
async def test_a_pod_for_which_too_few_devices_are_left_is_rejected(cluster: ClusterUnderTest) -> None:
    await cluster.place("first", {GPU: 6})
    await cluster.phase("first", "Running")
    cluster.create("stranger", {GPU: 4}, nodeName=NODE, scheduler="other-scheduler")
    pod = await cluster.phase("stranger", "Failed")
    assert f"unavailable for {GPU}. Requested: 4, Available: 2" in pod["status"]["message"]
    assert set(published(cluster)) == {"first"}


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_a_device_that_fails_before_the_start_is_replaced_and_the_record_corrected(
    cluster: ClusterUnderTest,
) -> None:
    granted = await cluster.place("train", {GPU: 2})
    failed = granted.devices[0]
    cluster.embedded.nodes.kill_device(NODE, int(failed.rpartition("-")[2]))
    await cluster.phase("train", "Running")
    assert failed not in own(cluster, "train")
    assert own(cluster, "train") == on_record(cluster, "train") == published(cluster)["train"]
    assert "the kubelet allocated other devices than those chosen" in await cluster.wait_for_event(
        "train", "RecordCorrected"
    )
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_record_that_is_changed_while_the_pod_runs_is_corrected(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("train", {GPU: 1})
    await cluster.phase("train", "Running")
    text = granted.annotations["linkwise.dev/grant"].replace(granted.devices[0], f"nvidia-{NODE}-7")
    cluster.store.patch("pods", "train", {"metadata": {"annotations": {"linkwise.dev/grant": text}}}, "default")
    await cluster.wait_for_event("train", "RecordCorrected", granted.devices[0])
    assert on_record(cluster, "train") == own(cluster, "train") == list(granted.devices)
    await cluster.well()


@embedded({"atlas-800": 1})
async def test_chips_of_other_vendors_are_given_in_their_own_variables(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("train", {"huawei.com/Ascend910": 2})
    await cluster.phase("train", "Running")
    numbers = sorted(device.rpartition("-")[2] for device in granted.devices)
    assert environment(cluster, "train") == {"ASCEND_VISIBLE_DEVICES": ",".join(numbers)}


@embedded()
async def test_percents_are_allocated_by_their_record_and_no_agent_gives_variables(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*koordinator("koord"))
    granted = await cluster.place("half", {"koordinator.sh/gpu": 50})
    await cluster.phase("half", "Running")
    index = device_ids("koord", "dgx1-v100-measured").index(granted.devices[0])
    assert cluster.embedded.nodes.devices.users("koord", index) == [cluster.pod("half")["metadata"]["uid"]]
    assert environment(cluster, "half") == {}


@embedded()
async def test_where_another_plugin_serves_the_devices_the_record_holds_too(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("plugin", "nvlink", source="annotation"))
    granted = await cluster.place("train", {GPU: 2})
    await cluster.phase("train", "Running")
    uid = cluster.pod("train")["metadata"]["uid"]
    assert [cluster.embedded.nodes.devices.users("plugin", int(device[1:])) for device in granted.devices] == [
        [uid]
    ] * 2
    assert on_record(cluster, "train") == list(granted.devices)


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_pods_that_a_silent_node_had_not_started_get_their_devices_when_it_is_back(
    cluster: ClusterUnderTest,
) -> None:
    for name in ("z", "a", "m"):
        await cluster.place(name, {GPU: 1})
    cluster.embedded.nodes.stop_heartbeat(NODE)
    cluster.embedded.nodes.resume_heartbeat(NODE)
    for name in ("z", "a", "m"):
        await cluster.phase(name, "Running")
        assert own(cluster, name) == on_record(cluster, name)
    assert not any(cluster.events(name, "RecordCorrected") for name in "zam")
