"""The agent as a DRA driver: kube-scheduler allocates its slices, and a real kubelet prepares claims with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.dialects.kubernetes.claims.driver import DRIVER
from support.e2e.agent import GPU
from support.e2e.config_files import AGENT
from support.e2e.processes import wait_for
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import printed
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SECONDS = 60.0


def slices(agent: Agent) -> dict[str, Raw]:
    """The slices of the agent, by name."""
    found = agent.cluster.api.list(SLICES)
    return {one["metadata"]["name"]: one for one in found if one["spec"]["driver"] == DRIVER}


def published(agent: Agent) -> dict[str, Raw]:
    """The devices of a complete pool, by name."""
    found = list(slices(agent).values())
    pools = [one["spec"]["pool"] for one in found]
    if not pools or any(pool != pools[0] or pool["resourceSliceCount"] != len(found) for pool in pools):
        raise AssertionError(f"{pools}\n{agent.process.tail()}")
    return {device["name"]: device for one in found for device in one["spec"].get("devices", ())}


@pytest.fixture
def driver(agent: Agent) -> Iterator[Agent]:
    """The agent serves claims on eight GPUs, and kube-scheduler allocates them."""
    role = printed("manifests", "rbac", "--agent", "--dra", "--user", AGENT, "--name", "e2e-agent-claims")
    agent.cluster.apply(role, "kube-system")
    agent.cluster.apply(printed("manifests", "device-classes"))
    agent.start(dgx1_v100(), mode="dra")
    wait_for(lambda: published(agent), SECONDS, "the pool is complete")
    agent.cluster.scheduler.run(agent.cluster.scheduling())
    yield agent
    agent.cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


def claim(agent: Agent, namespace: str, name: str, kind: str = DRIVER, count: int = 1, **exactly: Any) -> Raw:  # noqa: ANN401 - fields of a request
    """Create a claim of devices of a class."""
    request = {"name": "gpus", "exactly": {"deviceClassName": kind, "count": count, **exactly}}
    made: Raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }
    agent.cluster.api.create(made)
    return made


def claiming(namespace: str, name: str) -> Raw:
    """A pod that uses the claim of its name."""
    made = scheduled_pod(namespace, name, resourceClaims=[{"name": "gpus", "resourceClaimName": name}])
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return made


def allocated(agent: Agent, namespace: str, name: str) -> list[str]:
    """The devices of a claim."""
    found = agent.cluster.api.get(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
    return [one["device"] for one in found["status"]["allocation"]["devices"]["results"]]


def cards(node: RealNode, pod: Raw) -> set[str]:
    """The device nodes of GPUs in the container of a pod."""
    return {path for path in node.devices(pod) if path.removeprefix("/dev/nvidia").isdigit()}


def specifications(node: RealNode) -> list[str]:
    """The CDI specifications of claims."""
    return sorted(file.name for file in node.cdi.glob("linkwise.dev-claim-*.json"))


def test_a_container_sees_the_best_pair_that_is_free_and_leaves_nothing_behind(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    devices = published(driver)
    assert {f"gpu-{index}" for index in range(8)} <= devices.keys()
    best = max(one["attributes"]["bandwidth"]["int"] for name, one in devices.items() if name.startswith("pair"))
    seen: set[str] = set()
    pods = [claiming(namespace, f"train-{number}") for number in range(4)]
    for pod in pods:
        claim(driver, namespace, pod["metadata"]["name"], f"pair.{DRIVER}")
        real_node.run(pod)
        (name,) = allocated(driver, namespace, pod["metadata"]["name"])
        assert devices[name]["attributes"]["bandwidth"]["int"] >= 0.95 * best
        members = devices[name]["attributes"]["devices"]["string"].split(",")
        assert cards(real_node, pod) == {f"/dev/nvidia{member}" for member in members}
        uuids = {devices[name]["attributes"][f"uuid{n}"]["string"] for n in range(2)}
        assert set(real_node.environment(pod)["CUDA_VISIBLE_DEVICES"].split(",")) == uuids
        assert seen.isdisjoint(uuids)
        seen |= uuids
    assert len(specifications(real_node)) == 4
    for pod in pods:
        real_node.remove(pod)
    assert specifications(real_node) == []


def test_a_claim_that_names_a_device_gets_it_and_no_set_with_it(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    uuid = published(driver)["gpu-5"]["attributes"]["uuid"]["string"]
    expression = f'device.attributes["{DRIVER}"].uuid in ["{uuid}"]'
    claim(driver, namespace, "pinned", selectors=[{"cel": {"expression": expression}}])
    pod = claiming(namespace, "pinned")
    real_node.run(pod)
    assert cards(real_node, pod) == {"/dev/nvidia5"}
    assert real_node.environment(pod)["NVIDIA_VISIBLE_DEVICES"] == uuid
    claim(driver, namespace, "four", f"four.{DRIVER}")
    other = claiming(namespace, "four")
    real_node.run(other)
    assert len(cards(real_node, other)) == 4
    assert "/dev/nvidia5" not in cards(real_node, other)


def test_a_pod_that_requests_an_extended_resource_gets_single_devices(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    driver.cluster.apply(printed("manifests", "device-classes", "--extended-resource", GPU))
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    real_node.run(pod)
    given = cards(real_node, pod)
    assert len(given) == 2
    assert len(real_node.environment(pod)["CUDA_VISIBLE_DEVICES"].split(",")) == 2
    claim(driver, namespace, "four", f"four.{DRIVER}")
    other = claiming(namespace, "four")
    real_node.run(other)
    assert cards(real_node, other).isdisjoint(given)


def test_a_fault_is_in_the_status_of_the_pod_within_two_seconds(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    claim(driver, namespace, "train")
    pod = claiming(namespace, "train")
    real_node.run(pod)
    (name,) = allocated(driver, namespace, "train")
    index = int(name.removeprefix("gpu-"))

    def health() -> Raw:
        found = driver.cluster.pod(namespace, "train")["status"]["containerStatuses"][0]
        entries = [one for each in found.get("allocatedResourcesStatus", ()) for one in each["resources"]]
        return entries[0] if entries else {}

    wait_for(lambda: health().get("health") == "Healthy", SECONDS, "the pod has healthy devices")
    began = time.monotonic()
    driver.has(dgx1_v100().with_xid(index, 79))
    wait_for(lambda: health().get("health") == "Unhealthy", 10.0, "the fault is in the status of the pod")
    assert time.monotonic() - began < 2
    wait_for(lambda: "taints" in published(driver)[name], 10.0, "the device has a taint")
    (taint,) = published(driver)[name]["taints"]
    assert taint["key"] == "linkwise.dev/unhealthy"
    assert "Xid-79" in taint["value"]
    assert cards(real_node, pod) == {f"/dev/nvidia{index}"}  # it keeps running


def test_slices_return_after_a_restart_of_the_kubelet_and_pods_keep_their_devices(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    claim(driver, namespace, "train", f"four.{DRIVER}")
    pod = claiming(namespace, "train")
    real_node.run(pod)
    before, uids = published(driver), {one["metadata"]["uid"] for one in slices(driver).values()}
    given = cards(real_node, pod)
    real_node.restart_kubelet()

    def returned() -> bool:
        return published(driver) == before and uids.isdisjoint(
            one["metadata"]["uid"] for one in slices(driver).values()
        )

    wait_for(returned, SECONDS, "the slices are others with the same content")
    assert {one["spec"]["pool"]["generation"] for one in slices(driver).values()} == {1}
    assert cards(real_node, pod) == given
    claim(driver, namespace, "next", f"pair.{DRIVER}")
    following = claiming(namespace, "next")
    real_node.run(following)
    assert cards(real_node, following).isdisjoint(given)
    real_node.remove(pod)
    assert len(specifications(real_node)) == 1


def test_a_killed_agent_prepares_what_waited_and_takes_back_what_it_gave(
    driver: Agent, real_node: RealNode, namespace: str
) -> None:
    claim(driver, namespace, "before", f"pair.{DRIVER}")
    first = claiming(namespace, "before")
    real_node.run(first)
    given = cards(real_node, first)
    driver.kill()
    claim(driver, namespace, "during", f"pair.{DRIVER}")
    second = claiming(namespace, "during")
    driver.cluster.api.create(second)
    wait_for(
        lambda: any("FailedPrepareDynamicResources" in event for event in real_node.events(second)),
        SECONDS,
        "the kubelet has tried it without a driver",
    )
    driver.restart()
    real_node.wait_phase(second, "Running", SECONDS)
    assert cards(real_node, second).isdisjoint(given)
    for pod in (first, second):
        real_node.remove(pod)
    assert specifications(real_node) == []
