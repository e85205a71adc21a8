"""Hundreds of pods under random faults: nothing is allocated twice, and no pod is forgotten."""

from __future__ import annotations

import pytest

from support.embedded.chaos import CROWDED, FLEET, Chaos
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.invariants import every_pod_runs_or_has_a_reason, nothing_is_sold_twice


@embedded(FLEET)
async def test_no_device_is_allocated_twice_and_every_pod_runs_or_has_a_reason(cluster: ClusterUnderTest) -> None:
    chaos = Chaos(cluster, seed=1)
    await chaos.run(250)
    assert chaos.made >= 250


@embedded(CROWDED)
async def test_with_many_pending_pods_no_feasible_pod_stays_pending(cluster: ClusterUnderTest) -> None:
    chaos = Chaos(cluster, seed=2)
    await chaos.run(250)
    assert chaos.made >= 250


@embedded(FLEET)
async def test_a_device_that_two_pods_say_they_have_is_noticed(cluster: ClusterUnderTest) -> None:
    granted = await cluster.place("first", {"nvidia.com/gpu": 1})
    cluster.create("second", {"nvidia.com/gpu": 1}, nodeName=granted.node, annotations=dict(granted.annotations))
    with pytest.raises(AssertionError, match="has several pods"):
        nothing_is_sold_twice(cluster.store)


@embedded()
async def test_a_pod_without_an_explanation_is_noticed(cluster: ClusterUnderTest) -> None:
    cluster.create("lost", {"nvidia.com/gpu": 1}, scheduler="another-scheduler")
    with pytest.raises(AssertionError, match="default/lost on no node"):
        every_pod_runs_or_has_a_reason(cluster.store)
