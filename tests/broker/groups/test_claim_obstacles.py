"""Why a claim of ours is not allocated: explained, and reported once, where kube-scheduler is silent or vague."""

from __future__ import annotations

from linkwise.broker.effects import Event
from linkwise.dialects.kubernetes.claims.requests import claim_name
from linkwise.explain.pod import explain_pod
from linkwise.explain.published.publishing import finding_of
from linkwise.explain.text.pod import explanation_lines
from support.builders.dra_objects import claim, device, device_class, resource_slice
from support.claim_cluster import ClaimCluster, claim_node, claim_pod, seen

NAME = claim_name("a")


def ungated(cluster: ClaimCluster, count: int = 2) -> ClaimCluster:
    """A pod with its claim and without its gate, which kube-scheduler has not tried."""
    cluster.create(claim_pod("a", count))
    cluster.write_claims()
    cluster.write()
    assert not cluster.gated()
    return cluster


def explained(cluster: ClaimCluster, name: str = "a") -> str:
    report = explain_pod(cluster.broker, f"uid-{name}", cluster.now)
    assert report
    return "\n".join(explanation_lines(report))


def events(cluster: ClaimCluster) -> list[str]:
    return [each.sentence for each in cluster.effects if isinstance(each, Event) and each.reason == "ClaimPending"]


def test_a_taken_device_is_named_with_the_claim_and_the_pod_that_have_it() -> None:
    cluster = ungated(ClaimCluster(claim_node("n", 2)))
    taken = claim("theirs", "n", ["gpu-1"])
    taken["status"]["reservedFor"] = [{"resource": "pods", "name": "other", "uid": "u"}]
    cluster.put_claim(taken)
    device_named = f"device GPU-gpu-1 of node n, which ResourceClaim {NAME} names"
    assert events(cluster) == [f"{device_named}, is allocated to ResourceClaim default/theirs of pod default/other"]


def test_a_claim_of_another_namespace_is_not_named() -> None:
    cluster = ungated(ClaimCluster(claim_node("n", 2)))
    cluster.put_claim(claim("theirs", "n", ["gpu-0", "gpu-1"], namespace="secret"))
    (said,) = events(cluster)
    assert said.endswith("are allocated to a ResourceClaim of another namespace")


def test_a_claim_that_somebody_deleted_is_named_and_written_again() -> None:
    cluster = ungated(ClaimCluster(claim_node("n")))
    cluster.delete_claim(f"default/{NAME}")
    assert events(cluster) == [
        f"ResourceClaim {NAME} does not exist: kube-scheduler does not try the pod until it does, and reports nothing"
    ]
    cluster.settle()
    assert cluster.bound() == {"a": "n"}


def test_a_claim_that_is_being_replaced_is_not_missed() -> None:
    cluster = ungated(ClaimCluster(claim_node("n")))
    cluster.put_claim(claim("theirs", "n", ["gpu-1"]))
    cluster.settle()
    assert cluster.devices_of("a") == ["gpu-2", "gpu-3"]
    assert not [said for said in events(cluster) if "does not exist" in said]


def test_a_tainted_device_is_named_with_its_taint() -> None:
    cluster = ungated(ClaimCluster(claim_node("n", 2)))
    wrong = [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule", "timeAdded": "2026-11-19T08:00:00Z"}]
    cluster.see(seen(resource_slice("n", [device("gpu-0"), device("gpu-1", taints=wrong)])))
    fault = "the driver lost the GPU, taint gpu.nvidia.com/gpu-lost:NoSchedule since 2026-11-19T08:00:00Z"
    assert events(cluster) == [f"device GPU-gpu-1 of node n, which ResourceClaim {NAME} names, is unhealthy: {fault}"]
    assert f"device 1: {fault}" in explained(cluster)


def test_a_device_that_its_driver_does_not_publish_any_more_is_named() -> None:
    cluster = ungated(ClaimCluster(claim_node("n", 2)))
    cluster.see(seen(resource_slice("n", [device("gpu-0")])))
    (said,) = events(cluster)
    assert said.endswith("is not published any more")


def test_a_class_that_is_gone_is_named() -> None:
    cluster = ungated(ClaimCluster(claim_node("n")))
    cluster.see(seen(device_class(), gone=True))
    sentence = (
        "no DeviceClass has the extendedResourceName nvidia.com/gpu, so its ResourceClaim can't be served; "
        "create DeviceClass gpu.nvidia.com again"
    )
    assert events(cluster) == [sentence]
    assert sentence in explained(cluster)


def test_the_condition_of_the_pod_has_the_reason() -> None:
    cluster = ungated(ClaimCluster(claim_node("n")))
    cluster.see(seen(device_class(), gone=True))
    report = explain_pod(cluster.broker, "uid-a", cluster.now)
    assert report
    finding = finding_of(report)
    assert finding
    assert "its ResourceClaim can't be allocated: no DeviceClass has" in finding.sentence


def test_a_pool_that_is_incomplete_is_named() -> None:
    cluster = ClaimCluster(claim_node("n"), objects=[resource_slice("n", 4, total=2)])
    cluster.create(claim_pod("a", 2))
    assert (
        "node n: nvidia.com/gpu: pool n of driver gpu.nvidia.com: 1 of 2 slices are published; its devices are not counted"
    ) in explained(cluster)


def test_nothing_is_said_about_a_pod_that_is_bound() -> None:
    cluster = ungated(ClaimCluster(claim_node("n")))
    cluster.settle()
    assert cluster.bound() == {"a": "n"}
    assert events(cluster) == []
