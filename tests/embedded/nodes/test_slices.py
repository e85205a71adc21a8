"""Simulated nodes whose devices a DRA driver publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.writes.delete import DeleteOptions
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
DRIVER: Final = "gpu.nvidia.com"
NODE: Final = "dgx1-v100-dra-0"
SLICES: Final = "resourceslices.resource.k8s.io"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
FLEET: Final = {"dgx1-v100/dra": 1}


def published(cluster: ClusterUnderTest) -> Raw:
    (found,) = cluster.store.list(SLICES).items
    document: Raw = found.read()
    return document


def tainted(cluster: ClusterUnderTest) -> list[str]:
    return [each["name"] for each in published(cluster)["spec"]["devices"] if each.get("taints")]


def claim(cluster: ClusterUnderTest, *indices: int) -> Raw:
    """A claim that is pinned to these devices, and what a pod says of it."""
    uuids = ", ".join(f'"nvidia-{NODE}-{index}"' for index in indices)
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].uuid in [{uuids}]'}}
    request = {"deviceClassName": DRIVER, "count": len(indices), "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "main", "exactly": request}]}}
    cluster.store.create(CLAIMS, {"metadata": {"name": "mine"}, "spec": spec}, "default")
    return {"resourceClaims": [{"name": "gpus", "resourceClaimName": "mine"}]}


@embedded(FLEET)
async def test_a_node_publishes_a_slice_and_no_allocatable_devices(cluster: ClusterUnderTest) -> None:
    node, found = cluster.store.get("nodes", NODE), published(cluster)
    assert GPU not in node.read()["status"]["allocatable"]
    assert [(each["kind"], each["uid"]) for each in found["metadata"]["ownerReferences"]] == [("Node", node.uid)]
    assert (found["spec"]["nodeName"], found["spec"]["pool"]["generation"]) == (NODE, 1)
    inventory = cluster.store.get("deviceinventories.linkwise.dev", NODE).read()["spec"]
    uuids = [each["attributes"]["uuid"]["string"] for each in found["spec"]["devices"]]
    assert uuids == [each["uuid"] for each in inventory["devices"]]
    served = cluster.store.get("deviceclasses.resource.k8s.io", DRIVER).read()["spec"]
    assert served["extendedResourceName"] == GPU


@embedded(FLEET)
async def test_a_slice_goes_with_its_node(cluster: ClusterUnderTest) -> None:
    cluster.embedded.nodes.remove(NODE)
    await cluster.until(lambda: not cluster.store.list(SLICES).items, "the slice is gone")


@embedded(FLEET)
async def test_a_failed_device_is_tainted_until_it_is_repaired(cluster: ClusterUnderTest) -> None:
    cluster.embedded.nodes.kill_device(NODE, 3)
    assert tainted(cluster) == ["gpu-3"]
    assert published(cluster)["spec"]["pool"]["generation"] == 2
    cluster.embedded.nodes.repair_device(NODE, 3)
    assert not tainted(cluster)


@embedded(FLEET)
async def test_the_containers_of_a_pod_end_with_a_device_of_its_claim(cluster: ClusterUnderTest) -> None:
    await cluster.place("p", restartPolicy="Never", **claim(cluster, 2, 5))
    await cluster.phase("p", "Running")
    assert not cluster.embedded.nodes.kill_device(NODE, 4)
    uid = cluster.store.get("pods", "p", "default").uid
    assert cluster.embedded.nodes.kill_device(NODE, 5) == [uid]
    await cluster.phase("p", "Failed")


@embedded(FLEET)
async def test_a_pod_that_restarts_on_a_failed_device_of_its_claim_does_not_start(cluster: ClusterUnderTest) -> None:
    await cluster.place("p", **claim(cluster, 2))
    await cluster.phase("p", "Running")
    cluster.embedded.nodes.kill_device(NODE, 2)

    def waiting() -> bool:
        (container,) = cluster.pod("p")["status"]["containerStatuses"]
        state: dict[str, Any] = container["state"]
        return "waiting" in state

    await cluster.until(waiting, "the container waits")
    cluster.embedded.nodes.repair_device(NODE, 2)
    await cluster.until(lambda: not waiting(), "the container runs")


@embedded(FLEET)
async def test_a_pod_does_not_start_with_a_claim_that_is_not_reserved_for_it(cluster: ClusterUnderTest) -> None:
    cluster.create("p", nodeName=NODE, **claim(cluster, 1))
    message = await cluster.wait_for_event("p", "FailedPrepareDynamicResources")
    assert "is not allowed to use ResourceClaim mine" in message
    assert cluster.pod("p")["status"]["phase"] == "Pending"
    cluster.store.delete("pods", "p", "default", DeleteOptions(grace_period_seconds=0))
    await cluster.place("q", resourceClaims=[{"name": "gpus", "resourceClaimName": "mine"}])
    await cluster.phase("q", "Running")
