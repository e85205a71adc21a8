"""Nodes with a device plugin and nodes whose devices ResourceClaims allocate, side by side under a real kube-scheduler.

No DRA driver runs: slices are objects, and kube-scheduler allocates claims from them by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from support.builders.dra_objects import DRIVER, device, device_class, resource_slice
from support.e2e.node_objects import machine, node
from support.e2e.processes import wait_for
from support.e2e.service import GRANT

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Granted, Placing

GPU = "nvidia.com/gpu"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"


@pytest.fixture
def devices(placing: Placing) -> Placing:
    """A cluster whose DeviceClass serves nvidia.com/gpu."""
    if not placing.cluster.api.answers("/apis/resource.k8s.io/v1"):
        pytest.skip("this needs resource.k8s.io/v1")
    placing.cluster.create([device_class()])
    return placing


def published(placing: Placing, *things: Raw) -> None:
    """Make nodes and slices, and wait until the service knows them."""
    slices = [thing for thing in things if thing["kind"] == "ResourceSlice"]
    placing.cluster.create(slices)
    wanted = {thing["metadata"]["name"] for thing in slices}
    placing.nodes(*(thing for thing in things if thing["kind"] != "ResourceSlice"))
    wait_for(
        lambda: wanted <= placing.snapshot()["shared"].get("ResourceSlice.resource.k8s.io", {}).keys(), 15, "slices"
    )


def bare(name: str, count: int) -> list[Raw]:
    """A node without a device plugin, and a slice of its devices."""
    return [node(name), resource_slice(name, count)]


def allocated(placing: Placing) -> dict[str, list[tuple[str, str]]]:
    """Node and device by the name of each claim that has devices."""
    found: dict[str, list[tuple[str, str]]] = {}
    for claim in placing.cluster.api.list(CLAIMS):
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        found[claim["metadata"]["name"]] = [(result["pool"], result["device"]) for result in results]
    return found


def no_record_is_wrong(placing: Placing, by_claims: set[str], *, killed: bool = False) -> dict[str, Raw]:
    """Check records and claims of all pods; returns the bound pods by name.

    On nodes of `by_claims` a pod has a claim and no record, on others a record and no claim; no device is there twice.
    If the service was killed, kube-scheduler may have deleted the claim of a bind that was written and not answered.
    """
    pods = [pod for pod in placing.cluster.api.list("/api/v1/pods") if pod["spec"].get("nodeName")]
    claims = allocated(placing)
    taken = Counter(device for devices in claims.values() for device in devices)
    assert not [device for device, count in taken.items() if count > 1]
    for pod in pods:
        about, served = pod["metadata"], pod["status"].get("extendedResourceClaimStatus")
        keys = about.get("annotations") or {}
        claimed = pod["spec"]["nodeName"] in by_claims
        assert (GRANT in keys, bool(served)) == (not claimed, claimed), (about["name"], keys, served)
        if served and (not killed or served["resourceClaimName"] in claims):
            asked = int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
            assert len(claims[served["resourceClaimName"]]) == asked
            assert {node for node, _ in claims[served["resourceClaimName"]]} == {pod["spec"]["nodeName"]}
    return {pod["metadata"]["name"]: pod for pod in pods}


def test_pods_land_on_nodes_of_both_kinds_and_no_record_is_wrong(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *machine("plugin", "nvlink"), *bare("dra-1", 4), *bare("dra-2", 4))
    names = [f"p{number}" for number in range(8)]
    for name in names:
        devices.create(namespace, name, {GPU: 2})
    held = {name: devices.placed(namespace, name) for name in names}
    assert Counter(granted.node for granted in held.values()) == {"plugin": 4, "dra-1": 2, "dra-2": 2}
    no_record_is_wrong(devices, {"dra-1", "dra-2"})
    devices.create(namespace, "more", {GPU: 2})
    devices.refused(namespace, "more")
    gone = next(name for name, granted in held.items() if granted.node == "dra-1")
    devices.gone(namespace, gone)
    assert devices.placed(namespace, "more", 30).node == "dra-1"
    no_record_is_wrong(devices, {"dra-1", "dra-2"})


def test_a_restart_in_the_middle_keeps_the_counts_right(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *machine("plugin", "nvlink"), *bare("dra-1", 12))
    for number in range(12):
        devices.create(namespace, f"p{number}", {GPU: 1})
    devices.placed(namespace, "p0")
    devices.serve.restart()
    # A pod whose bind failed after its claim was made must get another claim, so there must be room for all of them.
    held = Counter(devices.placed(namespace, f"p{number}", 60).node for number in range(12))
    no_record_is_wrong(devices, {"dra-1"}, killed=True)
    free = {name: count - held[name] for name, count in (("plugin", 8), ("dra-1", 12))}
    devices.create(namespace, "large", {GPU: max(free.values()) + 1})
    devices.refused(namespace, "large")
    for name, count in free.items():
        there = {"nodeSelector": {"kubernetes.io/hostname": name}}
        assert not count or devices.place(namespace, f"fills-{name}", {GPU: count}, **there).node == name
    devices.create(namespace, "more", {GPU: 1})
    devices.refused(namespace, "more")
    no_record_is_wrong(devices, {"dra-1"}, killed=True)


def test_a_burst_of_fifty_fills_the_nodes_and_frees_them_again(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *(thing for number in range(5) for thing in bare(f"dra-{number}", 8)))
    for number in range(50):
        devices.create(namespace, f"p{number}", {GPU: 1})

    def bound() -> list[str]:
        pods = devices.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]

    wait_for(lambda: len(bound()) == 40, 60, "40 of 50 pods have devices")
    nodes = {f"dra-{number}" for number in range(5)}
    first = no_record_is_wrong(devices, nodes)
    devices.gone(namespace, *list(first)[:20])
    wait_for(lambda: len(bound()) == 30, 60, "the rest have devices")
    no_record_is_wrong(devices, nodes)


def test_claims_of_pods_themselves_count_and_explanations_name_the_devices(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *bare("dra-1", 4))
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 3}}
    spec = {"devices": {"requests": [request]}}
    about = {"name": "mine", "namespace": namespace}
    devices.cluster.create(
        [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": about, "spec": spec}]
    )
    claims: dict[str, Any] = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "mine"}]}
    assert devices.place(namespace, "claims", **claims).node == "dra-1"
    devices.create(namespace, "two", {GPU: 2})
    devices.refused(namespace, "two")
    granted: Granted = devices.place(namespace, "one", {GPU: 1})
    assert (granted.node, granted.devices) == ("dra-1", ())
    assert "a ResourceClaim allocates the devices" in devices.wait_for_event(namespace, "one", "NodeChosen")
    (name,) = [each for claim, found in allocated(devices).items() if claim != "mine" for _, each in found]
    assert f"allocated by a ResourceClaim: GPU-{name}" in devices.explain(namespace, "one")  # its UUID


def test_on_a_node_with_both_the_device_plugin_serves_the_resource(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *machine("both", "nvlink", source="count"), resource_slice("both", [device("gpu-0")]))
    granted = devices.place(namespace, "train", {GPU: 2})
    assert (granted.node, granted.devices) == ("both", ("#0", "#1"))
    assert not any(allocated(devices).values())


def test_a_gang_starts_on_nodes_of_both_kinds(devices: Placing) -> None:
    namespace = devices.namespace()
    published(devices, *machine("plugin", "nvlink"), *bare("dra-1", 4), *bare("dra-2", 4))
    key = "gang.scheduling.koordinator.sh"
    gang = {f"{key}/name": "job", f"{key}/min-available": "8", f"{key}/total-number": "8"}
    gang["linkwise.dev/models"] = "any"
    for number in range(8):
        devices.create(namespace, f"m{number}", {GPU: 2}, annotations=gang)
    held = Counter(devices.placed(namespace, f"m{number}", 60).node for number in range(8))
    assert held == {"plugin": 4, "dra-1": 2, "dra-2": 2}
    no_record_is_wrong(devices, {"dra-1", "dra-2"})
