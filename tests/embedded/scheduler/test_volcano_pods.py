"""Pods of Volcano's scheduler: those with node and devices are bound with their own annotations, others by the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from linkwise.embedded.scheduler.scheduler import is_planned
from linkwise.model.views import NodeTerm, PodView, SelectorRequirement
from support.e2e.node_objects import ascend
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from collections.abc import Iterable

NPU: Final = "huawei.com/Ascend910"
GRANT: Final = "linkwise.dev/grant"


def pinned(*nodes: str) -> dict[str, Any]:
    """Required node affinity to nodes by name."""
    field = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@embedded()
async def test_a_pod_without_devices_on_it_is_placed_by_the_service(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"))
    granted = await cluster.place("alone", {NPU: 2}, scheduler="volcano")
    assert (granted.node, len(granted.devices)) == ("a", 2)
    await cluster.well()


@embedded()
async def test_a_pinned_pod_goes_to_its_node_only(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    assert (await cluster.place("there", {NPU: 1}, scheduler="volcano", affinity=pinned("b"))).node == "b"
    cluster.create("nowhere", {NPU: 1}, scheduler="volcano", affinity=pinned("gone"))
    assert "2 node(s) didn't match Pod's node affinity/selector" in await cluster.refused("nowhere")


@embedded()
async def test_a_pod_with_node_and_devices_is_bound_with_exactly_these(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    earlier = await cluster.place("earlier", {NPU: 2}, scheduler="volcano", affinity=pinned("b"))
    first = cluster.pod("earlier")["metadata"]["uid"]
    await cluster.gone("earlier")
    made = cluster.create("planned", {NPU: 2}, scheduler="volcano", schedulingGates=[{"name": "example.com/plan"}])
    record = {key: earlier.annotations[key] for key in (GRANT, NPU, "predicate-time")}
    record[GRANT] = record[GRANT].replace(first, made["metadata"]["uid"])
    spec = {"affinity": pinned("b"), "schedulingGates": None}
    cluster.store.patch("pods", "planned", {"metadata": {"annotations": record}, "spec": spec}, "default")
    granted = await cluster.placed("planned")
    assert (granted.node, granted.devices) == ("b", earlier.devices)
    assert {key: granted.annotations[key] for key in record} == record
    await cluster.counted(1)
    await cluster.well()


@embedded()
async def test_a_pod_with_devices_of_another_pod_is_not_bound(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"))
    holder = await cluster.place("holder", {NPU: 8}, scheduler="volcano", affinity=pinned("a"))
    made = cluster.create("planned", {NPU: 8}, scheduler="volcano", schedulingGates=[{"name": "example.com/plan"}])
    record = {key: holder.annotations[key] for key in (GRANT, NPU, "predicate-time")}
    record[GRANT] = record[GRANT].replace(cluster.pod("holder")["metadata"]["uid"], made["metadata"]["uid"])
    cluster.store.patch("nodes", "a", {"status": {"allocatable": {NPU: "16"}, "capacity": {NPU: "16"}}}, "", "status")
    spec = {"affinity": pinned("a"), "schedulingGates": None}
    cluster.store.patch("pods", "planned", {"metadata": {"annotations": record}, "spec": spec}, "default")
    assert "0/1 nodes are available" in await cluster.refused("planned")
    assert cluster.bound() == {"holder"}
    await cluster.gone("holder")
    assert (await cluster.placed("planned")).devices == holder.devices


def pod(terms: Iterable[NodeTerm] | None, record: str = "{}", scheduler: str = "volcano") -> PodView:
    affinity = None if terms is None else tuple(terms)
    return PodView("default", "p", "u", annotations={GRANT: record}, scheduler=scheduler, affinity=affinity)


def named(*names: str) -> NodeTerm:
    return NodeTerm(fields=(SelectorRequirement("metadata.name", "In", names),))


@pytest.mark.parametrize(
    ("view", "planned"),
    [
        (pod([named("a")]), True),
        (pod([named("a"), named("a")]), True),
        (pod([named("a")], record=""), False),
        (pod([named("a")], scheduler="default-scheduler"), False),
        (pod([named("a", "b")]), False),
        (pod([named("a"), named("b")]), False),
        (pod([named("a"), NodeTerm((SelectorRequirement("zone", "Exists"),))]), False),
        (pod([]), False),
        (pod(None), False),
    ],
)
def test_planned_is_a_pod_of_volcano_with_a_record_and_one_node(view: PodView, planned: bool) -> None:  # noqa: FBT001 - a row
    assert is_planned(view) is planned
