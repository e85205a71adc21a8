"""Partially bound gangs: bound members that never ran are evicted, if that is enabled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from linkwise.embedded.apiserver.faults import Fault
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.model.settings import GroupSettings, PlacingSettings
from support.e2e.pod_objects import pod
from support.embedded.cluster import QUICK, Bed, embedded

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
WORDS: Final = {f"{GANG}/name": "pair", f"{GANG}/min-available": "2"}
ALLOWED: Final = PlacingSettings(group=GroupSettings(evict_half_bound=True))
SLOW: Final = replace(QUICK, simulation=SimulationSettings(start_delay=3600.0, stop_seconds=0.005))
"""containers never begin"""
LONG: Final = 700.0  # seconds; longer than a gang waits
REST: Final = 100.0  # seconds; longer than a group rests


def made_by_set(limits: dict[str, int | str]) -> dict[str, Any]:
    """A ReplicaSet of the gang's first member."""
    template = pod("default", "unnamed", limits, labels={"app": "pair"}, annotations=WORDS)
    template["metadata"] = {"labels": {"app": "pair"}, "annotations": WORDS}
    selector = {"matchLabels": {"app": "pair"}}
    return {"metadata": {"name": "pair"}, "spec": {"replicas": 1, "selector": selector, "template": template}}


def first(bed: Bed) -> list[dict[str, Any]]:
    """The pods of the set that are not being deleted."""
    metas = [found for found in bed.pods() if found["metadata"]["name"].startswith("pair-")]
    return [found for found in metas if "deletionTimestamp" not in found["metadata"]]


async def half_bound(bed: Bed) -> str:
    """The second member waits for a volume that is not there; the name of the first, which is bound."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    bed.create("late", {GPU: 4}, annotations=WORDS, volumes=[volume])
    await bed.refused("late", 'persistentvolumeclaim "data" not found')
    bed.store.create("replicasets.apps", made_by_set({GPU: 4}), "default")
    await bed.until(lambda: first(bed) and first(bed)[0]["spec"].get("nodeName"), "the first is bound")
    name: str = first(bed)[0]["metadata"]["name"]
    await bed.until(lambda: bed.service.broker.plans() and bed.events(name, "DevicesChosen"), "it is seen")
    return name


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED, settings=SLOW)
async def test_an_evicted_member_comes_back_and_its_gang_is_placed_as_a_whole(bed: Bed) -> None:
    name = await half_bound(bed)
    bed.service.ahead += LONG
    assert "evicted: 1 member of its gang is bound" in await bed.told(name, "GangEvicted")
    await bed.until(lambda: [found["metadata"]["name"] for found in first(bed)] not in ([], [name]), "it comes back")
    bed.store.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": {}}, "default")
    bed.service.ahead += REST
    await bed.placed("late")
    await bed.until(lambda: len(bed.bound()) == 2, "both are bound")
    await bed.well()


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED)
async def test_a_running_member_is_notified_why_it_is_not_evicted(bed: Bed) -> None:
    name = await half_bound(bed)
    await bed.phase(name, "Running")
    uid = first(bed)[0]["metadata"]["uid"]
    await bed.until(lambda: bed.service.broker.pods[uid].begun, "the service knows that it runs")
    bed.service.ahead += LONG
    assert "has started, so none is evicted" in await bed.told(name, "GangHalfBound")
    assert "has started" in await bed.explained(name)
    assert first(bed)[0]["metadata"]["uid"] == uid


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED, settings=SLOW)
async def test_an_eviction_that_a_budget_forbids_for_now_is_done_later(bed: Bed) -> None:
    name = await half_bound(bed)
    bed.cluster.api.faults.add(Fault("answer", on="POST", path="/eviction$", code=429, times=2))
    bed.service.ahead += LONG
    await bed.until(lambda: name not in {found["metadata"]["name"] for found in first(bed)}, "it is evicted")
