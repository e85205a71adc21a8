"""Gated gangs on a real Kubernetes: planned before they are tried, steered by nominations, whole or not at all.

The pods carry the gate as the webhook would have added it.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well, nothing_is_sold_twice
from support.e2e.node_objects import device_ids, koordinator, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service_for_koordinator
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

log: Final = logging.getLogger(__name__)

GPU: Final = "nvidia.com/gpu"
GATE: Final = "linkwise.dev/gang"
OTHER: Final = "example.com/quota"
GANG: Final = "gang.scheduling.koordinator.sh"
NAME: Final = "gputopology.scheduling.koordinator.sh/name"
REPLICA: Final = "gputopology.scheduling.koordinator.sh/replica"
MEASURED: Final = "dgx1-v100-measured"
ROUNDS: Final = rounds(10, 50)
KILLS: Final = rounds(15, 100)
SOON: Final = 20.0  # seconds
"""in which gangs are whole or nothing after a restart; kube-scheduler waits up to 10 before it retries a member"""


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    # Members that wait for a volume are planned and ungated, and kube-scheduler keeps them pending.
    with running_service_for_koordinator(kubernetes, "gates", {"kube": {"without": ["volumes"]}}) as serve:
        yield serve


def member(namespace: str, name: str, number: int, count: int, **more: Any) -> Raw:  # noqa: ANN401 - as `pod` has them
    """A member of a gang as the webhook leaves it."""
    limits = more.pop("limits", {GPU: more.pop("devices", 4)})
    words = {f"{GANG}/name": name, f"{GANG}/min-available": str(more.pop("least", count)), **more.pop("words", {})}
    gates = [{"name": gate} for gate in more.pop("gates", (GATE,))]
    return pod(namespace, f"{name}-{number}", limits, annotations=words, schedulingGates=gates, **more)


def gang(namespace: str, name: str, count: int, devices: int = 4) -> list[Raw]:
    return [member(namespace, name, number, count, devices=devices) for number in range(count)]


def pods_of(placing: Placing, namespace: str) -> list[Raw]:
    return placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")


def node_of(found: Raw) -> str:
    return str(found["spec"].get("nodeName", ""))


def bound(placing: Placing, namespace: str) -> set[str]:
    return {found["metadata"]["name"] for found in pods_of(placing, namespace) if node_of(found)}


def still_gated(placing: Placing, namespace: str) -> set[str]:
    return {found["metadata"]["name"] for found in pods_of(placing, namespace) if found["spec"].get("schedulingGates")}


def all_bound(placing: Placing, namespace: str, count: int, seconds: float = 15.0) -> list[Raw]:
    wait_for(lambda: len(bound(placing, namespace)) == count, seconds, f"{count} pods are bound")
    return pods_of(placing, namespace)


def nodes(placing: Placing, *names: str) -> None:
    placing.nodes(*(thing for name in names for thing in machine(name, "nvlink")))


@pytest.mark.rule("001.gang", "001.group", "001.record", "001.steer", level="R")
def test_the_story_of_the_seed_two_workers_with_gang_annotations_get_one_machine_whole(placing: Placing) -> None:
    placing.nodes(*koordinator("host04"))
    namespace = placing.namespace()
    labels = {NAME: "train", REPLICA: "2"}
    first, second = (
        member(namespace, "train", number, 2, limits={"koordinator.sh/gpu": 200}, labels=labels) for number in range(2)
    )
    placing.cluster.create([first])
    wait_for(lambda: placing.metric("linkwise_gated_gangs") == 1, 10, "the service has seen the first")
    assert (bound(placing, namespace), placing.entries()) == (set(), [])
    placing.cluster.create([second])
    found = all_bound(placing, namespace, 2)
    ids = device_ids("host04", MEASURED)
    assert sorted(sorted(placing.grant(each).positions(ids)) for each in found) == [[0, 3], [1, 2]]
    record = json.loads(found[0]["metadata"]["annotations"]["topology.scheduling.koordinator.sh/gpu"])
    assert record["visibleGPUs"] == ["0", "1", "2", "3"]
    all_is_well(placing)


@pytest.mark.rule("001.gang", "001.steer", level="R")
def test_unequal_members_start_together_in_every_order_of_creation(placing: Placing) -> None:
    nodes(placing, "a", "b")
    sizes = (8, 4, 2, 2)
    for order in permutations(range(4)):
        namespace = placing.namespace()
        for number in order:
            placing.cluster.create([member(namespace, "train", number, 4, devices=sizes[number])])
        found = all_bound(placing, namespace, 4)
        assert len({node_of(each) for each in found}) == 2
        placing.gone(namespace, *(each["metadata"]["name"] for each in found))


@pytest.mark.rule("001.steer", level="R")
def test_a_member_is_nominated_and_has_its_own_placement_on_record_when_it_is_ungated(placing: Placing) -> None:
    nodes(placing, "a", "b")
    namespace = placing.namespace()
    # Nothing binds it: kube-scheduler waits for a volume that is not there.
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    made = [member(namespace, "train", number, 2, devices=8, volumes=[volume]) for number in range(2)]
    placing.cluster.create(made)
    wait_for(lambda: not still_gated(placing, namespace), 10, "the gang is ungated")
    for found in pods_of(placing, namespace):
        record = json.loads(found["metadata"]["annotations"]["linkwise.dev/group-plan"])
        (plan,) = record["groups"].values()
        assert list(plan["members"]) == [record["pod"]] == [found["metadata"]["uid"]]
        assert plan["members"][record["pod"]]["node"] == found["status"]["nominatedNodeName"]
    assert bound(placing, namespace) == set()


def test_a_gate_of_somebody_else_keeps_the_gang_waiting_and_stays(placing: Placing) -> None:
    nodes(placing, "a")
    namespace = placing.namespace()
    placing.cluster.create([member(namespace, "train", 0, 2), member(namespace, "train", 1, 2, gates=(OTHER, GATE))])
    wait_for(lambda: placing.metric("linkwise_gated_gangs") == 1, 10, "the service has seen the gang")
    assert still_gated(placing, namespace) == {"train-0", "train-1"}
    assert placing.entries() == []
    placing.cluster.api.patch(
        f"/api/v1/namespaces/{namespace}/pods/train-1", {"spec": {"schedulingGates": [{"name": GATE}]}}
    )
    all_bound(placing, namespace, 2)


@pytest.mark.rule("001.replan", level="R")
@pytest.mark.parametrize("end", ["deleted", "not ready"])
def test_a_planned_node_that_is_lost_before_bind_is_replaced_on_all_members(placing: Placing, end: str) -> None:
    nodes(placing, "a", "b", "c")
    namespace = placing.namespace()
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    placing.cluster.create(member(namespace, "train", number, 2, devices=8, volumes=[volume]) for number in range(2))
    wait_for(lambda: not still_gated(placing, namespace), 10, "the gang is ungated")
    (lost, _) = sorted(nominated(placing, namespace).values())
    end_node(placing.cluster, lost, deleted=end == "deleted")
    wait_for(
        lambda: {lost}.isdisjoint(nominated(placing, namespace).values()) and len(nominated(placing, namespace)) == 2,
        10,
        "the members are nominated elsewhere",
    )
    let_in(placing, namespace)
    assert {node_of(found) for found in all_bound(placing, namespace, 2, 30)} == {"a", "b", "c"} - {lost}
    all_is_well(placing)


def nominated(placing: Placing, namespace: str) -> dict[str, str]:
    found = {each["metadata"]["name"]: each["status"].get("nominatedNodeName") for each in pods_of(placing, namespace)}
    return {name: node for name, node in found.items() if node}


def end_node(cluster: Cluster, name: str, *, deleted: bool) -> None:
    if deleted:
        cluster.api.delete(f"/api/v1/nodes/{name}")
        return
    condition = {"type": "Ready", "status": "False", "reason": "KubeletStopped", "message": "a test's word"}
    cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}})


def let_in(placing: Placing, namespace: str) -> None:
    """Make the volume that members wait for."""
    name, amount = f"data-{namespace}", {"storage": "1Gi"}
    volume = {"capacity": amount, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/data"}}
    claim = {"storageClassName": "", "volumeName": name, "accessModes": ["ReadWriteMany"]}
    about = {"name": name, "labels": {"linkwise.dev/e2e": "true"}}
    own = {"name": "data", "namespace": namespace}
    placing.cluster.api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": about, "spec": volume})
    spec = {**claim, "resources": {"requests": amount}}
    placing.cluster.api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": spec})


@pytest.mark.rule("001.gang", level="R")
def test_a_gang_that_does_not_fit_holds_nothing_and_starts_whole_within_a_second_of_room(placing: Placing) -> None:
    nodes(placing, "a", "b")
    namespace = placing.namespace()
    placing.place(namespace, "blocker", {GPU: 1})
    placing.cluster.create(gang(namespace, "train", 4))
    placing.wait_for_event(namespace, "train-0", "GroupDoesNotFit")
    assert [entry["grant"]["pod"] for entry in placing.entries()] == [uid_of(placing, namespace, "blocker")]
    assert placing.place(namespace, "passer-by", {GPU: 7}).node  # which it could not if anything were held
    placing.gone(namespace, "passer-by")
    assert bound(placing, namespace) == {"blocker"}
    placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/blocker")
    started = time.monotonic()
    all_bound(placing, namespace, 4, 5)
    assert time.monotonic() - started < 1.0
    all_is_well(placing)


def uid_of(placing: Placing, namespace: str, name: str) -> str:
    return str(placing.cluster.pod(namespace, name)["metadata"]["uid"])


@pytest.mark.rule("001.gang", level="R")
@pytest.mark.soak
@pytest.mark.timeout(240)
def test_two_gangs_that_each_fit_alone_never_start_in_part_and_never_block_each_other(placing: Placing) -> None:
    nodes(placing, "a", "b")
    chance, namespace = Random(2), placing.namespace()
    for _ in range(ROUNDS):
        made = [*gang(namespace, "red", 4), *gang(namespace, "blue", 4)]
        placing.cluster.create(chance.sample(made, len(made)))
        first = wait_for(lambda: one_whole(pods_of(placing, namespace)), 15, "one gang is whole")
        assert not partial(pods_of(placing, namespace), but=first)
        placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods?labelSelector=team%3D{first}")
        for number in range(4):
            placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{first}-{number}")
        second = "blue" if first == "red" else "red"
        wait_for(lambda: one_whole(pods_of(placing, namespace)) == second, 15, "so is the other")  # noqa: B023
        placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods")
        wait_for(lambda: not pods_of(placing, namespace), 15, "the round is over")


def gangs_of(pods: Iterable[Raw]) -> dict[str, list[bool]]:
    """Whether each member of a gang is bound, by gang."""
    gangs: dict[str, list[bool]] = defaultdict(list)
    for found in pods:
        if name := (found["metadata"].get("annotations") or {}).get(f"{GANG}/name"):
            gangs[name].append(bool(node_of(found)))
    return gangs


def one_whole(pods: Iterable[Raw]) -> str:
    return next((name for name, there in gangs_of(pods).items() if all(there)), "")


def partial(pods: Iterable[Raw], but: str = "") -> list[str]:
    """Gangs of which some members are bound and others are not, from API objects alone."""
    return [name for name, there in gangs_of(pods).items() if any(there) and not all(there) and name != but]


def test_a_recreated_member_joins_its_siblings(placing: Placing) -> None:
    nodes(placing, "a", "b")
    namespace = placing.namespace()
    placing.cluster.create(gang(namespace, "train", 2))
    (home,) = {node_of(found) for found in all_bound(placing, namespace, 2)}
    placing.gone(namespace, "train-1")
    placing.cluster.create([member(namespace, "train", 1, 2)])
    assert placing.placed(namespace, "train-1").node == home


def test_members_without_devices_start_with_their_gang(placing: Placing) -> None:
    nodes(placing, "a")
    namespace = placing.namespace()
    placing.cluster.create(
        [member(namespace, "train", 0, 3, limits={}), *(member(namespace, "train", n, 3) for n in (1, 2))]
    )
    all_bound(placing, namespace, 3)


def test_a_gated_pod_in_no_gang_loses_the_gate_with_a_warning(placing: Placing) -> None:
    nodes(placing, "a")
    namespace = placing.namespace()
    placing.create(namespace, "alone", {GPU: 1}, schedulingGates=[{"name": GATE}])
    assert placing.placed(namespace, "alone").node == "a"
    assert "gate" in placing.wait_for_event(namespace, "alone", "GateRemoved")


@pytest.mark.rule("001.gang", "001.replan", level="R")
@pytest.mark.soak
@pytest.mark.timeout(120 + 15 * KILLS)
def test_gangs_whose_service_is_killed_at_random_moments_are_whole_or_nothing_and_nothing_is_doubled(
    placing: Placing,
) -> None:
    began = time.monotonic()
    nodes(placing, *(f"w{number}" for number in range(6)))
    chance, api, namespace, kills, early = Random(100), placing.cluster.api, placing.namespace(), 0, 0
    path = f"/api/v1/namespaces/{namespace}/pods"
    while kills < KILLS:
        made = [gang(namespace, f"g{number}", chance.randint(2, 6), chance.choice([2, 4, 8])) for number in range(6)]
        placing.cluster.create(chance.sample(all_made := [one for each in made for one in each], len(all_made)))
        for _ in range(5):
            placing.serve.process.kill()
            kills += 1
            pods = api.list(path)
            nothing_is_sold_twice(api, pods)
            early += bool(partial(pods) or half_gated(pods))
            placing.serve.restart()
            time.sleep(chance.uniform(0.0, 0.4))
            finished = [name for name, there in gangs_of(pods).items() if all(there)]
            delete_gangs(placing, pods, chance.sample(finished, len(finished) // 2))
        wait_for(lambda: whole_or_nothing(placing, namespace), SOON, "gangs are whole or nothing")
        nothing_is_sold_twice(api, api.list(path))
        api.delete(path)
        wait_for(lambda: not api.list(path), 30, "the pods of the round are gone")
    log.info("%d kills in %.0f s, %d of them in the middle of gangs", kills, time.monotonic() - began, early)
    assert early >= kills / 10, "too few kills came in the middle of a gang"


def whole_or_nothing(placing: Placing, namespace: str) -> bool:
    """Whether no gang is partial; AssertionError with what is said about the pending members of one that is."""
    pods = pods_of(placing, namespace)
    started = partial(pods)
    waiting = [
        f"{found['metadata']['name']}: nominated {found['status'].get('nominatedNodeName')},"
        f" gates {found['spec'].get('schedulingGates')},"
        f" {placing.cluster.events(namespace, found['metadata']['name'])[-2:]}, {found['status'].get('conditions')}"
        for found in pods
        if not node_of(found) and found["metadata"]["annotations"][f"{GANG}/name"] in started
    ]
    assert not started, "\n".join(waiting)
    return True


def half_gated(pods: Iterable[Raw]) -> list[str]:
    """Gangs of which some members are gated and others are not."""
    gates: dict[str, set[bool]] = defaultdict(set)
    for found in pods:
        gates[found["metadata"]["annotations"][f"{GANG}/name"]].add(bool(found["spec"].get("schedulingGates")))
    return [name for name, kinds in gates.items() if len(kinds) == 2]


def delete_gangs(placing: Placing, pods: Iterable[Raw], names: Sequence[str]) -> None:
    for found in pods:
        if found["metadata"]["annotations"][f"{GANG}/name"] in names:
            placing.cluster.api.delete(
                f"/api/v1/namespaces/{found['metadata']['namespace']}/pods/{found['metadata']['name']}"
            )


@pytest.mark.timeout(240)
def test_a_gang_of_five_hundred_and_twelve_is_ungated_and_bound(placing: Placing) -> None:
    placing.nodes(*(thing for number in range(64) for thing in machine(f"n{number}", "nvlink")))
    namespace = placing.namespace()
    *most, last = gang(namespace, "wide", 512, 1)
    placing.cluster.create(most)
    names = ("linkwise_gang_wait_seconds_sum", "linkwise_gang_wait_seconds_count")
    total, count = map(placing.metric, names)
    placing.cluster.create([last])
    began = time.monotonic()
    wait_for(lambda: not still_gated(placing, namespace), 60, "the gang is ungated")
    ungated = time.monotonic() - began
    mean = (placing.metric(names[0]) - total) / (placing.metric(names[1]) - count)
    all_bound(placing, namespace, 512, 120)
    log.info(
        "512 members: ungated after %.1f s, %.1f s on average; bound after %.1f s",
        ungated,
        mean,
        time.monotonic() - began,
    )
    assert placing.metric(names[1]) - count == 512
