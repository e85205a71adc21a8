"""Two replicas of the service as it is assembled, beside an embedded cluster: one decides, and the other takes over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.config.settings import LeaderSettings
from linkwise.embedded.apiserver.faults import Fault
from linkwise.errors import ClusterError, LostLeaseError
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.service import EmbeddedService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GPU = "nvidia.com/gpu"
LEASE = "leases.coordination.k8s.io"
SLICES = "endpointslices.discovery.k8s.io"
SLICE_DEFINITION = {
    "metadata": {"name": SLICES},
    "spec": {
        "group": "discovery.k8s.io",
        "names": {"plural": "endpointslices", "kind": "EndpointSlice"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""the embedded API server has none of its own: nothing in it balances connections"""
SERVICE = {"metadata": {"name": "linkwise", "namespace": "linkwise-system"}, "spec": {"ports": [{"port": 1}]}}
ELECTED = LeaderSettings(namespace="linkwise-system")


@asynccontextmanager
async def replicas(cluster: ClusterUnderTest, elected: LeaderSettings = ELECTED) -> AsyncIterator[EmbeddedService]:
    """The service of the cluster with an election, and another one; their clocks run ten times as fast."""
    cluster.embedded.api.store.create("namespaces", {"metadata": {"name": "linkwise-system"}})
    other = EmbeddedService()
    await cluster.service.stop()
    for service in (cluster.service, other):
        service.settings = replace(service.settings, leader=elected)
        await service.start(cluster.embedded.api.kubeconfig())
    try:
        yield other
    finally:
        await other.kill()


def addressed(cluster: ClusterUnderTest) -> list[int]:
    """The ports to which the Service leads."""
    slices = [found.read() for found in cluster.store.list(SLICES).items]
    return [port["port"] for found in slices for _ in found["endpoints"] for port in found["ports"]]


def holder(cluster: ClusterUnderTest) -> str:
    return str(cluster.embedded.api.store.get(LEASE, "linkwise", "linkwise-system").read()["spec"]["holderIdentity"])


@embedded({"dgx1-v100": 1})
async def test_of_two_replicas_one_decides_and_the_other_knows_what_it_wrote(cluster: ClusterUnderTest) -> None:
    async with replicas(cluster) as other:
        assert (cluster.service.leads, other.leads) == (True, False)
        cluster.create("train", {GPU: 2})
        await cluster.placed("train")
        await cluster.until(lambda: other.broker.counts().grants == 1, "the standby has observed it")
        assert other.broker.plans() == {}


@embedded({"dgx1-v100": 1})
async def test_a_standby_takes_over_from_a_leader_that_was_killed_and_from_one_that_was_stopped(
    cluster: ClusterUnderTest,
) -> None:
    async with replicas(cluster) as other:
        cluster.create("train", {GPU: 2})
        await cluster.placed("train")
        await cluster.service.kill()
        before = holder(cluster)
        await cluster.until(lambda: other.leads, "the other one leads")
        assert other.broker.counts().grants == 1
        assert holder(cluster) != before
        await cluster.service.start(cluster.embedded.api.kubeconfig())
        assert not cluster.service.leads
        await other.stop()
        await cluster.until(lambda: cluster.service.leads, "the first one leads again")
        cluster.create("again", {GPU: 2})
        await cluster.placed("again")
        await other.start(cluster.embedded.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_a_leader_that_stops_with_a_bind_of_unknown_outcome_does_not_release_its_lease(
    cluster: ClusterUnderTest,
) -> None:
    async with replicas(cluster) as other:
        cluster.embedded.api.faults.add(Fault("hang", on="POST", path="/binding$", times=0))
        cluster.create("train", {GPU: 2})
        await cluster.until(
            lambda: any(fault["done"] for fault in cluster.embedded.api.faults.to_list()), "a bind is under way"
        )
        before = holder(cluster)
        await cluster.service.stop()
        assert holder(cluster) == before
        cluster.embedded.api.faults.clear()
        await cluster.until(lambda: other.leads, "the other one leads when the lease is over")
        await cluster.service.start(cluster.embedded.api.kubeconfig())
        await other.stop()
        await cluster.placed("train")
        await other.start(cluster.embedded.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_a_leader_whose_lease_is_taken_ends_with_a_message(cluster: ClusterUnderTest) -> None:
    async with replicas(cluster):
        spec = {"holderIdentity": "someone-else", "leaseDurationSeconds": 15}
        cluster.embedded.api.store.patch(LEASE, "linkwise", {"spec": spec}, "linkwise-system")
        with pytest.raises(LostLeaseError, match="lost Lease linkwise-system/linkwise: someone-else has it"):
            await cluster.service.ended()
    await cluster.service.start(cluster.embedded.api.kubeconfig())


@embedded({"dgx1-v100": 1})
async def test_connections_to_a_leader_end_when_it_can_not_renew_its_lease(cluster: ClusterUnderTest) -> None:
    async with replicas(cluster):
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.service.port)
        writer.write(b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n" + b'{"Pod":null}')
        assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n")
        cluster.embedded.api.faults.add(Fault("reset", on="PUT", path="/leases/", times=0))
        await cluster.until(lambda: not cluster.service.leads, "its last renewal is too old")
        async with asyncio.timeout(0.5):
            await reader.read()  # to the end
        writer.close()
        cluster.embedded.api.faults.clear()


@embedded({"dgx1-v100": 1})
async def test_a_leader_that_restarts_at_its_address_takes_it_out_until_another_one_leads(
    cluster: ClusterUnderTest,
) -> None:
    elected = replace(ELECTED, service="linkwise", address="192.0.2.1")
    async with replicas(cluster, elected) as other:
        cluster.store.create("customresourcedefinitions.apiextensions.k8s.io", SLICE_DEFINITION)
        cluster.store.create("services", SERVICE)
        await cluster.until(lambda: addressed(cluster) == [cluster.service.port], "the leader has announced itself")
        await cluster.service.kill()
        await cluster.service.start(cluster.embedded.api.kubeconfig())
        await cluster.until(lambda: addressed(cluster) == [], "nothing leads to the one that was restarted", 2)
        assert (cluster.service.leads, other.leads) == (False, False)
        await cluster.until(lambda: addressed(cluster), "the next leader has announced itself")
        assert addressed(cluster) == [next(each.port for each in (cluster.service, other) if each.leads)]


@embedded({"dgx1-v100": 1})
async def test_a_missing_namespace_ends_the_start_with_what_to_do(cluster: ClusterUnderTest) -> None:
    other = EmbeddedService()
    other.settings = replace(other.settings, leader=ELECTED)
    with pytest.raises(ClusterError, match="kubectl create namespace linkwise-system"):
        await other.start(cluster.embedded.api.kubeconfig())
