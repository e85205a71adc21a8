"""The service with a failing API server: no device is allocated twice and no pod is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import pytest

from linkwise.embedded.apiserver.faults import Fault
from support.embedded.cluster import Bed, embedded
from support.embedded.service import EmbeddedService

GPU: Final = "nvidia.com/gpu"
BINDING: Final = "/binding$"
FLEET: Final = {"dgx1-v100": 2}
OFTEN: Final = replace(EmbeddedService.QUICK, resync=2.0)


async def crowd(bed: Bed, pods: int = 6, size: int = 2) -> None:
    """Pods that all fit; each has its devices in the end."""
    for number in range(pods):
        bed.create(f"p{number}", {GPU: size})
    await bed.until(lambda: len(bed.bound()) == pods, "all have a node", 20.0)
    await bed.settled()
    faults = bed.cluster.api.faults
    await bed.until(lambda: all(fault["done"] for fault in faults.to_list()), "all faults have happened")


LANDED: Final = {
    "reset": Fault("reset", on="POST", path=BINDING, landed=True, times=3),
    "500": Fault("answer", on="POST", path=BINDING, code=500, landed=True, times=3),
    "504": Fault("answer", on="POST", path=BINDING, code=504, landed=True, times=3),
    "hang": Fault("hang", on="POST", path=BINDING, landed=True, times=1),
}


@pytest.mark.parametrize("fault", sorted(LANDED))
@embedded(FLEET)
async def test_binds_that_land_and_are_not_answered_are_found_out(bed: Bed, fault: str) -> None:
    bed.cluster.api.faults.add(LANDED[fault])
    await crowd(bed)


LOST: Final = {
    "reset": Fault("reset", on="POST", path=BINDING, times=4),
    "503": Fault("answer", on="POST", path=BINDING, code=503, times=4),
    "hang": Fault("hang", on="POST", path=BINDING, times=1),
}


@pytest.mark.parametrize("fault", sorted(LOST))
@embedded(FLEET)
async def test_binds_that_do_not_land_are_found_out_and_tried_again(bed: Bed, fault: str) -> None:
    bed.cluster.api.faults.add(LOST[fault])
    await crowd(bed, pods=4)


@embedded(FLEET)
async def test_a_bind_whose_outcome_never_arrives_is_given_up_and_frees_its_devices(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("reset", on="POST", path=BINDING, times=2))
    bed.create("first", {GPU: 8}, nodeSelector={"kubernetes.io/hostname": "dgx1-v100-0"})
    await bed.refused("first", "binding rejected")
    assert (await bed.placed("first")).node == "dgx1-v100-0"
    await bed.settled()


@embedded(FLEET)
async def test_devices_of_a_bind_of_unknown_outcome_stay_reserved(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("reset", on="POST", path=BINDING, landed=True))
    bed.cluster.api.faults.add(Fault("answer", on="GET", path="/pods/first$", code=503, times=10))
    bed.cluster.api.faults.add(Fault("drop", on="WATCH", path="/pods$", times=2))
    bed.create("first", {GPU: 8})
    held = await bed.placed("first")
    assert (await bed.place("second", {GPU: 8})).node != held.node
    await bed.settled()


@pytest.mark.parametrize("path", [BINDING, "/pods/p", "/events"])
@embedded(FLEET)
async def test_a_storm_of_conflicts_passes(bed: Bed, path: str) -> None:
    bed.cluster.api.faults.add(Fault("answer", on="WRITE", path=path, code=409, times=25))
    await crowd(bed)


@embedded(FLEET)
async def test_a_server_that_has_no_time_is_waited_for(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("answer", on="*", code=429, times=30, retry_after=1, chance=0.5))
    await crowd(bed)


@embedded(FLEET)
async def test_a_slow_server_slows_everything_and_breaks_nothing(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("delay", seconds=0.15, times=0))
    await crowd(bed, pods=8)


@pytest.mark.parametrize("fault", ["repeat", "cut", "expire"])
@embedded(FLEET)
async def test_watches_that_repeat_break_off_or_expire_are_taken_up_again(
    bed: Bed, fault: Literal["repeat", "cut", "expire"]
) -> None:
    bed.cluster.api.faults.add(Fault(fault, on="WATCH", chance=0.3, times=20))
    await crowd(bed)
    bed.delete("p0", "p1")
    await bed.place("late", {GPU: 4})
    await bed.settled()


@embedded(FLEET, kube=OFTEN)
async def test_changes_that_a_watch_missed_are_found_by_a_new_list(bed: Bed) -> None:
    await crowd(bed, pods=2, size=8)
    bed.cluster.api.faults.add(Fault("drop", on="WATCH", path="/pods$", times=6))
    bed.delete("p0", "p1")
    bed.create("late", {GPU: 8})
    await bed.until(lambda: "p0" not in {pod["metadata"]["name"] for pod in bed.pods()}, "they are gone")
    for _ in range(50):
        if "late" in bed.bound():
            break
        bed.cluster.api.abort_connections()
        await bed.pause(0.1)
    await bed.settled()
    assert "late" in bed.bound()


@pytest.mark.parametrize("lost", [False, True])
@embedded(FLEET)
async def test_a_server_that_restarts_is_followed_again_whatever_it_still_knows(bed: Bed, *, lost: bool) -> None:
    await crowd(bed, pods=4, size=4)
    bed.delete("p0")
    await bed.cluster.api.restart(lose_history=lost, downtime=0.2)
    bed.delete("p1")
    for number in range(2):
        bed.create(f"late-{number}", {GPU: 4})
    await bed.until(lambda: {"late-0", "late-1"} <= bed.bound(), "both have a node", 20.0)
    await bed.settled()


@embedded(FLEET)
async def test_pods_that_are_made_while_the_server_is_away_are_placed_when_it_is_back(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("reset", on="*", times=60))
    await crowd(bed)


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
@embedded(FLEET)
async def test_a_clock_that_jumps_gives_nothing_away(bed: Bed, seconds: float) -> None:
    words = {"gputopology.scheduling.koordinator.sh/name": "pair", "gputopology.scheduling.koordinator.sh/replica": "2"}
    await bed.place("before", {GPU: 3})
    bed.cluster.api.faults.add(Fault("delay", on="POST", path=BINDING, seconds=0.2, times=2))
    for number in range(2):
        bed.create(f"pair-{number}", {GPU: 4}, labels=words)
    await bed.pause(0.05)
    bed.service.ahead = seconds
    await bed.place("after", {GPU: 4})
    bed.service.ahead = 0.0
    await bed.until(lambda: len(bed.bound()) == 4, "all have a node")
    await bed.settled()


@embedded(FLEET)
async def test_a_service_that_is_killed_in_the_middle_of_binds_leaves_nothing_half_done(bed: Bed) -> None:
    bed.cluster.api.faults.add(Fault("delay", on="POST", path=BINDING, seconds=0.1, times=0))
    for number in range(8):
        bed.create(f"p{number}", {GPU: 2})
    await bed.pause(0.05)
    await bed.service.kill()
    await bed.service.start(bed.cluster.api.kubeconfig())
    await bed.until(lambda: len(bed.bound()) == 8, "all have a node", 20.0)
    await bed.settled()


@pytest.mark.rule("001.gang", "001.replan", level="E")
@embedded({"dgx1-v100": 4})
async def test_a_single_pod_does_not_take_the_room_of_a_gang_whose_service_was_killed(bed: Bed) -> None:
    gang = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "g"), ("min-available", "4"))}
    bed.cluster.api.faults.add(Fault("hang", on="POST", path=BINDING, times=0, skip=1))
    for number in range(4):
        bed.create(f"g{number}", {GPU: 8}, annotations=gang)
    await bed.until(lambda: len(bed.bound()) == 1, "one member is bound")
    await bed.service.kill()
    bed.cluster.api.faults.clear()
    bed.create("single", {GPU: 8})
    await bed.service.start(bed.cluster.api.kubeconfig())
    await bed.until(lambda: len(bed.bound()) == 4, "the gang is whole", 20.0)
    assert "single" not in bed.bound()
