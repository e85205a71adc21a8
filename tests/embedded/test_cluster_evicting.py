"""Partially bound gangs: bound members that never ran are evicted, if that is enabled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from linkwise.embedded.apiserver.faults import Fault
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.model.settings import GroupSettings, PlacingSettings
from support.e2e.pod_objects import pod
from support.embedded.cluster import QUICK, WITHOUT_VOLUMES, ClusterUnderTest, embedded

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


def first(cluster: ClusterUnderTest) -> list[dict[str, Any]]:
    """The pods of the set that are not being deleted."""
    metas = [found for found in cluster.pods() if found["metadata"]["name"].startswith("pair-")]
    return [found for found in metas if "deletionTimestamp" not in found["metadata"]]


async def half_bound(cluster: ClusterUnderTest) -> str:
    """The second member waits for a volume that is not there; the name of the first, which is bound."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.create("late", {GPU: 4}, annotations=WORDS, volumes=[volume])
    await cluster.refused("late", 'persistentvolumeclaim "data" not found')
    cluster.store.create("replicasets.apps", made_by_set({GPU: 4}), "default")
    await cluster.until(lambda: first(cluster) and first(cluster)[0]["spec"].get("nodeName"), "the first is bound")
    name: str = first(cluster)[0]["metadata"]["name"]
    await cluster.until(lambda: cluster.service.broker.plans() and cluster.events(name, "DevicesChosen"), "it is seen")
    return name


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED, kube=WITHOUT_VOLUMES, settings=SLOW)
async def test_an_evicted_member_comes_back_and_its_gang_is_placed_as_a_whole(cluster: ClusterUnderTest) -> None:
    name = await half_bound(cluster)
    cluster.service.ahead += LONG
    assert "evicted: 1 member of its gang is bound" in await cluster.wait_for_event(name, "GangEvicted")
    await cluster.until(
        lambda: [found["metadata"]["name"] for found in first(cluster)] not in ([], [name]), "it comes back"
    )
    cluster.store.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": {}}, "default")
    cluster.service.ahead += REST
    await cluster.placed("late")
    await cluster.until(lambda: len(cluster.bound()) == 2, "both are bound")
    await cluster.well()


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED, kube=WITHOUT_VOLUMES)
async def test_a_running_member_is_notified_why_it_is_not_evicted(cluster: ClusterUnderTest) -> None:
    name = await half_bound(cluster)
    await cluster.phase(name, "Running")
    uid = first(cluster)[0]["metadata"]["uid"]
    await cluster.until(lambda: cluster.service.broker.pods[uid].begun, "the service knows that it runs")
    cluster.service.ahead += LONG
    assert "has started, so none is evicted" in await cluster.wait_for_event(name, "GangHalfBound")
    assert "has started" in await cluster.explained(name)
    assert first(cluster)[0]["metadata"]["uid"] == uid


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1}, placing=ALLOWED, kube=WITHOUT_VOLUMES, settings=SLOW)
async def test_an_eviction_that_a_budget_forbids_for_now_is_done_later(cluster: ClusterUnderTest) -> None:
    name = await half_bound(cluster)
    cluster.embedded.api.faults.add(Fault("answer", on="POST", path="/eviction$", code=429, times=2))
    cluster.service.ahead += LONG
    await cluster.until(lambda: name not in {found["metadata"]["name"] for found in first(cluster)}, "it is evicted")
