"""Simulated nodes allocate devices with the node agent's own code: what a container sees is what is on record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.node_objects import device_ids, gpushare, koordinator, machine
from support.e2e.service import grant
from support.embedded.cluster import QUICK, Bed, embedded

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
NODE: Final = "dgx1-v100-0"
INVENTORIES: Final = "deviceinventories.linkwise.dev"
GROUP: Final = "gputopology.scheduling.koordinator.sh/"
SLOW: Final = replace(QUICK, simulation=replace(QUICK.simulation, start_delay=0.5))
"""time to change something between the binding and the start"""


def own(bed: Bed, name: str, container: str = "main") -> list[str]:
    """The devices that a container uses."""
    return environment(bed, name, container).get("CUDA_VISIBLE_DEVICES", "").split(",")


def environment(bed: Bed, name: str, container: str = "main") -> dict[str, str]:
    return bed.cluster.nodes.environment(bed.pod(name)["metadata"]["uid"], container)


def on_record(bed: Bed, name: str) -> list[str]:
    return list(grant(bed.pod(name)).devices)


def published(bed: Bed, node: str = NODE) -> dict[str, list[str]]:
    """Devices by the name of the pod, as the inventory lists them."""
    status = bed.store.get(INVENTORIES, node).read().get("status") or {}
    return {each["name"]: each["devices"] for each in status.get("allocations", ())}


def container(name: str, limits: Mapping[str, int], **more: str) -> dict[str, Any]:
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "image": "example.com/none", "resources": {"limits": amounts}, **more}


@pytest.mark.rule("000.agree")
@embedded({"dgx1-v100": 3})
async def test_pods_of_one_size_that_are_created_together_get_the_devices_on_record(bed: Bed) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        bed.create(name, {GPU: 1})
    for name in names:
        await bed.phase(name, "Running")
    assert all(own(bed, name) == on_record(bed, name) for name in names)
    listed = [published(bed, node.name) for node in bed.store.list("nodes").items]
    assert {name: devices for each in listed for name, devices in each.items()} == {
        name: on_record(bed, name) for name in names
    }
    assert not any(bed.events(name, "RecordCorrected") for name in names)


@embedded({"dgx1-v100": 1})
async def test_the_containers_of_a_pod_get_their_own_devices(bed: Bed) -> None:
    containers = [container("small", {GPU: 1}), container("large", {GPU: 2}), container("none", {})]
    granted = await bed.place("two", containers=containers)
    await bed.phase("two", "Running")
    assert {name: own(bed, "two", name) for name in ("small", "large")} == {
        name: part["devices"] for name, part in granted.containers.items()
    }
    assert environment(bed, "two", "none") == {}


@pytest.mark.rule("001.environment")
@embedded({"dgx1-v100-measured": 1})
async def test_members_of_a_group_see_all_its_devices_on_the_node_and_use_their_own(bed: Bed) -> None:
    for name in ("a", "b"):
        bed.create(name, {GPU: 2}, labels={f"{GROUP}name": "g", f"{GROUP}replica": "2"})
    records = {name: on_record(bed, name) for name in ("a", "b") if await bed.phase(name, "Running")}
    everything = {device for devices in records.values() for device in devices}
    for name, devices in records.items():
        assert own(bed, name) == devices
        assert set(environment(bed, name)["NVIDIA_VISIBLE_DEVICES"].split(",")) == everything


@pytest.mark.parametrize("sidecar", [False, True])
@embedded({"dgx1-v100": 1})
async def test_an_init_container_uses_devices_of_the_containers_after_it(bed: Bed, *, sidecar: bool) -> None:
    later = [container("watch", {GPU: 1}, restartPolicy="Always")] if sidecar else []
    granted = await bed.place("p", {GPU: 2}, initContainers=[container("load", {GPU: 1}), *later])
    await bed.phase("p", "Running")
    assert {*own(bed, "p", "load")} < {*granted.devices}
    for name, part in granted.containers.items():
        assert own(bed, "p", name) == part["devices"]
    assert sorted(published(bed)["p"]) == sorted(granted.devices)
    assert not bed.events("p", "RecordCorrected")


@embedded({"dgx1-v100": 1})
async def test_containers_that_are_restarted_keep_their_devices(bed: Bed) -> None:
    granted = await bed.place("again", {GPU: 2}, annotations={"sim.linkwise.dev/seconds": "0.01"})

    def restarts() -> int:
        return sum(each["restartCount"] for each in bed.pod("again")["status"].get("containerStatuses", ()))

    await bed.until(lambda: restarts() >= 2, "it was restarted")
    assert own(bed, "again") == list(granted.devices)
    assert published(bed) == {"again": list(granted.devices)}


@pytest.mark.rule("004.allocate", "004.environment")
@embedded({"p40-share": 1})
async def test_a_share_is_given_as_it_is_on_record_and_marked_as_assigned(bed: Bed) -> None:
    granted = await bed.place("part", {MEMORY: 6})
    pod = await bed.phase("part", "Running")
    assert own(bed, "part") == list(granted.devices)
    assert (
        environment(bed, "part").items()
        >= {
            "ALIYUN_COM_GPU_MEM_IDX": "0",
            "ALIYUN_COM_GPU_MEM_POD": "6",
            "ALIYUN_COM_GPU_MEM_CONTAINER": "6",
        }.items()
    )
    assert pod["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"


@pytest.mark.parametrize("node", ["p40-share-0", "plugin"])
@embedded({"p40-share": 1})
async def test_a_share_without_a_record_is_refused_with_the_sentence_of_the_agent(bed: Bed, node: str) -> None:
    await bed.nodes(*gpushare("plugin"))
    bed.create("stranger", {MEMORY: 4}, nodeName=node)
    pod = await bed.phase("stranger", "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert f"no pod on this node has 4 {MEMORY} on record" in pod["status"]["message"]
    assert bed.events("stranger", "UnexpectedAdmissionError")


@embedded({"dgx1-v100": 1})
async def test_whole_devices_without_a_record_are_chosen_as_the_scheduler_would_and_published(bed: Bed) -> None:
    bed.create("stranger", {GPU: 2}, nodeName=NODE, scheduler="other-scheduler")
    await bed.phase("stranger", "Running")
    ids = [f"nvidia-{NODE}-{index}" for index in range(8)]
    assert own(bed, "stranger") == [ids[0], ids[3]]  # the first pair with two NVLinks
    assert published(bed) == {"stranger": [ids[0], ids[3]]}


@embedded({"dgx1-v100": 1})
async def test_a_pod_for_which_too_few_devices_are_left_is_rejected(bed: Bed) -> None:
    await bed.place("first", {GPU: 6})
    await bed.phase("first", "Running")
    bed.create("stranger", {GPU: 4}, nodeName=NODE, scheduler="other-scheduler")
    pod = await bed.phase("stranger", "Failed")
    assert f"unavailable for {GPU}. Requested: 4, Available: 2" in pod["status"]["message"]
    assert set(published(bed)) == {"first"}


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_a_device_that_fails_before_the_start_is_replaced_and_the_record_corrected(bed: Bed) -> None:
    granted = await bed.place("train", {GPU: 2})
    failed = granted.devices[0]
    bed.cluster.nodes.kill_device(NODE, int(failed.rpartition("-")[2]))
    await bed.phase("train", "Running")
    assert failed not in own(bed, "train")
    assert own(bed, "train") == on_record(bed, "train") == published(bed)["train"]
    assert "the kubelet allocated other devices than those chosen" in await bed.told("train", "RecordCorrected")
    await bed.well()


@embedded({"dgx1-v100": 1})
async def test_a_record_that_is_changed_while_the_pod_runs_is_corrected(bed: Bed) -> None:
    granted = await bed.place("train", {GPU: 1})
    await bed.phase("train", "Running")
    text = granted.annotations["linkwise.dev/grant"].replace(granted.devices[0], f"nvidia-{NODE}-7")
    bed.store.patch("pods", "train", {"metadata": {"annotations": {"linkwise.dev/grant": text}}}, "default")
    await bed.told("train", "RecordCorrected", granted.devices[0])
    assert on_record(bed, "train") == own(bed, "train") == list(granted.devices)
    await bed.well()


@embedded({"atlas-800": 1})
async def test_chips_of_other_vendors_are_given_in_their_own_variables(bed: Bed) -> None:
    granted = await bed.place("train", {"huawei.com/Ascend910": 2})
    await bed.phase("train", "Running")
    numbers = sorted(device.rpartition("-")[2] for device in granted.devices)
    assert environment(bed, "train") == {"ASCEND_VISIBLE_DEVICES": ",".join(numbers)}


@embedded()
async def test_percents_are_allocated_by_their_record_and_no_agent_gives_variables(bed: Bed) -> None:
    await bed.nodes(*koordinator("koord"))
    granted = await bed.place("half", {"koordinator.sh/gpu": 50})
    await bed.phase("half", "Running")
    index = device_ids("koord", "dgx1-v100-measured").index(granted.devices[0])
    assert bed.cluster.nodes.devices.users("koord", index) == [bed.pod("half")["metadata"]["uid"]]
    assert environment(bed, "half") == {}


@embedded()
async def test_where_another_plugin_serves_the_devices_the_record_holds_too(bed: Bed) -> None:
    await bed.nodes(*machine("plugin", "nvlink", told="annotation"))
    granted = await bed.place("train", {GPU: 2})
    await bed.phase("train", "Running")
    uid = bed.pod("train")["metadata"]["uid"]
    assert [bed.cluster.nodes.devices.users("plugin", int(device[1:])) for device in granted.devices] == [[uid]] * 2
    assert on_record(bed, "train") == list(granted.devices)


@embedded({"dgx1-v100": 1}, settings=SLOW)
async def test_pods_that_a_silent_node_had_not_started_get_their_devices_when_it_is_back(bed: Bed) -> None:
    for name in ("z", "a", "m"):
        await bed.place(name, {GPU: 1})
    bed.cluster.nodes.stop_heartbeat(NODE)
    bed.cluster.nodes.resume_heartbeat(NODE)
    for name in ("z", "a", "m"):
        await bed.phase(name, "Running")
        assert own(bed, name) == on_record(bed, name)
    assert not any(bed.events(name, "RecordCorrected") for name in "zam")
