"""Pods that arrive together are packed as if they came one by one, and the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.e2e.node_objects import gpushare, koordinator, machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUNDS: Final = 20
PODS: Final = 8


async def used(cluster: ClusterUnderTest, names: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The node and devices of every pod, sorted, whichever pod got them."""
    granted = [await cluster.placed(name) for name in names]
    return sorted((each.node, each.devices) for each in granted)


async def check_bursts(cluster: ClusterUnderTest, limits: Mapping[str, int | str]) -> None:
    """Place eight pods one by one, then twenty times at once."""
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        await cluster.place(name, limits)
    expected = await used(cluster, names)
    await cluster.gone(*names)
    for _ in range(ROUNDS):
        for name in names:
            cluster.create(name, limits)
        assert await used(cluster, names) == expected
        await cluster.gone(*names)


@embedded()
async def test_a_burst_of_pods_with_one_device_each_fills_one_machine(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"), *machine("c", "pcie"))
    await check_bursts(cluster, {"nvidia.com/gpu": 1})


@embedded()
async def test_a_burst_of_shares_fills_one_card(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*(thing for name in "abc" for thing in gpushare(name)))
    await check_bursts(cluster, {"aliyun.com/gpu-mem": 2})


@embedded()
async def test_a_burst_of_percents_fills_card_after_card(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*(thing for name in "abc" for thing in koordinator(name)))
    await check_bursts(cluster, {"koordinator.sh/gpu": 25})


@embedded()
async def test_the_replicas_of_a_deployment_share_one_machine(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"), *machine("c", "pcie"))
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    for number in range(ROUNDS):
        name = f"replicas-{number}"
        cluster.store.create(
            "deployments.apps",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
            },
        )
        await cluster.until(lambda: len(cluster.bound()) == PODS, "all replicas have a node")
        pods = cluster.pods()
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
        cluster.store.delete("deployments.apps", name, "default")
        await cluster.until(lambda: not cluster.service.broker.pods, "the replicas are gone")
