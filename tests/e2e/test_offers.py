"""A pod whose offered nodes fail later is placed in the end: the same few are not offered for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import all_is_well
from support.e2e.node_objects import gpushare, machine
from support.e2e.processes import wait_for
from support.e2e.refused_binds import binds_refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    made = placing.namespace()
    yield made
    placing.cluster.api.delete(f"/api/v1/persistentvolumes/data-{made}")
    placing.cluster.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/local-{made}")


def test_a_pod_that_none_of_the_best_nodes_lets_in_gets_another_in_the_end(placing: Placing, namespace: str) -> None:
    best = [f"best-{number}" for number in range(3)]
    placing.nodes(*(thing for name in best for thing in machine(name, "nvlink")), *machine("plain", "pcie"))
    with binds_refused(placing.cluster, best):
        placing.create(namespace, "train", {GPU: 2})
        assert placing.placed(namespace, "train", 60).node == "plain"
    assert "no pods for this node today" in str(placing.cluster.events(namespace, "train"))
    all_is_well(placing)


@pytest.mark.rule("004.no-fit", level="R")
def test_a_bind_that_nothing_fits_is_refused_with_the_reason_and_leaves_nothing(
    placing: Placing, namespace: str
) -> None:
    placing.nodes(*gpushare("cards", 2, 22))
    placing.place(namespace, "first", {MEMORY: 16})
    placing.place(namespace, "second", {MEMORY: 16})
    third = placing.create(namespace, "third", {MEMORY: 12}, scheduler="another-scheduler")
    waiting = third["metadata"]
    before = placing.entries()
    asked = {"PodName": "third", "PodNamespace": namespace, "PodUID": waiting["uid"], "Node": "cards"}
    wait_for(lambda: waiting["uid"] in {pod["metadata"]["uid"] for pod in placing.snapshot()["pods"]}, 10, "it is seen")
    assert "was not filtered" in placing.serve.http.call("POST", "/bind", asked)["Error"]
    placing.serve.http.call("POST", "/filter", {"Pod": third, "NodeNames": ["cards"]})
    assert "12" in placing.serve.http.call("POST", "/bind", asked)["Error"]
    assert placing.entries() == before
    assert not placing.cluster.pod(namespace, "third")["spec"].get("nodeName")


def test_what_was_promised_for_a_bind_that_is_refused_is_free_again(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("only", "nvlink"))
    with binds_refused(placing.cluster, ["only"]):
        placing.create(namespace, "first", {GPU: 8})
        placing.wait_for_event(namespace, "first", "FailedScheduling")
        placing.gone(namespace, "first")
        assert placing.entries() == []
    assert len(placing.place(namespace, "second", {GPU: 8}).devices) == 8


def test_pods_get_in_as_soon_as_the_only_node_lets_them(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("only", "nvlink"))
    with binds_refused(placing.cluster, ["only"]):
        placing.create(namespace, "train", {GPU: 8})
        placing.wait_for_event(namespace, "train", "FailedScheduling")
    assert placing.placed(namespace, "train", 30).node == "only"
    all_is_well(placing)


def test_a_pod_whose_volume_is_on_one_node_goes_there_though_others_are_better(
    placing: Placing, namespace: str
) -> None:
    best = [thing for number in range(3) for thing in machine(f"best-{number}", "nvlink")]
    placing.nodes(*best, *machine("plain", "pcie"))
    local_volume(placing, namespace, "plain")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert placing.place(namespace, "train", {GPU: 2}, volumes=[volume]).node == "plain"
    all_is_well(placing)


def local_volume(placing: Placing, namespace: str, node: str) -> None:
    """A claim that waits for its pod, and the only volume for it."""
    amount, modes, name = {"storage": "1Gi"}, ["ReadWriteOnce"], f"local-{namespace}"
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    volume = {
        "capacity": amount,
        "accessModes": modes,
        "storageClassName": name,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
    }
    claim = {"storageClassName": name, "accessModes": modes, "resources": {"requests": amount}}
    sort = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    own = {"name": "data", "namespace": namespace}
    for thing in (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **sort},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"data-{namespace}"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": claim},
    ):
        placing.cluster.api.create(marked(thing))
