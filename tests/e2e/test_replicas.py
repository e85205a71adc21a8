"""Two replicas and a real kube-scheduler: whichever dies, hangs or leaves, nothing is lost and nothing is given twice."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.api_client import ApiError
from support.e2e.invariants import all_is_well, nothing_is_sold_twice
from support.e2e.node_objects import gpushare, machine
from support.e2e.own_cluster import OwnCluster
from support.e2e.pod_objects import pod
from support.e2e.processes import BedError, wait_for
from support.e2e.replicas import NAMESPACE, SLICES, TIMES, Replicas, running_replicas
from support.e2e.safety_plugin import UnsafeError
from support.e2e.scheduler import Scheduler
from support.e2e.service import Placing, printed
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster

log: Final = logging.getLogger(__name__)

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
GANG: Final = "gang.scheduling.koordinator.sh"
KILLS: Final = int(os.environ.get("LINKWISE_E2E_LEADER_KILLS") or rounds(12, 1000))
"""of the leader; `make soak-cluster` sets another number"""
ROUNDS: Final = rounds(6, 50)
"""in which a leader or a scheduler is killed, of two"""
SECOND: Final = "second-scheduler"
SEED: Final = int(os.environ.get("LINKWISE_E2E_LEADER_SEED", "100"))


@pytest.fixture(scope="module")
def replicas(kubernetes: Cluster) -> Iterator[Replicas]:
    if not isinstance(kubernetes, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    with running_replicas(kubernetes, "replicas") as made:
        yield made


@pytest.fixture
def room(replicas: Replicas, cluster: Cluster) -> Iterator[Replicas]:
    """More room than all pods of a test need."""
    placing = Placing(cluster, replicas.settle())
    placing.empty()
    linked = [thing for number in range(36) for thing in machine(f"w{number}", "nvlink")]
    placing.nodes(*linked, *(thing for number in range(8) for thing in gpushare(f"s{number}")))
    yield replicas
    replicas.revive()


@pytest.fixture
def second(room: Replicas) -> Iterator[Scheduler]:
    """Another kube-scheduler, which schedules pods that name it."""
    cluster, folder = room.cluster, room.cluster.folder / SECOND
    folder.mkdir()
    way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect", "--name", SECOND]
    scheduler = Scheduler(cluster.programs, folder, cluster.kubeconfig("scheduler"))
    scheduler.run(printed("config", "scheduler", "--url", room.forwarder.url, *way))
    yield scheduler
    scheduler.stop()


def node_of(found: Raw) -> str:
    return str(found["spec"].get("nodeName", ""))


def gang_of(found: Raw) -> str:
    return str((found["metadata"].get("annotations") or {}).get(f"{GANG}/name", ""))


def work(namespace: str, word: str, chance: Random) -> list[Raw]:
    """Single pods of several sizes, shares of cards, and a gang."""
    asks: list[dict[str, int | str]] = [
        {GPU: chance.choice([1, 1, 2, 4])} if chance.random() < 0.6 else {MEMORY: chance.randint(2, 12)}
        for _ in range(chance.randint(2, 5))
    ]
    singles = [pod(namespace, f"{word}-{number}", limits) for number, limits in enumerate(asks)]
    size, devices = chance.randint(2, 4), chance.choice([1, 2, 4])
    words = {f"{GANG}/name": f"{word}-gang", f"{GANG}/min-available": str(size)}
    gang = [pod(namespace, f"{word}-gang-{number}", {GPU: devices}, annotations=words) for number in range(size)]
    return chance.sample(both := [*singles, *gang], len(both))


def finish_some(replicas: Replicas, path: str, chance: Random) -> list[Raw]:
    """Check what is bound, then delete most of it: single pods, and gangs that are whole."""
    api = replicas.cluster.api
    pods = api.list(path)
    nothing_is_sold_twice(api, pods)
    waiting = {gang_of(found) for found in pods if not node_of(found)}
    done = [found for found in pods if node_of(found) and (not gang_of(found) or gang_of(found) not in waiting)]
    for found in done:
        if gang_of(found) or chance.random() < 0.8:
            api.delete(f"{path}/{found['metadata']['name']}")
    return pods


def all_bound(replicas: Replicas, path: str, seconds: float = 90.0) -> None:
    def none_waits() -> bool:
        replicas.revive()
        waiting = [found["metadata"]["name"] for found in replicas.cluster.api.list(path) if not node_of(found)]
        namespace = path.split("/")[4]
        assert not waiting, f"{waiting} wait: {replicas.cluster.events(namespace, waiting[0])[-2:]}"
        return True

    try:
        wait_for(none_waits, seconds, "all pods have a node")
    except AssertionError as error:
        raise UnsafeError(f"a pod was lost: {error}") from error


def well(replicas: Replicas) -> None:
    """All pods are placed and whole, and the leader believes what the objects say."""
    all_is_well(Placing(replicas.cluster, replicas.settle()))


@pytest.mark.soak
@pytest.mark.timeout(180 + 8 * KILLS)
@pytest.mark.rule("004.record", "001.gang", level="R")
def test_leaders_killed_around_binds_and_gangs_lose_nothing_and_give_nothing_twice(room: Replicas) -> None:
    namespace, chance = room.cluster.namespace(), Random(SEED)
    path = f"/api/v1/namespaces/{namespace}/pods"
    took: list[float] = []
    bound_at_kill = 0
    for number in range(KILLS):
        room.settle()
        room.cluster.create(work(namespace, f"r{number}", chance))
        took.append(room.kill_leader(delay=chance.uniform(0.0, 0.5)))
        pods = finish_some(room, path, chance)
        bound_at_kill += any(map(node_of, pods))
    all_bound(room, path)
    well(room)
    log.info("hand-over seconds: median %.2f, longest %.2f: %s", median(took), max(took), [round(t, 1) for t in took])
    assert bound_at_kill > KILLS / 2, "too few kills came around binds"


@pytest.mark.soak
@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_two_schedulers_and_two_replicas_of_which_one_is_killed_at_a_time_give_nothing_twice(
    room: Replicas, second: Scheduler
) -> None:
    """Neither scheduler knows what the other one is about to bind."""
    namespace, chance = room.cluster.namespace(), Random(14)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(ROUNDS):
        room.settle()
        for word in ("a", "b"):
            things = work(namespace, f"{word}{number}", chance)
            for thing in things if word == "b" else ():
                thing["spec"]["schedulerName"] = SECOND
            room.cluster.create(things)
        if number % 2:
            killed = chance.choice([room.cluster.scheduler, second])
            time.sleep(chance.uniform(0.0, 0.5))
            killed.kill()
            killed.start()
        else:
            room.kill_leader(delay=chance.uniform(0.0, 0.5))
        finish_some(room, path, chance)
    all_bound(room, path)
    well(room)


def test_a_leader_that_is_suspended_past_its_lease_writes_nothing_when_it_continues_and_ends(room: Replicas) -> None:
    namespace, chance = room.cluster.namespace(), Random(9)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(8):
        room.settle()
        room.cluster.create(work(namespace, f"a{number}", chance))
        time.sleep(chance.uniform(0.0, 0.4))
        suspended = room.suspend_leader()
        room.cluster.create(work(namespace, f"b{number}", chance))
        time.sleep(chance.uniform(0.0, 0.5))
        assert room.resume(suspended) == 1
        assert "lost Lease kube-system/linkwise" in suspended.process.tail()
        finish_some(room, path, chance)
    all_bound(room, path)
    well(room)


def test_a_leader_that_is_stopped_hands_over_before_its_lease_would_expire(room: Replicas) -> None:
    namespace, chance, took = room.cluster.namespace(), Random(11), list[float]()
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(5):
        room.settle()
        room.cluster.create(work(namespace, f"r{number}", chance))
        code, seconds = room.stop_leader()
        assert code == 0
        took.append(seconds)
    all_bound(room, path)
    well(room)
    log.info("clean hand-over seconds: %s", [round(seconds, 2) for seconds in took])
    assert min(took) < TIMES["lease_duration"]


def test_an_api_server_that_is_killed_and_started_again_loses_nothing(room: Replicas) -> None:
    namespace, chance, cluster = room.cluster.namespace(), Random(12), room.cluster
    assert isinstance(cluster, OwnCluster)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(3):
        room.settle(60)
        cluster.create(work(namespace, f"r{number}", chance))
        time.sleep(chance.uniform(0.0, 0.4))
        cluster.restart_api_server()
    room.settle(60)
    all_bound(room, path)
    well(room)


def test_a_standby_is_ready_says_who_leads_and_answers_with_an_error(room: Replicas) -> None:
    leader = room.settle()
    standby = next(serve for serve in room.serves if serve is not leader)
    assert "standby: " in room.role(standby)
    assert "leader: this replica" in room.role(leader)
    spec = room.cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/linkwise")["spec"]
    call = {"Pod": pod("default", "p", {GPU: 1}), "NodeNames": ["w0"]}
    answer = standby.http.call("POST", "/filter", call)
    assert f"it is a standby, and {spec['holderIdentity']} is the leader" in answer["Error"]
    bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "w0"}
    assert "is the leader" in standby.http.call("POST", "/bind", bind)["Error"]


def test_an_endpoint_slice_that_is_changed_or_deleted_is_repaired(room: Replicas) -> None:
    api, leader = room.cluster.api, room.settle()
    place = f"{SLICES}/linkwise-leader"
    found = api.get(place)
    api.call("PUT", place, {**found, "endpoints": []})
    wait_for(lambda: api.get(place)["endpoints"], 10, "the leader repairs it")
    api.delete(place)

    def there() -> bool:
        try:
            return bool(api.get(place)["ports"][0]["port"] == leader.port)
        except (ApiError, BedError):
            return False

    wait_for(there, 10, "the leader writes it again")
    owner = api.get(place)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Service", "linkwise")


def test_gangs_of_many_hand_overs_are_whole(room: Replicas) -> None:
    """Every gang of a burst is whole in the end, though each hand-over comes in the middle of some."""
    namespace, chance = room.cluster.namespace(), Random(13)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(10):
        room.cluster.create(work(namespace, f"r{number}", chance))
    for _ in range(3):
        room.settle()
        room.kill_leader(delay=chance.uniform(0.0, 0.3))
    all_bound(room, path)
    gangs: dict[str, set[str]] = defaultdict(set)
    for found in room.cluster.api.list(path):
        gangs[gang_of(found)].add(node_of(found))
    assert all(all(nodes) for nodes in gangs.values())
    well(room)
