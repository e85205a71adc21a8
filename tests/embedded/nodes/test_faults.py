"""Faults that users inject with node annotations."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.nodes.faults import DEAD, SILENT, FaultAnnotations
from support.embedded.cluster import Bed, embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODE = "dgx1-v100-0"


@contextlib.asynccontextmanager
async def wishes(bed: Bed) -> AsyncIterator[None]:
    task = asyncio.create_task(FaultAnnotations(bed.store, bed.cluster.nodes).run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def annotate(bed: Bed, key: str, value: str | None) -> None:
    bed.store.patch("nodes", NODE, {"metadata": {"annotations": {key: value}}})


def dead(bed: Bed) -> list[int]:
    devices = bed.store.get("deviceinventories.linkwise.dev", NODE).read()["spec"]["devices"]
    return [device["index"] for device in devices if not device["healthy"]]


@embedded({"dgx1-v100": 1})
async def test_the_dead_annotation_breaks_devices_until_it_is_removed(bed: Bed) -> None:
    async with wishes(bed):
        annotate(bed, DEAD, "3, 5")
        await bed.until(lambda: dead(bed) == [3, 5], "two are dead")
        annotate(bed, DEAD, "5")
        await bed.until(lambda: dead(bed) == [5], "one works again")
        annotate(bed, DEAD, None)
        await bed.until(lambda: not dead(bed), "all work")


@embedded({"dgx1-v100": 1})
async def test_a_dead_device_is_not_allocated(bed: Bed) -> None:
    async with wishes(bed):
        annotate(bed, DEAD, "0")
        await bed.until(lambda: dead(bed) == [0], "it is dead")
        await bed.seen()
        granted = await bed.place("seven", {"nvidia.com/gpu": 7})
        assert f"nvidia-{NODE}-0" not in granted.devices


@embedded({"dgx1-v100": 1})
async def test_an_invalid_device_is_reported_in_an_event_on_the_node(bed: Bed) -> None:
    async with wishes(bed):
        annotate(bed, DEAD, "three")
        assert "'three' is not a device position" in await bed.told(NODE, "NotUnderstood")
        annotate(bed, DEAD, "3,8")
        assert "has no device 8" in await bed.told(NODE, "NotUnderstood", "8")
        assert dead(bed) == []


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
    async def told(bed: Bed) -> None:
        async with wishes(bed):
            annotate(bed, key, value)
            assert await bed.told(NODE, "NotUnderstood") == sentence

    told()


@embedded({"dgx1-v100": 1})
async def test_a_fault_set_as_a_label_is_reported(bed: Bed) -> None:
    async with wishes(bed):
        bed.store.patch("nodes", NODE, {"metadata": {"labels": {SILENT: "true"}}})
        assert (
            await bed.told(NODE, "NotUnderstood") == f"{SILENT} is set as a label and ignored; set it as an annotation"
        )


@embedded({"p40-share": 1})
async def test_a_node_without_inventory_accepts_only_counted_devices(bed: Bed) -> None:
    async with wishes(bed):
        bed.store.patch("nodes", "p40-share-0", {"metadata": {"annotations": {DEAD: "4"}}})
        told = await bed.told("p40-share-0", "NotUnderstood")
        assert told == f"{DEAD}: node p40-share-0 has no device 4; its devices are 0, 1, 2, 3"


@embedded({"dgx1-v100": 1})
async def test_a_silent_node_becomes_unreachable_and_recovers(bed: Bed) -> None:
    async with wishes(bed):
        annotate(bed, SILENT, "true")
        await bed.until(lambda: bed.cluster.nodes.health.is_unreachable(NODE), "it is silent")
        annotate(bed, SILENT, None)
        await bed.until(lambda: not bed.cluster.nodes.health.is_unreachable(NODE), "it is heard of")
