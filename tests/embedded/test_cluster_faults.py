"""The service with a failing API server: no device is allocated twice and no pod is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import pytest

from linkwise.embedded.apiserver.faults import Fault
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.service import EmbeddedService

GPU: Final = "nvidia.com/gpu"
BINDING: Final = "/binding$"
FLEET: Final = {"dgx1-v100": 2}
OFTEN: Final = replace(EmbeddedService.QUICK, resync=2.0)


async def crowd(cluster: ClusterUnderTest, pods: int = 6, size: int = 2) -> None:
    """Pods that all fit; each has its devices in the end."""
    for number in range(pods):
        cluster.create(f"p{number}", {GPU: size})
    await cluster.until(lambda: len(cluster.bound()) == pods, "all have a node", 20.0)
    await cluster.settled()
    faults = cluster.embedded.api.faults
    await cluster.until(lambda: all(fault["done"] for fault in faults.to_list()), "all faults have happened")


LANDED: Final = {
    "reset": Fault("reset", on="POST", path=BINDING, landed=True, times=3),
    "500": Fault("answer", on="POST", path=BINDING, code=500, landed=True, times=3),
    "504": Fault("answer", on="POST", path=BINDING, code=504, landed=True, times=3),
    "hang": Fault("hang", on="POST", path=BINDING, landed=True, times=1),
}


@pytest.mark.parametrize("fault", sorted(LANDED))
@embedded(FLEET)
async def test_binds_that_land_and_are_not_answered_are_found_out(cluster: ClusterUnderTest, fault: str) -> None:
    cluster.embedded.api.faults.add(LANDED[fault])
    await crowd(cluster)


LOST: Final = {
    "reset": Fault("reset", on="POST", path=BINDING, times=4),
    "503": Fault("answer", on="POST", path=BINDING, code=503, times=4),
    "hang": Fault("hang", on="POST", path=BINDING, times=1),
}


@pytest.mark.parametrize("fault", sorted(LOST))
@embedded(FLEET)
async def test_binds_that_do_not_land_are_found_out_and_tried_again(cluster: ClusterUnderTest, fault: str) -> None:
    cluster.embedded.api.faults.add(LOST[fault])
    await crowd(cluster, pods=4)


@embedded(FLEET)
async def test_a_bind_whose_outcome_never_arrives_is_given_up_and_frees_its_devices(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("reset", on="POST", path=BINDING, times=2))
    cluster.create("first", {GPU: 8}, nodeSelector={"kubernetes.io/hostname": "dgx1-v100-0"})
    await cluster.refused("first", "binding rejected")
    assert (await cluster.placed("first")).node == "dgx1-v100-0"
    await cluster.settled()


@embedded(FLEET)
async def test_devices_of_a_bind_of_unknown_outcome_stay_reserved(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("reset", on="POST", path=BINDING, landed=True))
    cluster.embedded.api.faults.add(Fault("answer", on="GET", path="/pods/first$", code=503, times=10))
    cluster.embedded.api.faults.add(Fault("drop", on="WATCH", path="/pods$", times=2))
    cluster.create("first", {GPU: 8})
    held = await cluster.placed("first")
    assert (await cluster.place("second", {GPU: 8})).node != held.node
    await cluster.settled()


@pytest.mark.parametrize("path", [BINDING, "/pods/p", "/events"])
@embedded(FLEET)
async def test_a_storm_of_conflicts_passes(cluster: ClusterUnderTest, path: str) -> None:
    cluster.embedded.api.faults.add(Fault("answer", on="WRITE", path=path, code=409, times=25))
    await crowd(cluster)


@embedded(FLEET)
async def test_a_server_that_has_no_time_is_waited_for(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("answer", on="*", code=429, times=30, retry_after=1, chance=0.5))
    await crowd(cluster)


@embedded(FLEET)
async def test_a_slow_server_slows_everything_and_breaks_nothing(cluster: ClusterUnderTest) -> None:
    cluster.embedded.api.faults.add(Fault("delay", seconds=0.15, times=0))
    await crowd(cluster, pods=8)


@pytest.mark.parametrize("fault", ["repeat", "cut", "expire"])
@embedded(FLEET)
async def test_watches_that_repeat_break_off_or_expire_are_taken_up_again(
    cluster: ClusterUnderTest, fault: Literal["repeat", "cut", "expire"]
) -> None:
    cluster.embedded.api.faults.add(Fault(fault, on="WATCH", chance=0.3, times=20))
    await crowd(cluster)
    cluster.delete("p0", "p1")
    await cluster.place("late", {GPU: 4})
    await cluster.settled()


@embedded(FLEET, kube=OFTEN)
async def test_changes_that_a_watch_missed_are_found_by_a_new_list(cluster: ClusterUnderTest) -> None:
    await crowd(cluster, pods=2, size=8)
    cluster.embedded.api.faults.add(Fault("drop", on="WATCH", path="/pods$", times=6))
    cluster.delete("p0", "p1")
    cluster.create("late", {GPU: 8})
    await cluster.until(lambda: "p0" not in {pod["metadata"]["name"] for pod in cluster.pods()}, "they are gone")
    for _ in range(50):
        if "late" in cluster.bound():
            break
        cluster.embedded.api.abort_connections()
        await cluster.pause(0.1)
    await cluster.settled()
    assert "late" in cluster.bound()


@pytest.mark.parametrize("lost", [False, True])
@embedded(FLEET)
async def test_a_server_that_restarts_is_followed_again_whatever_it_still_knows(
    cluster: ClusterUnderTest, *, lost: bool
) -> None:
    await crowd(cluster, pods=4, size=4)
    cluster.delete("p0")
    await cluster.embedded.api.restart(lose_history=lost, downtime=0.2)
    cluster.delete("p1")
    for number in range(2):
        cluster.create(f"late-{number}", {GPU: 4})
    await cluster.until(lambda: {"late-0", "late-1"} <= cluster.bound(), "both have a node", 20.0)
    await cluster.settled()


@embedded(FLEET)
async def test_pods_that_are_made_while_the_server_is_away_are_placed_when_it_is_back(
    cluster: ClusterUnderTest,
) -> None:
    cluster.embedded.api.faults.add(Fault("reset", on="*", times=60))
    await crowd(cluster)


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
@embedded(FLEET)
async def test_a_clock_that_jumps_gives_nothing_away(cluster: ClusterUnderTest, seconds: float) -> None:
    words = {"gputopology.scheduling.koordinator.sh/name": "pair", "gputopology.scheduling.koordinator.sh/replica": "2"}
    await cluster.place("before", {GPU: 3})
    cluster.embedded.api.faults.add(Fault("delay", on="POST", path=BINDING, seconds=0.2, times=2))
    for number in range(2):
        cluster.create(f"pair-{number}", {GPU: 4}, labels=words)
    await cluster.pause(0.05)
    cluster.service.ahead = seconds
    await cluster.place("after", {GPU: 4})
    cluster.service.ahead = 0.0
    await cluster.until(lambda: len(cluster.bound()) == 4, "all have a node")
    await cluster.settled()


@embedded(FLEET)
async def test_a_service_that_is_killed_in_the_middle_of_binds_leaves_nothing_half_done(
    cluster: ClusterUnderTest,
) -> None:
    cluster.embedded.api.faults.add(Fault("delay", on="POST", path=BINDING, seconds=0.1, times=0))
    for number in range(8):
        cluster.create(f"p{number}", {GPU: 2})
    await cluster.pause(0.05)
    await cluster.service.kill()
    await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.until(lambda: len(cluster.bound()) == 8, "all have a node", 20.0)
    await cluster.settled()


@pytest.mark.rule("001.gang", "001.replan", level="E")
@embedded({"dgx1-v100": 4})
async def test_a_single_pod_does_not_take_the_room_of_a_gang_whose_service_was_killed(
    cluster: ClusterUnderTest,
) -> None:
    gang = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "g"), ("min-available", "4"))}
    cluster.embedded.api.faults.add(Fault("hang", on="POST", path=BINDING, times=0, skip=1))
    for number in range(4):
        cluster.create(f"g{number}", {GPU: 8}, annotations=gang)
    await cluster.until(lambda: len(cluster.bound()) == 1, "one member is bound")
    await cluster.service.kill()
    cluster.embedded.api.faults.clear()
    cluster.create("single", {GPU: 8})
    await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.until(lambda: len(cluster.bound()) == 4, "the gang is whole", 20.0)
    assert "single" not in cluster.bound()
