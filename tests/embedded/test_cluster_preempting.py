"""Preemption in an embedded cluster: the service names other victims, and evicts pods itself if that is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from linkwise.explain.group.group import explain_group
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from support.embedded.cluster import ClusterUnderTest, embedded
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
WORDS: Final = {f"{GANG}/name": "high", f"{GANG}/min-available": "2"}
BUDGETS: Final = "poddisruptionbudgets.policy"
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


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100": 2})
async def test_a_gang_waits_by_default_as_long_as_a_disruption_budget_protects_the_pods_that_must_go(
    cluster: ClusterUnderTest,
) -> None:
    high(cluster)
    for number in range(2):
        await cluster.place(f"low-{number}", {GPU: 8}, labels={"app": "db"})
        await cluster.phase(f"low-{number}", "Running")
    cluster.store.create(BUDGETS, budget(1), "default")
    cluster.store.update(BUDGETS, budget(1), "db", "default", "status")
    await cluster.until(lambda: state_of(cluster.service.broker).cluster.shared.budgets, "the service knows the budget")
    for number in range(2):
        cluster.create(f"high-{number}", {GPU: 8}, annotations=WORDS, priorityClassName="high")
    await cluster.until(
        lambda: "a PodDisruptionBudget forbids it" in group_text(cluster), "the group says why it waits"
    )
    assert cluster.bound() == {"low-0", "low-1"}
    cluster.store.update(BUDGETS, budget(2), "db", "default", "status")
    for number in range(2):
        await cluster.placed(f"high-{number}")
    await cluster.well()


def group_text(cluster: ClusterUnderTest) -> str:
    uid = cluster.pod("high-0")["metadata"]["uid"]
    group = explain_group(cluster.service.broker, uid, cluster.service.now())
    return "\n".join(explanation_lines(group)) if group else ""


def budget(allowed: int) -> Raw:
    spec = {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 2 - allowed}
    return {"metadata": {"name": "db"}, "spec": spec, "status": {"disruptionsAllowed": allowed}}
