"""Containers have the devices on record: pods of the systems that Linkwise follows, scheduled and run for real."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from support.e2e.agent import CONTROL, GPU, MEMORY
from support.e2e.processes import wait_for
from support.e2e.real_node.images import IMAGE
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100, two_pcie

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

SEEDS = Path(__file__).parents[3] / "shared/seeds"
TOPOLOGY = "gputopology.scheduling.koordinator.sh"
SEEN_BY_THE_GROUP = "topology.scheduling.koordinator.sh/gpu"
BINPACK = {"name": "binpack-1", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
"""container of the sample of GPU share: one unit of memory"""


def group(name: str, replicas: int) -> dict[str, str]:
    """Labels of a group as Koordinator's proposal has them."""
    return {f"{TOPOLOGY}/name": name, f"{TOPOLOGY}/replica": str(replicas)}


def ids(names: str) -> list[str]:
    return names.split(",")


@pytest.mark.rule("000.agree", "002.nodes")
def test_a_container_has_the_devices_on_record(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    held = grant(real_node.run(pod))
    environment = real_node.environment(pod)
    assert ids(environment["NVIDIA_VISIBLE_DEVICES"]) == ids(environment["CUDA_VISIBLE_DEVICES"]) == list(held.devices)
    minors = held.positions(gpu.uuid or "" for gpu in dgx1_v100().gpus)
    assert real_node.devices(pod) == {f"/dev/nvidia{minor}": (195, minor) for minor in minors} | CONTROL
    whole_agent.agree(1)


@pytest.mark.rule("000.agree")
def test_gpus_of_a_pod_that_ends_are_given_to_the_next(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    for name in ("first", "second"):
        pod = scheduled_pod(namespace, name, {GPU: 8})
        real_node.run(pod)
        whole_agent.agree(1)
        real_node.remove(pod)
    whole_agent.agree(0)


@pytest.mark.rule("002.nodes", "002.inventory")
def test_the_pod_of_the_first_proposal_runs_under_todays_name(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    pod = scheduled_pod(namespace, "one", {GPU: 1})
    real_node.run(pod)
    (card,) = real_node.devices(pod).keys() - CONTROL.keys()
    assert re.fullmatch(r"/dev/nvidia\d", card)
    whole_agent.agree(1)


@pytest.mark.rule("001.environment")
def test_members_of_a_group_see_each_others_devices_and_use_their_own(
    whole_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    alone = scheduled_pod(namespace, "alone", {GPU: 1})
    real_node.run(alone)
    members = [scheduled_pod(namespace, f"member-{number}", {GPU: 2}, labels=group("job", 2)) for number in range(2)]
    for member in members:
        real_node.cluster.api.create(member)
    held = [grant(real_node.wait_phase(member, "Running")).devices for member in members]
    both = {device for devices in held for device in devices}
    for member, own in zip(members, held, strict=True):
        environment = real_node.environment(member)
        assert set(ids(environment["NVIDIA_VISIBLE_DEVICES"])) == both
        assert set(ids(environment["CUDA_VISIBLE_DEVICES"])) == set(own)
    assert both.isdisjoint(ids(real_node.environment(alone)["NVIDIA_VISIBLE_DEVICES"]))
    whole_agent.agree(3)


@pytest.mark.rule("001.environment", "000.agree")
def test_each_container_of_a_pod_has_its_own_devices(whole_agent: Agent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "two", {GPU: 1})
    second = {**pod["spec"]["containers"][0], "name": "second", "resources": {"limits": {GPU: "2"}}}
    pod["spec"]["containers"].append(second)
    held = grant(real_node.run(pod)).containers
    assert [len(held[name]["devices"]) for name in ("main", "second")] == [1, 2]
    for name, part in held.items():
        assert ids(real_node.environment(pod, name)["CUDA_VISIBLE_DEVICES"]) == part["devices"]
    whole_agent.agree(1)


# files of the driver


@pytest.mark.rule("002.libraries")
@pytest.mark.parametrize("cdi", ["auto", "never"])
def test_driver_files_reach_the_container(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str, cdi: str
) -> None:
    driver = real_node.machine.root / "run/driver"
    (driver / "usr/lib64").mkdir(parents=True)
    (driver / "usr/lib64/libcuda.so.1").write_text("the driver's")
    (driver / "dev").symlink_to("/dev")
    agent.start(two_pcie(), driver_root="/run/driver", cdi=cdi)
    agent.wait_seen(placing)
    pod = scheduled_pod(namespace, "train", {GPU: 1})
    real_node.run(pod)
    assert real_node.execute(pod, "cat", "/usr/local/nvidia/lib64/libcuda.so.1") == "the driver's"
    agent.agree(1)


# shares


@pytest.mark.rule("004.allocate", "004.environment")
def test_a_share_has_its_device_and_variables(share_agent: Agent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "share", {MEMORY: 3})
    second = {**pod["spec"]["containers"][0], "name": "second", "resources": {"limits": {MEMORY: "2"}}}
    pod["spec"]["containers"].append(second)
    held = grant(real_node.run(pod))
    seen = [real_node.environment(pod, name) for name in ("main", "second")]
    expected = {"IDX": held.annotations["ALIYUN_COM_GPU_MEM_IDX"], "POD": "5", "DEV": "15"}
    for environment, amount in zip(seen, ("3", "2"), strict=True):
        found = {name: environment[f"ALIYUN_COM_GPU_MEM_{name}"] for name in (*expected, "CONTAINER")}
        assert found == expected | {"CONTAINER": amount}
        assert ids(environment["NVIDIA_VISIBLE_DEVICES"]) == list(held.devices)
    share_agent.agree(1)


@pytest.mark.rule("004.allocate")
def test_a_share_is_marked_as_assigned_once_it_runs(share_agent: Agent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "share", {MEMORY: 4})
    real_node.run(pod)
    wait_for(lambda: annotations_of(real_node, pod)["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true", 10, "it is assigned")
    share_agent.agree(1)


@pytest.mark.rule("004.allocate", "004.environment")
def test_the_sample_of_gpu_share_keeps_its_own_variable_and_has_one_device(
    share_agent: Agent, real_node: RealNode, namespace: str
) -> None:
    """Kubernetes prefers the manifest's variable to the plugin's; device nodes can't be overridden by a manifest."""
    real_node.cluster.api.create(sample(namespace))
    pod = wait_for(lambda: next(iter(share_agent.pods()), None), 20, "the pod of the deployment has a node")
    held = grant(real_node.wait_phase(pod, "Running"))
    environment = real_node.environment(pod, "binpack-1")
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert ids(environment["CUDA_VISIBLE_DEVICES"]) == list(held.devices)
    index = environment["ALIYUN_COM_GPU_MEM_IDX"]
    assert real_node.devices(pod, "binpack-1").keys() == {f"/dev/nvidia{index}", *CONTROL}


def test_the_sample_is_that_of_the_seed() -> None:
    if not SEEDS.exists():
        pytest.skip("the seeds are not there")
    text = next(SEEDS.glob("004_*.txt")).read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: apps/v1\nkind: Deployment.*?)```", text, re.DOTALL)[:1]
    (container,) = yaml.safe_load(block)["spec"]["template"]["spec"]["containers"]
    assert {key: container[key] for key in BINPACK} == BINPACK
    assert container["resources"] == {"limits": {MEMORY: "1"}}


def sample(namespace: str) -> Raw:
    """The deployment of GPU share's guide, with an image that is there."""
    labels = {"app": "binpack-1"}
    container = BINPACK | {"image": IMAGE, "imagePullPolicy": "Never", "resources": {"limits": {MEMORY: "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "binpack-1", "namespace": namespace, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def annotations_of(real_node: RealNode, pod: Raw) -> Mapping[str, str]:
    found = real_node.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
    return dict(found["metadata"]["annotations"])
