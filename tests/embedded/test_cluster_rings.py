"""Ascend 910 chips are allocated ring by ring on the embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.model.settings import PlacingSettings
from support.e2e.node_objects import ascend
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from support.e2e.service import Granted

NPU = "huawei.com/Ascend910"


def chips(granted: Granted) -> tuple[int, ...]:
    """What Huawei's annotation says."""
    return tuple(int(chip.removeprefix("Ascend910-")) for chip in granted.annotations[NPU].split(","))


async def use(cluster: ClusterUnderTest, node: str, *used: int) -> None:
    """Chips that pods of somebody else have."""
    for chip in used:
        holds = {NPU: f"Ascend910-{chip}", "predicate-time": str(chip + 1)}
        cluster.create(f"{node}-{chip}", {NPU: 1}, nodeName=node, annotations=holds)
    await cluster.counted(len(used))


@pytest.mark.rule("003.ring", "003.record")
@pytest.mark.parametrize("size", [1, 2, 4])
@embedded()
async def test_up_to_four_chips_come_from_one_ring_and_are_written_in_huaweis_words(
    cluster: ClusterUnderTest, size: int
) -> None:
    await cluster.nodes(*ascend("a"))
    await use(cluster, "a", 0, 1)
    granted = await cluster.place("train", {NPU: size})
    assert len({chip // 4 for chip in chips(granted)}) == 1
    assert len(chips(granted)) == size
    assert int(granted.annotations["predicate-time"]) > 10**18


@pytest.mark.rule("003.faulty")
@embedded()
async def test_a_sound_machine_comes_before_one_with_a_faulty_chip_and_that_chip_is_not_given(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*ascend("sound"), *ascend("faulty", unhealthy=[7]))
    assert [(await cluster.place(f"p{number}", {NPU: 4})).node for number in range(2)] == ["sound", "sound"]
    assert chips(await cluster.place("p2", {NPU: 4})) == (0, 1, 2, 3)
    cluster.create("p3", {NPU: 4})
    await cluster.refused("p3")


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("size", [3, 5, 6, 7])
@embedded()
async def test_a_count_that_no_ring_has_is_refused_with_a_sentence(cluster: ClusterUnderTest, size: int) -> None:
    await cluster.nodes(*ascend("a"))
    cluster.create("odd", {NPU: size})
    assert await cluster.refused("odd") == "0/1 nodes are available: 1 node(s) can't allocate that number of devices."
    assert f"{size} devices can't be allocated on ascend-910; request 1, 2, 4 or 8" in await cluster.explained("odd")


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("size", [9, 12, 16])
@embedded()
async def test_more_chips_than_a_machine_has_are_not_asked_for_in_one_pod(cluster: ClusterUnderTest, size: int) -> None:
    await cluster.nodes(*ascend("a"))
    cluster.create("large", {NPU: size})
    await cluster.refused("large")
    assert f"{size} devices can't be allocated on ascend-910; request 1, 2, 4 or 8" in await cluster.explained("large")


@pytest.mark.rule("003.predicate", "003.ring")
@embedded()
async def test_too_few_chips_in_each_ring_are_refused_with_both_counts(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"))
    await use(cluster, "a", 0, 1, 2, 4, 5, 6)
    cluster.create("pair", {NPU: 2})
    assert "1 node(s) had enough idle devices, but not in the required layout" in await cluster.refused("pair")
    assert "ring 0 has 1 idle, ring 1 has 1 idle" in await cluster.explained("pair")


@pytest.mark.rule("003.between", "002.release")
@embedded()
async def test_chips_of_a_pod_that_is_leaving_are_given_away_when_its_containers_have_stopped(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*ascend("a"))
    slow = {"sim.linkwise.dev/stop-seconds": "0.6"}
    first = await cluster.place("old", {NPU: 8}, annotations=slow, terminationGracePeriodSeconds=30)
    await cluster.phase("old", "Running")
    cluster.delete("old")
    cluster.create("new", {NPU: 8})
    await cluster.refused("new")
    assert cluster.pod("old")["status"]["phase"] == "Running"
    assert (await cluster.placed("new")).devices == first.devices
    assert cluster.store.find("pods", "old", "default") is None
    await cluster.well()


def of_a_job(pods: int) -> dict[str, dict[str, str]]:
    """Volcano's words on each of so many pods that start together."""
    words = {"scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-min-member": str(pods)}
    return {"annotations": {**words, "volcano.sh/task-spec": "worker"}}


@pytest.mark.rule("003.one-pod")
@embedded()
async def test_a_job_of_up_to_eight_chips_must_be_one_pod(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    for number in range(2):
        cluster.create(f"p{number}", {NPU: 4}, **of_a_job(2))
    assert "node(s): a job of this size must be one pod" in await cluster.refused("p1", "must be one pod")
    assert "8 devices requested by 2 pods; a job of up to 8 devices must be one pod" in await cluster.explained("p0")
    assert cluster.bound() == set()


@pytest.mark.rule("003.one-pod")
@embedded()
async def test_a_job_of_more_than_eight_chips_has_eight_a_pod(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    for number in range(2):
        cluster.create(f"p{number}", {NPU: 8}, **of_a_job(2))
    assert {(await cluster.placed(f"p{number}")).node for number in range(2)} == {"a", "b"}


@pytest.mark.rule("003.one-pod")
@embedded(placing=PlacingSettings(job_shape="per-pod"))
async def test_per_pod_lets_a_small_job_have_several_pods(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"))
    for number in range(2):
        cluster.create(f"p{number}", {NPU: 4}, **of_a_job(2))
    assert [(await cluster.placed(f"p{number}")).node for number in range(2)] == ["a", "a"]
