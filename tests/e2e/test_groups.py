"""Pods that belong together go through a real kube-scheduler: planned as one, and gangs whole or not at all."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest

from linkwise.vendors.machines import profile
from support.e2e.invariants import all_is_well
from support.e2e.node_objects import device_ids, koordinator, machine
from support.e2e.pod_objects import GROUP_WORDS
from support.e2e.processes import wait_for
from support.e2e.refused_binds import binds_refused
from support.e2e.service import running_service_for_koordinator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Granted, Placing

GPU: Final = "nvidia.com/gpu"
RECORD: Final = "topology.scheduling.koordinator.sh/gpu"
MEASURED: Final = "dgx1-v100-measured"
NAME: Final = "gputopology.scheduling.koordinator.sh/name"
REPLICA: Final = "gputopology.scheduling.koordinator.sh/replica"
GANG: Final = "gang.scheduling.koordinator.sh"


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    with running_service_for_koordinator(kubernetes, "groups") as serve:
        yield serve


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    made = placing.namespace()
    yield made
    placing.cluster.api.delete(f"/api/v1/persistentvolumes/data-{made}")


def words(name: str, members: int, *, gang: bool = False) -> dict[str, Any]:
    """What a member says of its group."""
    said: dict[str, Any] = {"labels": {NAME: name, REPLICA: str(members)}}
    if gang:
        said["annotations"] = {f"{GANG}/name": name, f"{GANG}/min-available": str(members)}
    return said


def create_group(  # noqa: PLR0913 - a builder
    placing: Placing, namespace: str, name: str, members: int, limits: dict[str, int | str], *, gang: bool = False
) -> None:
    for number in range(members):
        placing.create(namespace, f"{name}-{number}", limits, **words(name, members, gang=gang))


def placed_group(placing: Placing, namespace: str, name: str, members: int) -> list[Granted]:
    return [placing.placed(namespace, f"{name}-{number}") for number in range(members)]


def bound(placing: Placing, namespace: str) -> set[str]:
    pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def entries(placing: Placing) -> list[dict[str, Any]]:
    return placing.entries()


def bottleneck(positions: set[int]) -> float:
    """By the measured matrix alone: the slower direction of the slowest pair."""
    matrix = profile(MEASURED).topology.bandwidth
    assert matrix is not None
    return min(min(matrix[a][b], matrix[b][a]) for a, b in combinations(sorted(positions), 2))


@pytest.mark.rule("001.group", "001.members", "001.record", "001.device", level="R")
def test_two_pods_of_two_get_four_cards_of_one_machine_at_the_corrected_bottleneck(
    placing: Placing, namespace: str
) -> None:
    placing.nodes(*koordinator("host04"))
    create_group(placing, namespace, "train", 2, {"koordinator.sh/gpu": 200})
    ids = device_ids("host04", MEASURED)
    first, second = (set(found.positions(ids)) for found in placed_group(placing, namespace, "train", 2))
    assert sorted([sorted(first), sorted(second)]) == [[0, 3], [1, 2]]
    assert bottleneck(first | second) == pytest.approx(48.33)
    assert min(bottleneck(first), bottleneck(second)) == pytest.approx(96.25)
    record = placing.placed(namespace, "train-0").annotations["topology.scheduling.koordinator.sh/gpu"]
    assert json.loads(record)["allocatedGPUs"] == {"0": [str(number) for number in sorted(first)]}
    all_is_well(placing)


@pytest.mark.rule("001.fewest-nodes", "001.steer", level="R")
def test_four_pods_of_four_take_two_machines_of_three(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    create_group(placing, namespace, "big", 4, {GPU: 4})
    found = placed_group(placing, namespace, "big", 4)
    assert len({one.node for one in found}) == 2
    all_is_well(placing)


@pytest.mark.rule("001.fewest-nodes", "001.steer", level="R")
def test_a_group_of_sixteen_takes_sixteen_machines_among_a_hundred_and_twenty(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for number in range(120) for thing in machine(f"n{number}", "nvlink", labels=rack(number))))
    create_group(placing, namespace, "wide", 16, {GPU: 8}, gang=True)
    found = placed_group(placing, namespace, "wide", 16)
    assert len({one.node for one in found}) == 16
    assert len({int(one.node[1:]) // 20 for one in found}) == 1, "one rack of twenty is enough"
    all_is_well(placing)


def rack(number: int) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": f"rack-{number // 20}"}


@pytest.mark.rule("001.filters", level="R")
def test_members_that_do_not_fit_beside_each_other_take_two_machines(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "ab" for thing in machine(name, "measured")))
    create_group(placing, namespace, "hungry", 2, {GPU: 2, "cpu": 50})
    assert {found.node for found in placed_group(placing, namespace, "hungry", 2)} == {"a", "b"}


@pytest.mark.rule("001.siblings", "001.members", level="R")
def test_siblings_are_bound_by_one_plan(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "ab" for thing in machine(name, "measured")))
    create_group(placing, namespace, "job", 8, {GPU: 2})
    found = placed_group(placing, namespace, "job", 8)
    plans = {(record["plan"], record["generation"]) for one in found if (record := written(one))}
    assert plans == {(f"{namespace}/job/8", 1)}


@pytest.mark.rule("001.record", level="R")
def test_every_member_has_the_groups_cards_on_its_node_on_record(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    create_group(placing, namespace, "job", 2, {GPU: 2})
    records = [json.loads(found.annotations[RECORD]) for found in placed_group(placing, namespace, "job", 2)]
    assert [record["visibleGPUs"] for record in records] == [["0", "1", "2", "3"]] * 2


@pytest.mark.rule("001.group", level="R")
@pytest.mark.parametrize("system", sorted(GROUP_WORDS))
def test_groups_in_the_words_of_other_systems_start_together(placing: Placing, namespace: str, system: str) -> None:
    placing.nodes(*machine("a", "measured"))
    placing.create(namespace, "job-0", {GPU: 2}, **GROUP_WORDS[system])
    placing.refused(namespace, "job-0")
    placing.create(namespace, "job-1", {GPU: 2}, **GROUP_WORDS[system])
    plans = {written(found)["plan"] for found in placed_group(placing, namespace, "job", 2)}
    assert plans == {f"{namespace}/job"}


def written(found: Granted) -> dict[str, Any]:
    return dict(json.loads(found.annotations["linkwise.dev/grant"]))


@pytest.mark.rule("001.gang", level="R")
def test_no_member_of_a_gang_is_bound_while_one_is_missing(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    for number in range(2):
        placing.create(namespace, f"gang-{number}", {GPU: 2}, **words("gang", 3, gang=True))
    for number in range(2):
        placing.refused(namespace, f"gang-{number}")
    assert bound(placing, namespace) == set()
    assert entries(placing) == []
    placing.create(namespace, "gang-2", {GPU: 2}, **words("gang", 3, gang=True))
    assert {found.node for found in placed_group(placing, namespace, "gang", 3)} == {"a"}


@pytest.mark.rule("001.gang", level="R")
def test_a_gang_that_does_not_fit_holds_nothing_and_is_placed_whole_when_it_does(
    placing: Placing, namespace: str
) -> None:
    placing.nodes(*machine("a", "measured"))
    placing.place(namespace, "blocker", {GPU: 1})
    create_group(placing, namespace, "gang", 2, {GPU: 4}, gang=True)
    for number in range(2):
        placing.refused(namespace, f"gang-{number}")
    assert placing.place(namespace, "passer-by", {GPU: 7}).node == "a"  # which it could not if anything were held
    assert bound(placing, namespace) == {"blocker", "passer-by"}
    placing.gone(namespace, "blocker", "passer-by")
    assert {found.node for found in placed_group(placing, namespace, "gang", 2)} == {"a"}
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
def test_of_gangs_that_compete_each_is_placed_whole_and_the_others_wait(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    limits: dict[str, int | str] = {GPU: 8}
    for number in range(2):
        for name in ("red", "blue", "green"):
            placing.create(namespace, f"{name}-{number}", limits, **words(name, 2, gang=True))
    for left in (3, 2, 1):
        whole = wait_for(lambda: whole_gangs(placing, namespace), 15, f"one gang of {left} is placed")
        assert len(whole) == 1
        assert bound(placing, namespace) == {f"{name}-{number}" for name in whole for number in range(2)}
        placing.gone(namespace, *sorted(bound(placing, namespace)))


def whole_gangs(placing: Placing, namespace: str) -> set[str]:
    there = bound(placing, namespace)
    return {name for name in ("red", "blue", "green") if {f"{name}-0", f"{name}-1"} <= there}


@pytest.mark.rule("001.gang-words", level="R")
def test_a_gang_that_contradicts_its_group_is_warned_with_both_values(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    said = words("train", 2)
    said["annotations"] = {f"{GANG}/name": "trian", f"{GANG}/min-available": "3"}
    placing.create(namespace, "train-0", {GPU: 2}, **said)
    sentence = placing.wait_for_event(namespace, "train-0", "GroupWords")
    assert "'trian'" in sentence
    assert "'train'" in sentence
    assert "it is 3" in sentence


@pytest.mark.rule("001.hold", "001.siblings", "001.steer", level="R")
def test_devices_reserved_for_a_late_member_stay_reserved(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    late_pair(placing, namespace, {GPU: 4})
    placing.refused(create_single(placing, namespace), "single")
    let_in(placing, namespace)
    assert placing.placed(namespace, "pair-1").node == "a"
    assert "single" not in bound(placing, namespace)
    all_is_well(placing)


@pytest.mark.rule("001.replan", level="R")
@pytest.mark.parametrize("end", ["deleted", "not ready"])
def test_a_member_whose_planned_node_ends_is_planned_again_beside_the_bound_ones(
    placing: Placing, namespace: str, end: str
) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    first = late_pair(placing, namespace, {GPU: 8})
    (planned,) = {entry["grant"]["offer"]["node"] for entry in entries(placing)} - {first.node}
    end_node(placing.cluster, planned, deleted=end == "deleted")
    placing.wait_for_event(namespace, "pair-1", "PlanBroken")
    let_in(placing, namespace)
    (third,) = {"a", "b", "c"} - {first.node, planned}
    assert placing.placed(namespace, "pair-1").node == third
    all_is_well(placing)


@pytest.mark.rule("001.replan", level="R")
def test_a_group_whose_planned_node_refuses_binds_is_planned_again(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("best", "measured"), *machine("other", "pcie"))
    with binds_refused(placing.cluster, ["best"]):
        create_group(placing, namespace, "train", 2, {GPU: 2})
        found = [placing.placed(namespace, f"train-{number}", 40) for number in range(2)]
    assert {one.node for one in found} == {"other"}
    all_is_well(placing)


def create_single(placing: Placing, namespace: str) -> str:
    placing.create(namespace, "single", {GPU: 4})
    return namespace


def late_pair(placing: Placing, namespace: str, limits: dict[str, int | str]) -> Granted:
    """A group of two, the second of which waits for a volume that is not there; what the first was given."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    placing.create(namespace, "pair-1", limits, **words("pair", 2), volumes=[volume])
    placing.refused(namespace, "pair-1", "persistentvolumeclaim")
    placing.create(namespace, "pair-0", limits, **words("pair", 2))
    return placing.placed(namespace, "pair-0")


def let_in(placing: Placing, namespace: str) -> None:
    """Make the volume that a pair's second member waits for."""
    name = f"data-{namespace}"
    amount = {"storage": "1Gi"}
    volume = {"capacity": amount, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    claim = {"storageClassName": "", "volumeName": name, "accessModes": ["ReadWriteOnce"]}
    about = {"name": name, "labels": {"linkwise.dev/e2e": "true"}}
    own = {"name": "data", "namespace": namespace}
    placing.cluster.api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": about, "spec": volume})
    placing.cluster.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": own,
            "spec": {**claim, "resources": {"requests": amount}},
        }
    )


def end_node(cluster: Cluster, name: str, *, deleted: bool) -> None:
    if deleted:
        cluster.api.delete(f"/api/v1/nodes/{name}")
        return
    condition = {"type": "Ready", "status": "False", "reason": "KubeletStopped", "message": "a test's word"}
    cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}})
