"""Pods on nodes with a DRA driver: planned by the service, allocated by the scheduler, without a cluster."""

from __future__ import annotations

import asyncio
import json
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.cli.inputs.fleet import DEFAULT, with_dra
from linkwise.embedded.apiserver.faults import Fault
from linkwise.vendors.machines import profile
from support.embedded.claims import (
    CLAIMS,
    DRIVER,
    GPU,
    allocated,
    claim_of,
    no_device_is_allocated_twice,
    swapped,
)
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.local import SECONDS, Trial, trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

MACHINE: Final = "dgx1-v100/dra"
LINKS: Final = profile("dgx1-v100").topology.links
GANG: Final = "gang.scheduling.koordinator.sh"


def pod(name: str, count: int, **annotations: str) -> Raw:
    """A pod as for a device plugin."""
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": {GPU: count}}}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}


def gang(count: int) -> dict[str, str]:
    return {f"{GANG}/name": "job", f"{GANG}/min-available": str(count), f"{GANG}/total-number": str(count)}


async def until(store: Store, holds: Callable[[], object]) -> None:
    """Wait for what claims show."""
    async with asyncio.timeout(SECONDS):
        async for _ in store.watch(CLAIMS):
            if holds():
                return


@trial(**{MACHINE: 2})
async def test_an_unchanged_manifest_gets_the_best_linked_devices_by_a_claim(tried: Trial) -> None:
    made = await tried.create("pods", pod("train", 2))
    assert made["spec"]["containers"][0]["resources"].get("limits", {}) == {}
    await tried.running("train")
    name = claim_of(tried.store, "train")
    assert name.startswith("lw-")
    node, (first, second) = allocated(tried.store)[name]
    assert LINKS[first][second].direct == max(LINKS[one][other].direct for one, other in combinations(range(8), 2))
    claim = tried.store.get(CLAIMS, name, "default").read()
    assert json.loads(claim["metadata"]["annotations"]["linkwise.dev/plan"])["node"] == node
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
    assert [each.name for each in tried.store.list(CLAIMS).items] == [name]


@trial(**with_dra(DEFAULT))
async def test_on_the_default_fleet_with_drivers_a_pod_gets_a_planned_claim_without_asking_for_one(
    tried: Trial,
) -> None:
    await tried.create("pods", pod("train", 2))
    assert claim_of(tried.store, "train").startswith("lw-")
    await tried.running("train")


@trial(**{MACHINE: 1})
async def test_four_pods_of_two_get_a_good_pair_each(tried: Trial) -> None:
    for number in range(4):
        await tried.create("pods", pod(f"p{number}", 2))
        await tried.running(f"p{number}")
    pairs = [devices for _, devices in allocated(tried.store).values()]
    assert sorted(index for pair in pairs for index in pair) == list(range(8))
    assert {LINKS[first][second].direct for first, second in pairs} == {2}


@trial(**{MACHINE: 2})
async def test_a_gang_starts_complete_on_its_planned_devices(tried: Trial) -> None:
    for number in range(3):
        await tried.create("pods", pod(f"m{number}", 4, **gang(4)))
    assert not allocated(tried.store)
    await tried.create("pods", pod("m3", 4, **gang(4)))
    for number in range(4):
        await tried.running(f"m{number}")
    assert sorted(allocated(tried.store).values()) == [
        (node, devices) for node in ("dgx1-v100-dra-0", "dgx1-v100-dra-1") for devices in ((0, 1, 2, 3), (4, 5, 6, 7))
    ]


@trial(**{MACHINE: 1})
async def test_a_job_of_volcano_starts_on_its_planned_devices(tried: Trial) -> None:
    template = {"spec": {**pod("", 4)["spec"], "restartPolicy": "Never"}}
    task = {"name": "w", "replicas": 2, "template": template}
    spec = {"schedulerName": "volcano", "minAvailable": 2, "tasks": [task]}
    await tried.create("jobs.batch.volcano.sh", {"metadata": {"name": "job"}, "spec": spec})
    for name in ("job-w-0", "job-w-1"):
        await tried.running(name)
    assert sorted(devices for _, devices in allocated(tried.store).values()) == [(0, 1, 2, 3), (4, 5, 6, 7)]


@trial(**{MACHINE: 1})
async def test_a_pod_that_does_not_fit_waits_gated_until_devices_are_free(tried: Trial) -> None:
    await tried.create("pods", pod("first", 8))
    await tried.running("first")
    made = await tried.create("pods", pod("second", 8))
    assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == ["linkwise.dev/gang"]
    tried.store.delete("pods", "first", "default")
    await tried.running("second")
    no_device_is_allocated_twice(tried.store)
    await until(tried.store, lambda: list(allocated(tried.store)) == [claim_of(tried.store, "second")])


@trial(**{MACHINE: 1})
async def test_a_failed_device_is_not_planned(tried: Trial) -> None:
    for index in (0, 3):
        tried.local.cluster.nodes.kill_device("dgx1-v100-dra-0", index)
    await tried.create("pods", pod("train", 6))
    await tried.running("train")
    assert list(allocated(tried.store).values()) == [("dgx1-v100-dra-0", (1, 2, 4, 5, 6, 7))]


def create_swapped(cluster: ClusterUnderTest, number: int, count: int) -> None:
    more = swapped(number, count)
    cluster.create(f"p{number}", **more)


@embedded({MACHINE: 2})
async def test_a_service_that_is_killed_at_any_moment_leaves_nothing_stuck_and_nothing_twice(
    cluster: ClusterUnderTest,
) -> None:
    for number in range(8):
        create_swapped(cluster, number, 2)
        await cluster.pause(0.004 * number)
        await cluster.service.kill()
        await cluster.pause(0.01)
        await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.until(lambda: len(cluster.bound()) == 8, "all pods are bound")
    no_device_is_allocated_twice(cluster.store)
    found = allocated(cluster.store)
    assert sorted(found) == [f"lw-{number:016x}" for number in range(8)]
    for name in cluster.bound():
        assert cluster.pod(name)["spec"]["nodeName"] == found[claim_of(cluster.store, name)][0]


def foreign(cluster: ClusterUnderTest, name: str, index: int) -> None:
    """A pod that names one device by a claim of its own."""
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].uuid == "nvidia-dgx1-v100-dra-0-{index}"'}}
    request = {"deviceClassName": DRIVER, "count": 1, "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "main", "exactly": request}]}}
    cluster.store.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")
    cluster.create(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])


async def struck(cluster: ClusterUnderTest) -> None:
    """Wait until the injected fault was met."""
    faults = cluster.embedded.api.faults
    await cluster.until(lambda: any(fault["done"] for fault in faults.to_list()), "the fault was met")


@embedded({MACHINE: 1})
async def test_a_device_that_another_pod_takes_between_plan_and_claim_is_planned_around(
    cluster: ClusterUnderTest,
) -> None:
    cluster.embedded.api.faults.add(Fault("delay", on="POST", path="/resourceclaims$", seconds=5.0))
    create_swapped(cluster, 0, 2)
    await struck(cluster)
    foreign(cluster, "foreign", 0)
    await cluster.placed("foreign")
    await cluster.placed("p0")
    no_device_is_allocated_twice(cluster.store)
    _, pair = allocated(cluster.store)[claim_of(cluster.store, "p0")]
    assert 0 not in pair
    assert LINKS[pair[0]][pair[1]].direct == 2


@embedded({MACHINE: 1})
async def test_a_device_that_another_pod_takes_between_claim_and_allocation_is_planned_around(
    cluster: ClusterUnderTest,
) -> None:
    cluster.embedded.api.faults.add(Fault("delay", on="PATCH", path="/pods/p0$", seconds=5.0))
    create_swapped(cluster, 0, 2)
    await struck(cluster)
    (written,) = cluster.store.list(CLAIMS).items
    assert b"nvidia-dgx1-v100-dra-0-0" in written.data
    foreign(cluster, "foreign", 0)
    await cluster.placed("foreign")
    await cluster.placed("p0")
    no_device_is_allocated_twice(cluster.store)
    assert 0 not in allocated(cluster.store)[claim_of(cluster.store, "p0")][1]


@embedded({MACHINE: 1})
async def test_a_claim_that_is_deleted_by_hand_is_written_again(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("delay", on="PATCH", path="/pods/p0$", seconds=5.0))
    create_swapped(cluster, 0, 2)
    await struck(cluster)
    cluster.store.delete(CLAIMS, claim_of(cluster.store, "p0"), "default")
    await cluster.placed("p0")
    assert len(allocated(cluster.store)[claim_of(cluster.store, "p0")][1]) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("reset", on="POST", path="/resourceclaims$", landed=True),
        Fault("reset", on="PATCH", path="/pods/p0$", landed=True),
        Fault("answer", on="POST", path="/resourceclaims$", code=403, times=2),
        Fault("answer", on="POST", path="/resourceclaims$", code=503, times=2),
        Fault("drop", on="WATCH", path="/resourceclaims$", times=3),
        Fault("cut", on="WATCH", path="/resourceclaims$", times=3),
    ],
    ids=lambda fault: f"{fault.do} {fault.on} {fault.path} {fault.code}",
)
@embedded({MACHINE: 1})
async def test_a_fault_delays_a_planned_pod_and_leaves_nothing_behind(cluster: ClusterUnderTest, fault: Fault) -> None:
    cluster.embedded.api.faults.add(fault)
    for number in range(3):
        create_swapped(cluster, number, 2)
    for number in range(3):
        await cluster.placed(f"p{number}")
    no_device_is_allocated_twice(cluster.store)
    assert sorted(allocated(cluster.store)) == [f"lw-{number:016x}" for number in range(3)]
    cluster.delete("p0", "p1", "p2")
    await cluster.until(lambda: not cluster.store.list(CLAIMS).items, "the claims are gone with their pods")
    create_swapped(cluster, 9, 8)
    await cluster.placed("p9")
