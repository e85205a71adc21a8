"""Two replicas of the service as it is assembled, beside an embedded cluster: one decides, and the other takes over."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.config.settings import LeaderSettings
from linkwise.embedded.apiserver.faults import Fault
from linkwise.errors import ClusterError, LostLeaseError
from support.embedded.cluster import Bed, embedded
from support.embedded.service import EmbeddedService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GPU = "nvidia.com/gpu"
LEASE = "leases.coordination.k8s.io"
ELECTED = LeaderSettings(namespace="linkwise-system")


@asynccontextmanager
async def replicas(bed: Bed) -> AsyncIterator[EmbeddedService]:
    """The service of the cluster with an election, and another one; their clocks run ten times as fast."""
    bed.cluster.api.store.create("namespaces", {"metadata": {"name": "linkwise-system"}})
    other = EmbeddedService()
    await bed.service.stop()
    for service in (bed.service, other):
        service.settings = replace(service.settings, leader=ELECTED)
        await service.start(bed.cluster.api.kubeconfig())
    try:
        yield other
    finally:
        await other.kill()


def holder(bed: Bed) -> str:
    return str(bed.cluster.api.store.get(LEASE, "linkwise", "linkwise-system").read()["spec"]["holderIdentity"])


@embedded({"dgx1-v100": 1})
async def test_of_two_replicas_one_decides_and_the_other_knows_what_it_wrote(bed: Bed) -> None:
    async with replicas(bed) as other:
        assert (bed.service.leads, other.leads) == (True, False)
        bed.create("train", {GPU: 2})
        await bed.placed("train")
        await bed.until(lambda: other.broker.counts().grants == 1, "the standby has observed it")
        assert other.broker.plans() == {}


@embedded({"dgx1-v100": 1})
async def test_a_standby_takes_over_from_a_leader_that_was_killed_and_from_one_that_was_stopped(bed: Bed) -> None:
    async with replicas(bed) as other:
        bed.create("train", {GPU: 2})
        await bed.placed("train")
        await bed.service.kill()
        before = holder(bed)
        await bed.until(lambda: other.leads, "the other one leads")
        assert other.broker.counts().grants == 1
        assert holder(bed) != before
        await bed.service.start(bed.cluster.api.kubeconfig())
        assert not bed.service.leads
        await other.stop()
        await bed.until(lambda: bed.service.leads, "the first one leads again")
        bed.create("again", {GPU: 2})
        await bed.placed("again")
        await other.start(bed.cluster.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_a_leader_that_stops_with_a_bind_of_unknown_outcome_does_not_release_its_lease(bed: Bed) -> None:
    async with replicas(bed) as other:
        bed.cluster.api.faults.add(Fault("hang", on="POST", path="/binding$", times=0))
        bed.create("train", {GPU: 2})
        await bed.until(lambda: any(fault["done"] for fault in bed.cluster.api.faults.to_list()), "a bind is under way")
        before = holder(bed)
        await bed.service.stop()
        assert holder(bed) == before
        bed.cluster.api.faults.clear()
        await bed.until(lambda: other.leads, "the other one leads when the lease is over")
        await bed.service.start(bed.cluster.api.kubeconfig())
        await other.stop()
        await bed.placed("train")
        await other.start(bed.cluster.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_a_leader_whose_lease_is_taken_ends_with_a_message(bed: Bed) -> None:
    async with replicas(bed):
        spec = {"holderIdentity": "someone-else", "leaseDurationSeconds": 15}
        bed.cluster.api.store.patch(LEASE, "linkwise", {"spec": spec}, "linkwise-system")
        with pytest.raises(LostLeaseError, match="lost Lease linkwise-system/linkwise: someone-else has it"):
            await bed.service.ended()
    await bed.service.start(bed.cluster.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_a_missing_namespace_ends_the_start_with_what_to_do(bed: Bed) -> None:
    other = EmbeddedService()
    other.settings = replace(other.settings, leader=ELECTED)
    with pytest.raises(ClusterError, match="kubectl create namespace linkwise-system"):
        await other.start(bed.cluster.api.kubeconfig())
