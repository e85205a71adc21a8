"""Records of pods whose containers have other devices are corrected, each time they are wrong."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from linkwise.agent.allocator import LATE_WATCH, RecordKeeper
from linkwise.model.device import Device
from linkwise.model.views import ContainerView, PodView
from linkwise.node.allocation import Allocations, Listed
from support.fakes.agent_cluster import NodeApi

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU = "nvidia.com/gpu"
NODE = "worker"


def wrong_pod() -> PodView:
    parts = {"main": {"core": 0, "devices": ["GPU-1"], "share": 0}}
    fields = {"generation": 0, "mode": "whole", "node": NODE, "plan": "", "pod": "uid", "policy": "x", "version": 1}
    annotations = {"linkwise.dev/grant": json.dumps({"containers": parts, **fields})}
    main = ContainerView("main", limits={GPU: "1"})
    return PodView("default", "a", "uid", (main,), annotations=annotations, node=NODE)


def first(available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    return (*required, *available)[:size]


def corrections_of(moments: Sequence[float]) -> int:
    """The number of corrections if the record is wrong at each of these moments."""
    now = 0.0
    api = NodeApi()
    keeper = RecordKeeper(NODE, api, lambda: 1e9 - now, lambda: now)  # the machine's clock runs backwards
    devices = {f"GPU-{index}": Device(f"GPU-{index}", index) for index in range(2)}
    allocations = Allocations(GPU, shared=False, pick=first, devices=devices)
    allocations.observe(wrong_pod())
    for moment in moments:
        now = moment
        api.put(wrong_pod())
        listed = [Listed("default", "a", "main", ("GPU-0",))]
        given = {("uid", "main"): ("GPU-0",)}
        asyncio.run(keeper.correct(allocations, allocations.settle(listed, now, given)))
    return keeper.corrected.total()


def test_a_record_is_corrected_once_while_the_watch_is_late() -> None:
    assert corrections_of([100.0, 100.2]) == 1


def test_a_record_that_somebody_breaks_again_is_corrected_again() -> None:
    assert corrections_of([100.0, 100.2, 100.0 + LATE_WATCH]) == 2
