"""Pods that arrive together are packed as if they came one by one, and the same every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from support.e2e.node_objects import gpushare, koordinator, machine
from support.embedded.cluster import Bed, embedded

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUNDS: Final = 20
PODS: Final = 8


async def used(bed: Bed, names: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The node and devices of every pod, sorted, whichever pod got them."""
    granted = [await bed.placed(name) for name in names]
    return sorted((each.node, each.devices) for each in granted)


async def check_bursts(bed: Bed, limits: Mapping[str, int | str]) -> None:
    """Place eight pods one by one, then twenty times at once."""
    names = [f"p{number}" for number in range(PODS)]
    for name in names:
        await bed.place(name, limits)
    expected = await used(bed, names)
    await bed.gone(*names)
    for _ in range(ROUNDS):
        for name in names:
            bed.create(name, limits)
        assert await used(bed, names) == expected
        await bed.gone(*names)


@embedded()
async def test_a_burst_of_pods_with_one_device_each_fills_one_machine(bed: Bed) -> None:
    await bed.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"), *machine("c", "pcie"))
    await check_bursts(bed, {"nvidia.com/gpu": 1})


@embedded()
async def test_a_burst_of_shares_fills_one_card(bed: Bed) -> None:
    await bed.nodes(*(thing for name in "abc" for thing in gpushare(name)))
    await check_bursts(bed, {"aliyun.com/gpu-mem": 2})


@embedded()
async def test_a_burst_of_percents_fills_card_after_card(bed: Bed) -> None:
    await bed.nodes(*(thing for name in "abc" for thing in koordinator(name)))
    await check_bursts(bed, {"koordinator.sh/gpu": 25})


@embedded()
async def test_the_replicas_of_a_deployment_share_one_machine(bed: Bed) -> None:
    await bed.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"), *machine("c", "pcie"))
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": PODS, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    for number in range(ROUNDS):
        name = f"replicas-{number}"
        bed.store.create(
            "deployments.apps",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
            },
        )
        await bed.until(lambda: len(bed.bound()) == PODS, "all replicas have a node")
        pods = bed.pods()
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
        bed.store.delete("deployments.apps", name, "default")
        await bed.until(lambda: not bed.service.broker.pods, "the replicas are gone")
