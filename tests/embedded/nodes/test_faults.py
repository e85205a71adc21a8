"""Faults that users inject with node annotations."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.nodes.faults import DEAD, SILENT, FaultAnnotations
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODE = "dgx1-v100-0"


@contextlib.asynccontextmanager
async def wishes(cluster: ClusterUnderTest) -> AsyncIterator[None]:
    task = asyncio.create_task(FaultAnnotations(cluster.store, cluster.embedded.nodes).run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def annotate(cluster: ClusterUnderTest, key: str, value: str | None) -> None:
    cluster.store.patch("nodes", NODE, {"metadata": {"annotations": {key: value}}})


def dead(cluster: ClusterUnderTest) -> list[int]:
    devices = cluster.store.get("deviceinventories.linkwise.dev", NODE).read()["spec"]["devices"]
    return [device["index"] for device in devices if not device["healthy"]]


@embedded({"dgx1-v100": 1})
async def test_the_dead_annotation_breaks_devices_until_it_is_removed(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        annotate(cluster, DEAD, "3, 5")
        await cluster.until(lambda: dead(cluster) == [3, 5], "two are dead")
        annotate(cluster, DEAD, "5")
        await cluster.until(lambda: dead(cluster) == [5], "one works again")
        annotate(cluster, DEAD, None)
        await cluster.until(lambda: not dead(cluster), "all work")


@embedded({"dgx1-v100": 1})
async def test_a_dead_device_is_not_allocated(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        annotate(cluster, DEAD, "0")
        await cluster.until(lambda: dead(cluster) == [0], "it is dead")
        await cluster.seen()
        granted = await cluster.place("seven", {"nvidia.com/gpu": 7})
        assert f"nvidia-{NODE}-0" not in granted.devices


@embedded({"dgx1-v100": 1})
async def test_an_invalid_device_is_reported_in_an_event_on_the_node(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        annotate(cluster, DEAD, "three")
        assert "'three' is not a device position" in await cluster.wait_for_event(NODE, "NotUnderstood")
        annotate(cluster, DEAD, "3,8")
        assert "has no device 8" in await cluster.wait_for_event(NODE, "NotUnderstood", "8")
        assert dead(cluster) == []


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (SILENT, "banana", f"{SILENT}: expected 'true' or 'false', got 'banana'"),
        (SILENT, "", f"{SILENT}: expected 'true' or 'false', got ''"),
        (DEAD, "9" * 5000, f"{DEAD}: '{'9' * 40}' is not a device position; use, for example, 3 or 3,5"),
        ("sim.linkwise.dev/deaf", "3", f"unknown annotation sim.linkwise.dev/deaf; supported: {DEAD}, {SILENT}"),
    ],
)
def test_an_invalid_annotation_is_reported_with_key_value_and_expectation(key: str, value: str, sentence: str) -> None:
    @embedded({"dgx1-v100": 1})
    async def reported(cluster: ClusterUnderTest) -> None:
        async with wishes(cluster):
            annotate(cluster, key, value)
            assert await cluster.wait_for_event(NODE, "NotUnderstood") == sentence

    reported()


@embedded({"dgx1-v100": 1})
async def test_a_fault_set_as_a_label_is_reported(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        cluster.store.patch("nodes", NODE, {"metadata": {"labels": {SILENT: "true"}}})
        assert (
            await cluster.wait_for_event(NODE, "NotUnderstood")
            == f"{SILENT} is set as a label and ignored; set it as an annotation"
        )


@embedded({"p40-share": 1})
async def test_a_node_without_inventory_accepts_only_counted_devices(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        cluster.store.patch("nodes", "p40-share-0", {"metadata": {"annotations": {DEAD: "4"}}})
        sentence = await cluster.wait_for_event("p40-share-0", "NotUnderstood")
        assert sentence == f"{DEAD}: node p40-share-0 has no device 4; its devices are 0, 1, 2, 3"


@embedded({"dgx1-v100": 1})
async def test_a_silent_node_becomes_unreachable_and_recovers(cluster: ClusterUnderTest) -> None:
    async with wishes(cluster):
        annotate(cluster, SILENT, "true")
        await cluster.until(lambda: cluster.embedded.nodes.health.is_unreachable(NODE), "it is silent")
        annotate(cluster, SILENT, None)
        await cluster.until(lambda: not cluster.embedded.nodes.health.is_unreachable(NODE), "it is heard of")
