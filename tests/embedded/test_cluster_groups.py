"""Pod groups on the embedded cluster: planned together, and gangs completely or not at all."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest

from linkwise.embedded.apiserver.faults import Fault
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.vendors.machines import profile
from support.e2e.node_objects import device_ids, koordinator, machine
from support.e2e.pod_objects import GROUP_WORDS
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.service import Granted

GPU: Final = "nvidia.com/gpu"
RECORD: Final = "topology.scheduling.koordinator.sh/gpu"
MEASURED: Final = "dgx1-v100-measured"
PREFIX: Final = "gputopology.scheduling.koordinator.sh"
GANG: Final = "gang.scheduling.koordinator.sh"
HOLD: Final = 1000.0  # seconds


def words(name: str, members: int, *, gang: bool = False) -> dict[str, Any]:
    """What a member says of its group."""
    said: dict[str, Any] = {"labels": {f"{PREFIX}/name": name, f"{PREFIX}/replica": str(members)}}
    if gang:
        said["annotations"] = {f"{GANG}/name": name, f"{GANG}/min-available": str(members)}
    return said


def create_group(
    cluster: ClusterUnderTest, name: str, members: int, limits: dict[str, int | str], *, gang: bool = False
) -> None:
    for number in range(members):
        cluster.create(f"{name}-{number}", limits, **words(name, members, gang=gang))


async def placed_group(cluster: ClusterUnderTest, name: str, members: int) -> list[Granted]:
    return [await cluster.placed(f"{name}-{number}") for number in range(members)]


def bottleneck(positions: set[int]) -> float:
    """By the measured matrix alone: the slower direction of the slowest pair."""
    matrix = profile(MEASURED).topology.bandwidth
    assert matrix is not None
    return min(min(matrix[a][b], matrix[b][a]) for a, b in combinations(sorted(positions), 2))


def holds(cluster: ClusterUnderTest) -> list[tuple[str, str]]:
    """Node and state of all that the service has promised."""
    return [(entry.node, entry.state) for entry in cluster.service.broker.entries()]


@pytest.mark.rule("001.group", "001.members", "001.record", "001.device")
@embedded()
async def test_two_pods_of_two_get_four_cards_of_one_machine_at_the_corrected_bottleneck(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*koordinator("host04"))
    create_group(cluster, "train", 2, {"koordinator.sh/gpu": 200})
    ids = device_ids("host04", MEASURED)
    first, second = (set(found.positions(ids)) for found in await placed_group(cluster, "train", 2))
    assert sorted([sorted(first), sorted(second)]) == [[0, 3], [1, 2]]
    assert bottleneck(first | second) == pytest.approx(48.33)
    assert min(bottleneck(first), bottleneck(second)) == pytest.approx(96.25)
    await cluster.well()


@pytest.mark.rule("001.fewest-nodes", "001.steer")
@embedded({"dgx1-v100-measured": 3})
async def test_four_pods_of_four_take_two_machines_of_three(cluster: ClusterUnderTest) -> None:
    create_group(cluster, "big", 4, {GPU: 4})
    assert len({found.node for found in await placed_group(cluster, "big", 4)}) == 2
    await cluster.well()


@pytest.mark.rule("001.siblings", "001.members")
@embedded({"dgx1-v100-measured": 2})
async def test_siblings_are_bound_by_one_plan(cluster: ClusterUnderTest) -> None:
    create_group(cluster, "job", 8, {GPU: 2})
    records = [json.loads(found.annotations["linkwise.dev/grant"]) for found in await placed_group(cluster, "job", 8)]
    assert {(record["plan"], record["generation"]) for record in records} == {("default/job/8", 1)}


@pytest.mark.rule("001.record")
@embedded({"dgx1-v100-measured": 1})
async def test_every_member_has_the_groups_cards_on_its_node_on_record(cluster: ClusterUnderTest) -> None:
    create_group(cluster, "job", 2, {GPU: 2})
    records = [json.loads(found.annotations[RECORD]) for found in await placed_group(cluster, "job", 2)]
    assert [record["visibleGPUs"] for record in records] == [["0", "1", "2", "3"]] * 2


@pytest.mark.rule("001.group", "001.gang")
@pytest.mark.parametrize("system", sorted(GROUP_WORDS))
@embedded({"dgx1-v100-measured": 1})
async def test_groups_in_the_words_of_other_systems_start_together(cluster: ClusterUnderTest, system: str) -> None:
    cluster.create("job-0", {GPU: 2}, **GROUP_WORDS[system])
    await cluster.refused("job-0")
    assert cluster.bound() == set()
    assert holds(cluster) == []
    cluster.create("job-1", {GPU: 2}, **GROUP_WORDS[system])
    assert len(await placed_group(cluster, "job", 2)) == 2


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1})
async def test_a_gang_that_does_not_fit_holds_nothing_and_is_placed_whole_when_it_does(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.place("blocker", {GPU: 1})
    create_group(cluster, "gang", 2, {GPU: 4}, gang=True)
    for number in range(2):
        await cluster.refused(f"gang-{number}")
    await cluster.place("passer-by", {GPU: 7})  # which it could not if anything were held
    assert cluster.bound() == {"blocker", "passer-by"}
    cluster.delete("blocker", "passer-by")
    assert len({found.node for found in await placed_group(cluster, "gang", 2)}) == 1
    await cluster.well()


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 1})
async def test_the_first_member_is_notified_when_the_complete_gang_does_not_fit(cluster: ClusterUnderTest) -> None:
    await cluster.place("blocker", {GPU: 1})
    cluster.create("gang-0", {GPU: 4}, **words("gang", 2, gang=True))
    await cluster.refused("gang-0", "node(s): the gang is incomplete")
    cluster.create("gang-1", {GPU: 4}, **words("gang", 2, gang=True))
    await cluster.refused("gang-1", "node(s): the gang doesn't fit")
    assert "the 2 pending members of the pod's gang don't fit together" in await cluster.wait_for_event(
        "gang-0", "GroupDoesNotFit"
    )
    assert "default/blocker (1 device) on node dgx1-v100-measured-0 finishes" in await cluster.explained("gang-0")


@pytest.mark.rule("001.gang")
@embedded({"dgx1-v100-measured": 3})
async def test_of_gangs_that_compete_each_is_placed_whole_and_the_others_wait(cluster: ClusterUnderTest) -> None:
    for number in range(2):
        for name in ("red", "blue", "green"):
            cluster.create(f"{name}-{number}", {GPU: 8}, **words(name, 2, gang=True))
    for _ in range(3):
        await cluster.until(lambda: len(cluster.bound()) == 2, "one gang is placed")
        assert len({name.partition("-")[0] for name in cluster.bound()}) == 1
        cluster.delete(*cluster.bound())
        await cluster.until(lambda: not cluster.bound() or len(cluster.bound()) == 2, "it is gone")


@pytest.mark.rule("001.gang-words")
@embedded({"dgx1-v100-measured": 1})
async def test_a_gang_that_contradicts_its_group_is_warned_with_both_values(cluster: ClusterUnderTest) -> None:
    said = words("train", 2)
    said["annotations"] = {f"{GANG}/name": "trian", f"{GANG}/min-available": "3"}
    cluster.create("train-0", {GPU: 2}, **said)
    sentence = await cluster.wait_for_event("train-0", "GroupWords")
    assert "'trian'" in sentence
    assert "'train'" in sentence


@pytest.mark.rule("001.tolerant")
@embedded({"dgx1-v100-measured": 1}, placing=PlacingSettings(group=GroupSettings(window=0.1)))
async def test_without_a_gang_members_that_fit_run_first(cluster: ClusterUnderTest) -> None:
    create_group(cluster, "loose", 3, {GPU: 4})
    await cluster.until(lambda: len(cluster.bound()) == 2, "two of three fit")
    (late,) = {"loose-0", "loose-1", "loose-2"} - cluster.bound()
    await cluster.refused(late)
    cluster.delete(min(cluster.bound()))
    await cluster.placed(late)
    await cluster.well()


@pytest.mark.rule("001.hold", "001.siblings", "001.steer")
@embedded({"dgx1-v100-measured": 1})
async def test_devices_reserved_for_a_late_member_stay_reserved(cluster: ClusterUnderTest) -> None:
    await hold_for_one_who_is_late(cluster, {GPU: 4})
    cluster.create("single", {GPU: 4})
    await cluster.refused("single")
    let_in(cluster)
    await cluster.placed("pair-1")
    assert "single" not in cluster.bound()
    await cluster.well()


@pytest.mark.rule("001.hold")
@embedded({"dgx1-v100-measured": 1}, placing=PlacingSettings(group=GroupSettings(hold=HOLD)))
async def test_a_plan_without_binds_expires_and_frees_its_devices(cluster: ClusterUnderTest) -> None:
    await hold_for_one_who_is_late(cluster, {GPU: 4})
    cluster.create("single", {GPU: 4})
    await cluster.refused("single")
    cluster.service.ahead += HOLD
    await cluster.placed("single")
    await cluster.wait_for_event("pair-1", "PlanExpired")
    await cluster.well()


@pytest.mark.rule("001.replan")
@pytest.mark.parametrize("end", ["removed", "silent"])
@embedded({"dgx1-v100-measured": 3})
async def test_a_member_whose_planned_node_ends_is_planned_again_beside_the_bound_ones(
    cluster: ClusterUnderTest, end: str
) -> None:
    first = await hold_for_one_who_is_late(cluster, {GPU: 8})
    (planned,) = {node for node, _ in holds(cluster)} - {first.node}
    (cluster.embedded.nodes.remove if end == "removed" else cluster.embedded.nodes.stop_heartbeat)(planned)
    await cluster.wait_for_event("pair-1", "PlanBroken")
    let_in(cluster)
    assert (await cluster.placed("pair-1")).node not in {first.node, planned}
    await cluster.well()


@pytest.mark.rule("001.replan")
@embedded()
async def test_a_group_whose_planned_node_refuses_binds_is_planned_again(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*machine("best", "measured"), *machine("other", "pcie"))
    cluster.embedded.api.faults.add(Fault("answer", on="POST", path="/binding$", code=403, times=8))
    create_group(cluster, "train", 2, {GPU: 2})
    found = await placed_group(cluster, "train", 2)
    assert len({one.node for one in found}) == 1
    await cluster.well()


async def hold_for_one_who_is_late(cluster: ClusterUnderTest, limits: dict[str, int | str]) -> Granted:
    """A group of two, the second of which waits for a volume that is not there; what the first was given."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.create("pair-1", limits, **words("pair", 2), volumes=[volume])
    await cluster.refused("pair-1", 'persistentvolumeclaim "data" not found')
    return await cluster.place("pair-0", limits, **words("pair", 2))


def let_in(cluster: ClusterUnderTest) -> None:
    """Make the volume that a pair's second member waits for."""
    cluster.store.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": {}}, "default")
