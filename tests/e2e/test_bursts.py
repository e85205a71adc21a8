"""Pods that arrive together are packed as if they came one by one, through a real kube-scheduler, the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import all_is_well
from support.e2e.node_objects import gpushare, koordinator, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service_for_koordinator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

ROUNDS: Final = 20
PODS: Final = 8
GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
PERCENT: Final = "koordinator.sh/gpu"


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    with running_service_for_koordinator(kubernetes, "bursts") as serve:
        yield serve


@pytest.fixture
def three_of_each(placing: Placing) -> None:
    """Three machines that serve whole devices, three that serve memory, three that serve percents."""
    whole = [*machine("w1", "nvlink"), *machine("w2", "nvlink"), *machine("w3", "pcie")]
    shared = [thing for number in (1, 2, 3) for thing in gpushare(f"s{number}")]
    placing.nodes(*whole, *shared, *(thing for number in (1, 2, 3) for thing in koordinator(f"k{number}")))


def bound(placing: Placing, namespace: str) -> list[Raw]:
    """All pods of a namespace, once as many as there should be have a node."""

    def all_bound() -> list[Raw] | None:
        pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        there = [found for found in pods if found["spec"].get("nodeName")]
        return there if len(there) == PODS else None

    return wait_for(all_bound, 30, f"{PODS} pods of {namespace} have a node")


def used(placing: Placing, namespace: str) -> list[tuple[str, tuple[str, ...]]]:
    """The node and devices of every pod, sorted, whichever pod got them."""
    granted = [placing.grant(found) for found in bound(placing, namespace)]
    return sorted((each.node, each.devices) for each in granted)


def one_by_one(placing: Placing, limits: Mapping[str, int | str]) -> list[tuple[str, tuple[str, ...]]]:
    namespace = placing.namespace()
    for number in range(PODS):
        placing.place(namespace, f"p{number}", limits)
    chosen = used(placing, namespace)
    remove(placing, namespace)
    return chosen


def remove(placing: Placing, namespace: str) -> None:
    pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    placing.gone(namespace, *(found["metadata"]["name"] for found in pods))


@pytest.mark.usefixtures("three_of_each")
@pytest.mark.parametrize(
    "limits",
    [{GPU: 1}, {GPU: 2}, {MEMORY: 2}, {MEMORY: 9}, {PERCENT: 25}],
    ids=["one device", "two devices", "2 GiB", "9 GiB", "a quarter"],
)
def test_equal_pods_of_a_burst_get_what_they_get_one_by_one(placing: Placing, limits: dict[str, int | str]) -> None:
    expected = one_by_one(placing, limits)
    for _ in range(ROUNDS):
        namespace = placing.namespace()
        placing.cluster.create(pod(namespace, f"p{number}", limits) for number in range(PODS))
        assert used(placing, namespace) == expected
        remove(placing, namespace)
    all_is_well(placing)


@pytest.mark.usefixtures("three_of_each")
def test_the_replicas_of_a_deployment_share_one_machine(placing: Placing) -> None:
    expected = one_by_one(placing, {GPU: 1})
    assert len({node for node, _ in expected}) == 1
    for _ in range(ROUNDS):
        namespace = placing.namespace()
        placing.cluster.api.create(marked(deployment(namespace, {GPU: "1"})))
        assert used(placing, namespace) == expected
        placing.cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/replicas")
        placing.empty()
        wait_for(lambda: not namespaced(placing, namespace), 15, "the replicas are gone")  # noqa: B023 - called here
    all_is_well(placing)


def namespaced(placing: Placing, namespace: str) -> list[Any]:
    pods = placing.snapshot()["pods"]
    return [found for found in pods if found["metadata"]["namespace"] == namespace]


def deployment(namespace: str, limits: dict[str, str]) -> Raw:
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    template = {
        "metadata": {"labels": {"app": "replicas"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "replicas"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "replicas", "namespace": namespace},
        "spec": spec,
    }
