"""Whatever dies or is cut around a bind: nothing is lost, nothing is given twice, and the ledger is what the pods say."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from random import Random
from signal import SIGKILL
from threading import Timer
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well, nothing_is_sold_twice
from support.e2e.lossy_proxy import slow_binds, sound
from support.e2e.node_objects import gpushare, machine
from support.e2e.own_cluster import OwnCluster
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.lossy_proxy import Fate, Line
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

log: Final = logging.getLogger(__name__)

GPU: Final = "nvidia.com/gpu"
MEMORY: Final = "aliyun.com/gpu-mem"
LOSSES: Final[tuple[Fate, ...]] = ("lost", "unanswered")
GANG: Final = "gang.scheduling.koordinator.sh"
KILLS: Final = rounds(8, 20)
"""around binds"""
BURSTS: Final = rounds(3, 50)
"""of gangs, each with a kill; `TEST_PROFILE=soak make e2e CLUSTERS=1 ARGS="-k burst --log-cli-level=INFO"` prints the figures"""
SOON: Final = 10.0  # seconds after a restart in which gangs are whole or nothing


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster, line: Line) -> Iterator[Serve]:
    way = line.kubeconfig(kubernetes.folder / "line.kubeconfig")
    with running_service(kubernetes, "crashes", kubeconfig=way) as serve:
        yield serve


@pytest.fixture
def room(placing: Placing, line: Line) -> Iterator[Placing]:
    """Room for more than all pods of any test, and a line that is sound in the end."""
    linked = [thing for number in range(36) for thing in machine(f"w{number}", "nvlink")]
    placing.nodes(*linked, *(thing for number in range(10) for thing in gpushare(f"s{number}")))
    yield placing
    line.fate, line.lag = sound, 0.0
    if not placing.serve.process.alive:
        placing.serve.restart()


def some_pods(namespace: str, word: str, count: int, chance: Random) -> list[Raw]:
    asks: list[dict[str, int | str]] = [
        {GPU: chance.choice([1, 1, 2, 2, 4])} if chance.random() < 0.7 else {MEMORY: chance.randint(2, 12)}
        for _ in range(count)
    ]
    return [pod(namespace, f"{word}-{number}", limits) for number, limits in enumerate(asks)]


def all_bound(placing: Placing, namespace: str, seconds: float = 60.0) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"

    def none_waits() -> bool:
        waiting = [found["metadata"]["name"] for found in placing.cluster.api.list(path) if not node_of(found)]
        assert not waiting, f"{waiting} wait: {placing.cluster.events(namespace, waiting[0])[-2:]}"
        return True

    wait_for(none_waits, seconds, "all pods have a node")


def node_of(found: Raw) -> str:
    return str(found["spec"].get("nodeName", ""))


class Killer:
    """Kills the service at a bind of its choice: before it arrives, while it is under way, or a moment later."""

    def __init__(self, serve: Serve, chance: Random, left: int = 0, when: str = "") -> None:
        self._serve, self._chance = serve, chance
        self._left = left or chance.randint(1, 8)
        self._when = when or chance.choice(["before", "under way", "after"])
        self.timer: Timer | None = None

    def __call__(self, method: str, path: str) -> Fate:
        if method != "POST" or "/binding" not in path:
            return "passed"
        self._left -= 1
        if self._left == 0 and self._when == "after":
            self.timer = Timer(self._chance.uniform(0, 0.05), self._serve.process.signal, [SIGKILL])
            self.timer.start()
        elif self._left == 0:
            self._serve.process.signal(SIGKILL)
            return "lost" if self._when == "before" else "passed"
        return "passed"


@pytest.mark.soak
@pytest.mark.rule("004.record", level="R")
def test_kills_around_binds_lose_nothing_and_give_nothing_twice(room: Placing, line: Line) -> None:
    namespace, chance, serve = room.namespace(), Random(20), room.serve
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(KILLS):
        line.fate = killer = Killer(serve, chance)
        room.cluster.create(some_pods(namespace, f"r{number}", 10, chance))
        wait_for(lambda: not serve.process.alive, 30, "the service is killed at a bind")
        line.fate = sound
        if killer.timer:
            killer.timer.join()
        pods = room.cluster.api.list(path)
        nothing_is_sold_twice(room.cluster.api, pods)
        bound = [found["metadata"]["name"] for found in pods if node_of(found)]
        for name in chance.sample(bound, min(len(bound), 6)):
            room.cluster.api.delete(f"{path}/{name}")
        serve.restart()
    all_bound(room, namespace)
    all_is_well(room)


def test_a_restarted_service_holds_what_the_one_before_it_did(room: Placing) -> None:
    namespace = room.namespace()
    room.cluster.create(some_pods(namespace, "p", 30, Random(30)))
    all_bound(room, namespace)
    wait_for(lambda: {entry["state"] for entry in room.entries()} == {"ASSIGNED"}, 10, "the service has seen the binds")
    before = room.entries()
    room.serve.restart()
    after = room.entries()
    expected = [{word: entry[word] for word in ("grant", "state")} for entry in before]
    assert [{word: entry[word] for word in ("grant", "state")} for entry in after] == expected
    all_is_well(room)


def test_an_api_server_that_is_killed_among_binds_and_started_again_loses_nothing(room: Placing) -> None:
    namespace, cluster = room.namespace(), room.cluster
    assert isinstance(cluster, OwnCluster)
    cluster.create(some_pods(namespace, "p", 40, Random(40)))
    wait_for(lambda: sum(map(bool, map(node_of, cluster.api.list("/api/v1/pods")))) >= 5, 10, "some are bound")
    cluster.restart_api_server()
    all_bound(room, namespace)
    all_is_well(room)


def test_new_nodes_are_seen_soon_by_a_service_whose_api_server_was_killed(placing: Placing) -> None:
    """A server that has just started refuses whatever roles allow, and that must not be believed for long."""
    cluster = placing.cluster
    assert isinstance(cluster, OwnCluster)
    cluster.restart_api_server()
    placing.nodes(*machine("late", "nvlink"))
    assert placing.place(placing.namespace(), "train", {GPU: 8}).node == "late"


def test_a_scheduler_that_is_killed_among_binds_and_started_again_loses_nothing(room: Placing) -> None:
    namespace, cluster = room.namespace(), room.cluster
    cluster.create(some_pods(namespace, "p", 40, Random(41)))
    wait_for(lambda: sum(map(bool, map(node_of, cluster.api.list("/api/v1/pods")))) >= 5, 10, "some are bound")
    cluster.scheduler.kill()
    cluster.scheduler.start()
    all_bound(room, namespace)
    all_is_well(room)


@pytest.mark.rule("001.replan", "001.gang", level="R")
def test_a_gang_whose_service_is_killed_among_its_binds_is_completed_by_the_next(room: Placing, line: Line) -> None:
    namespace, prefix = room.namespace(), "gang.scheduling.koordinator.sh"
    words = {f"{prefix}/name": "gang", f"{prefix}/min-available": "8"}
    line.fate = Killer(room.serve, Random(3), left=4, when="under way")
    room.cluster.create(pod(namespace, f"gang-{number}", {GPU: 4}, annotations=words) for number in range(8))
    wait_for(lambda: not room.serve.process.alive, 30, "the service is killed at a bind")
    line.fate = sound
    there = [found for found in room.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods") if node_of(found)]
    assert 0 < len(there) < 8
    room.serve.restart()
    all_bound(room, namespace)
    pods = all_is_well(room)
    assert len({node_of(found) for found in pods}) == 4, "the rest is planned beside those that are bound"


def gang(namespace: str, name: str, count: int, devices: int) -> list[Raw]:
    words = {f"{GANG}/name": name, f"{GANG}/min-available": str(count)}
    return [pod(namespace, f"{name}-{number}", {GPU: devices}, annotations=words) for number in range(count)]


def half_bound(pods: list[Raw]) -> list[str]:
    """Gangs of which some members are bound and others are not, from API objects alone."""
    gangs: dict[str, list[bool]] = defaultdict(list)
    for found in pods:
        if name := (found["metadata"].get("annotations") or {}).get(f"{GANG}/name"):
            gangs[name].append(bool(node_of(found)))
    return [name for name, bound in gangs.items() if any(bound) and not all(bound)]


def killed_in_a_burst(placing: Placing, chance: Random) -> tuple[int, int, float]:
    """Thirty gangs and forty single pods, killed among their binds.

    Returns how many gangs were half bound at the kill, and how many 10 s after the restart; and when the last one was.
    """
    api, namespace = placing.cluster.api, placing.namespace()
    path = f"/api/v1/namespaces/{namespace}/pods"
    gangs = [gang(namespace, f"g{number}", chance.randint(2, 6), chance.choice([1, 2, 4, 8])) for number in range(30)]
    singles = [pod(namespace, f"s{number}", {GPU: chance.choice([1, 2, 4, 8])}) for number in range(40)]
    least = chance.randint(3, 11)  # even if all of them take a node
    placing.cluster.create(chance.sample(pods := [*singles, *(one for each in gangs for one in each)], len(pods)))
    wait_for(lambda: sum(map(bool, map(node_of, api.list(path)))) >= least, 30, f"{least} pods are bound")
    placing.serve.process.kill()
    before = half_bound(api.list(path))
    placing.serve.restart()
    ready, took = time.monotonic(), 0.0
    while (passed := time.monotonic() - ready) < SOON:
        took = passed if half_bound(api.list(path)) else took  # others are placed meanwhile, one member after the other
        time.sleep(0.1)
    after = half_bound(pods := api.list(path))
    nothing_is_sold_twice(api, pods)
    api.delete(path)
    wait_for(lambda: not api.list(path), 30, "the pods of the burst are gone")
    placing.empty()
    return len(before), len(after), took


@pytest.mark.soak
@pytest.mark.timeout(120 + 40 * BURSTS)
@pytest.mark.rule("001.gang", "001.replan", level="R")
def test_gangs_are_whole_or_nothing_soon_after_a_kill_in_the_middle_of_a_burst(placing: Placing) -> None:
    placing.nodes(*(thing for number in range(12) for thing in machine(f"w{number}", "nvlink")))
    chance = Random(50)
    bursts = [killed_in_a_burst(placing, chance) for _ in range(BURSTS)]
    log.info("half bound at the kill: %s", [before for before, _, _ in bursts])
    log.info("half bound %.0f s after the restart: %s", SOON, [after for _, after, _ in bursts])
    log.info("seconds until all were whole or nothing: %s", [round(took, 1) for _, _, took in bursts])
    assert sum(before for before, _, _ in bursts) >= BURSTS / 2, "too few kills came in the middle of a gang"
    assert not any(after for _, after, _ in bursts)


def test_a_single_pod_does_not_take_the_room_of_a_gang_whose_service_was_killed(placing: Placing, line: Line) -> None:
    placing.nodes(*(thing for number in range(4) for thing in machine(f"w{number}", "nvlink")))
    namespace = placing.namespace()
    path = f"/api/v1/namespaces/{namespace}/pods"
    line.fate = Killer(placing.serve, Random(1), left=1, when="under way")
    placing.cluster.create(gang(namespace, "gang", 4, 8))
    wait_for(lambda: not placing.serve.process.alive, 30, "the service is killed at the first bind")
    line.fate = sound
    placing.create(namespace, "single", {GPU: 8})
    placing.serve.restart()
    pods = placing.cluster.api.list(path)
    assert any(map(node_of, pods)), "the first bind was written"
    wait_for(lambda: not half_bound(placing.cluster.api.list(path)), SOON, "the gang is whole")
    bound = {found["metadata"]["name"] for found in placing.cluster.api.list(path) if node_of(found)}
    assert bound == {f"gang-{number}" for number in range(4)}


def test_a_bind_that_arrives_after_its_pod_was_recreated_is_refused(room: Placing, line: Line) -> None:
    namespace, held = room.namespace(), line.fates["POST", "held"]
    line.hold, line.fate = 1.0, slow_binds
    first = room.create(namespace, "train", {GPU: 8})["metadata"]["uid"]
    wait_for(lambda: line.fates["POST", "held"] > held, 10, "a bind is under way")
    room.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/train")
    second = room.create(namespace, "train", {GPU: 2})["metadata"]["uid"]
    assert first != second
    assert len(room.placed(namespace, "train").devices) == 2
    all_is_well(room)


def test_watches_that_are_cut_again_and_again_lose_nothing(room: Placing, line: Line) -> None:
    namespace, chance = room.namespace(), Random(15)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(15):
        room.cluster.create(some_pods(namespace, f"r{number}", 5, chance))
        line.cut()
        bound = [found["metadata"]["name"] for found in room.cluster.api.list(path) if node_of(found)]
        for name in chance.sample(bound, min(len(bound), 5)):
            room.cluster.api.delete(f"{path}/{name}")
        line.cut()
    all_bound(room, namespace)
    all_is_well(room)


def test_binds_whose_requests_or_answers_are_lost_or_late_are_written_once(room: Placing, line: Line) -> None:
    namespace, chance = room.namespace(), Random(4)
    fates: tuple[Fate, ...] = ("lost", "unanswered", "held", "passed", "passed")
    line.hold = 4.5  # longer than a bind is waited for, shorter than it is believed to be able to come
    line.fate = lambda method, path: chance.choice(fates) if method == "POST" and "/binding" in path else "passed"
    room.cluster.create(some_pods(namespace, "p", 40, Random(44)))
    all_bound(room, namespace, 90)
    line.fate = sound
    all_is_well(room)
    assert all(line.fates["POST", fate] > 1 for fate in fates)


def test_a_line_on_which_every_tenth_request_is_lost_loses_nothing_else(room: Placing, line: Line) -> None:
    namespace, chance = room.namespace(), Random(10)
    path = f"/api/v1/namespaces/{namespace}/pods"
    line.fate = lambda *_: chance.choice(LOSSES) if chance.random() < 0.1 else "passed"
    for number in range(6):
        room.cluster.create(some_pods(namespace, f"r{number}", 10, chance))
        line.cut()
        bound = [found["metadata"]["name"] for found in room.cluster.api.list(path) if node_of(found)]
        for name in bound[:5]:
            room.cluster.api.delete(f"{path}/{name}")
    all_bound(room, namespace, 90)
    line.fate = sound
    all_is_well(room)


def test_a_service_that_hears_everything_late_gives_nothing_twice(room: Placing, line: Line) -> None:
    namespace, chance = room.namespace(), Random(5)
    path = f"/api/v1/namespaces/{namespace}/pods"
    line.lag = 0.4
    for number in range(5):
        room.cluster.create(some_pods(namespace, f"r{number}", 10, chance))
        pods = room.cluster.api.list(path)
        nothing_is_sold_twice(room.cluster.api, pods)
        for found in [found for found in pods if node_of(found)][:8]:
            room.cluster.api.delete(f"{path}/{found['metadata']['name']}")
    all_bound(room, namespace)
    all_is_well(room)
