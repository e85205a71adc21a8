"""Preemption in an embedded cluster: the service names other victims, and evicts pods itself if that is enabled."""

from __future__ import annotations

from typing import Final

import pytest

from linkwise.model.settings import PlacingSettings, PreemptionSettings
from support.embedded.cluster import ClusterUnderTest, embedded

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
WORDS: Final = {f"{GANG}/name": "high", f"{GANG}/min-available": "2"}
EVICTS: Final = PlacingSettings(preemption=PreemptionSettings(evict=True))


def high(cluster: ClusterUnderTest) -> None:
    cluster.store.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 1000})


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100": 2}, placing=EVICTS)
async def test_a_gang_makes_room_on_two_nodes(cluster: ClusterUnderTest) -> None:
    high(cluster)
    for number in range(2):
        await cluster.place(f"low-{number}", {GPU: 8})
    for number in range(2):
        cluster.create(f"high-{number}", {GPU: 8}, annotations=WORDS, priorityClassName="high")
    await cluster.until(lambda: cluster.service.broker.counts().nodes == 2, "the service runs")
    for number in range(2):
        await cluster.placed(f"high-{number}")
    assert "preempted by group" in (await cluster.wait_for_event("low-0", "Preempted"))
    await cluster.well()
