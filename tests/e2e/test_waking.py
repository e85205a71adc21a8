"""Who was refused by us alone is tried again as soon as there is room, whether or not kube-scheduler hears of it."""

from __future__ import annotations

import time
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.lossy_proxy import sound
from support.e2e.node_objects import ascend, gpushare, machine
from support.e2e.processes import wait_for
from support.e2e.service import running_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.lossy_proxy import Fate, Line
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"
INVENTORY: Final = "/apis/linkwise.dev/v1alpha1/deviceinventories/a"
LONGEST: Final = 3.0  # seconds
LOST: Final[tuple[Fate, ...]] = ("lost", "unanswered")
HOLD: Final = 3.0  # seconds that a plan lasts


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster, line: Line) -> Iterator[Serve]:
    way = line.kubeconfig(kubernetes.folder / "line.kubeconfig")
    settings = {"placing": {"group": {"hold": HOLD}}}
    with running_service(kubernetes, "waking", kubeconfig=way, configuration=settings) as serve:
        yield serve


@pytest.fixture
def namespace(placing: Placing, line: Line) -> Iterator[str]:
    yield placing.namespace()
    line.fate, line.lag = sound, 0.0


@pytest.mark.rule("002.release", "004.filter", "004.one-card", level="R")
@pytest.mark.parametrize(
    ("rounds", "nodes", "lag"), [(200, 20, 0.0), (40, 4, 0.3)], ids=["heard at once", "heard late"]
)
def test_pods_do_not_wait_long_for_the_devices_of_a_deleted_pod(  # noqa: PLR0913, PLR0917 - two fixtures more than values
    placing: Placing,
    namespace: str,
    line: Line,
    rounds: int,
    nodes: int,
    lag: float,
    record_property: Callable[[str, object], None],
) -> None:
    """Every card has less room than is asked for, and all cards of the node together more: only we refuse."""
    placing.nodes(*(thing for number in range(nodes) for thing in gpushare(f"s{number}")))
    fill_cards(placing, namespace, nodes)
    line.lag, waited = lag, list[float]()
    for number in range(rounds // nodes):
        waited += one_turn(placing, namespace, nodes, number)
    line.lag = 0.0
    assert len(waited) == rounds
    record_property("longest", f"{max(waited):.3f}")
    record_property("median", f"{median(waited):.3f}")
    wakes = placing.metric('linkwise_effects_total{effect="wake",result="written"}')
    print(f"longest {max(waited):.3f} s, median {median(waited):.3f} s, {rounds} rounds, lag {lag} s, {wakes} wakes")  # noqa: T201 - what the run measured
    assert max(waited) <= LONGEST
    all_is_well(placing)


def fill_cards(placing: Placing, namespace: str, nodes: int) -> None:
    """Three cards of each node with 16 of 22, and the fourth with the 12 that the first to wait is to get."""
    for node in range(nodes):
        for card in range(3):
            create_on(placing, namespace, f"fixed-{node}-{card}", {MEMORY: 16}, f"s{node}")
    for node in range(nodes):
        for card in range(3):
            placing.placed(namespace, f"fixed-{node}-{card}")
    for node in range(nodes):
        create_on(placing, namespace, f"turn-{node}-0", {MEMORY: 12}, f"s{node}")
    for node in range(nodes):
        placing.placed(namespace, f"turn-{node}-0")


def one_turn(placing: Placing, namespace: str, nodes: int, number: int) -> list[float]:
    """On every node the next pod waits for the one before it, which is deleted; how long each waited for its node."""
    chance, names = Random(number), {node: f"turn-{node}-{number + 1}" for node in range(nodes)}
    uids = {
        create_on(placing, namespace, name, {MEMORY: 12}, f"s{node}")["metadata"]["uid"] for node, name in names.items()
    }
    wait_for(lambda: uids <= placing.unschedulable(), 15, "all are refused")
    path, begun, ended = f"/api/v1/namespaces/{namespace}/pods", dict[str, float](), dict[str, float]()
    for node in chance.sample(range(nodes), nodes):
        time.sleep(chance.uniform(0, 0.06))  # at any time of kube-scheduler's own pauses
        begun[names[node]] = time.monotonic()
        placing.cluster.api.delete(f"{path}/turn-{node}-{number}")
        note_bound(placing, path, begun, ended)
    wait_for(lambda: note_bound(placing, path, begun, ended), 20, "all are placed")
    return [ended[name] - begun[name] for name in names.values()]


def note_bound(placing: Placing, path: str, begun: dict[str, float], ended: dict[str, float]) -> bool:
    now = time.monotonic()
    for found in placing.cluster.api.list(path):
        if found["spec"].get("nodeName") and found["metadata"]["name"] in begun:
            ended.setdefault(found["metadata"]["name"], now)
    return begun.keys() == ended.keys()


def create_on(placing: Placing, namespace: str, name: str, limits: dict[str, int | str], node: str) -> Raw:
    return placing.create(namespace, name, limits, nodeSelector={"kubernetes.io/hostname": node})


def waited_for(placing: Placing, namespace: str, name: str) -> float:
    begun = time.monotonic()
    placing.placed(namespace, name)
    return time.monotonic() - begun


@pytest.mark.rule("003.ring", "003.between", level="R")
def test_a_pod_that_waits_for_a_ring_is_woken_when_a_chip_of_it_is_given_back(placing: Placing, namespace: str) -> None:
    placing.nodes(*ascend("a"))
    chips = {placing.place(namespace, f"one-{number}", {CHIP: 1}).devices[0]: f"one-{number}" for number in range(8)}
    placing.gone(namespace, chips["#0"], chips["#4"])
    placing.create(namespace, "pair", {CHIP: 2})
    placing.refused(namespace, "pair")  # two chips are free, one of each ring
    placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{chips['#5']}")
    assert waited_for(placing, namespace, "pair") <= LONGEST
    assert set(placing.placed(namespace, "pair").devices) == {"#4", "#5"}


@pytest.mark.rule("002.release", "003.between", level="R")
def test_devices_of_a_pod_that_is_leaving_are_given_away_when_it_is_gone_and_not_before(
    placing: Placing, namespace: str
) -> None:
    placing.nodes(*ascend("a"))
    placing.place(namespace, "old", {CHIP: 8}, terminationGracePeriodSeconds=600)
    path = f"/api/v1/namespaces/{namespace}/pods/old"
    placing.cluster.api.call("DELETE", path)  # it has ten minutes to stop, and no kubelet says that it has
    placing.create(namespace, "new", {CHIP: 4})
    placing.refused(namespace, "new")
    (entry,) = placing.entries()
    assert entry["state"] == "RELEASING"
    placing.cluster.api.delete(path)
    assert waited_for(placing, namespace, "new") <= LONGEST
    all_is_well(placing)


@pytest.mark.rule("002.release", level="R")
def test_devices_of_a_pod_that_has_finished_are_free_though_it_is_still_there(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "nvlink"))
    placing.place(namespace, "old", {GPU: 8})
    placing.create(namespace, "new", {GPU: 8})
    placing.refused(namespace, "new")
    placing.cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/old/status", {"status": {"phase": "Succeeded"}})
    assert waited_for(placing, namespace, "new") <= LONGEST
    all_is_well(placing)


def test_a_device_that_works_again_wakes_who_waits_for_it_though_no_node_or_pod_changed(
    placing: Placing, namespace: str
) -> None:
    well = refused_for_an_unhealthy_device(placing, namespace)
    placing.cluster.api.patch(INVENTORY, {"spec": well["spec"]})
    assert waited_for(placing, namespace, "all") <= LONGEST


def test_a_wake_that_is_lost_on_its_way_is_sent_again(placing: Placing, namespace: str, line: Line) -> None:
    well, fates = refused_for_an_unhealthy_device(placing, namespace), iter(LOST)
    line.fate = lambda method, _: next(fates, "passed") if method == "PATCH" else "passed"
    placing.cluster.api.patch(INVENTORY, {"spec": well["spec"]})
    assert waited_for(placing, namespace, "all") <= LONGEST
    assert next(fates, None) is None


def test_who_was_refused_by_a_service_that_died_is_woken_by_the_next(placing: Placing, namespace: str) -> None:
    well = refused_for_an_unhealthy_device(placing, namespace)
    placing.serve.restart()
    placing.cluster.api.patch(INVENTORY, {"spec": well["spec"]})
    assert waited_for(placing, namespace, "all") <= LONGEST


def test_who_was_refused_by_a_service_that_died_is_woken_for_room_that_came_before_the_next(
    placing: Placing, namespace: str
) -> None:
    well = refused_for_an_unhealthy_device(placing, namespace)
    placing.serve.kill()
    placing.cluster.api.patch(INVENTORY, {"spec": well["spec"]})
    placing.serve.start()
    assert waited_for(placing, namespace, "all") <= LONGEST


def refused_for_an_unhealthy_device(placing: Placing, namespace: str) -> Raw:
    """A pod waits for a device that does not work, though the node counts it; the inventory once it does."""
    node, well = machine("a", "nvlink")
    _, ill = machine("a", "nvlink", unhealthy=[3])
    placing.nodes(node, ill)
    placing.create(namespace, "all", {GPU: 8})
    placing.refused(namespace, "all")
    return well


@pytest.mark.rule("001.hold", level="R")
def test_a_plan_without_binds_expires_and_wakes_pods_that_wait_for_its_devices(
    placing: Placing, namespace: str
) -> None:
    placing.nodes(*machine("a", "measured"))
    prefix = "gputopology.scheduling.koordinator.sh"
    labels = {f"{prefix}/name": "pair", f"{prefix}/replica": "2"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "not-there"}}
    placing.create(namespace, "pair-1", {GPU: 4}, labels=labels, volumes=[volume])
    placing.refused(namespace, "pair-1", "persistentvolumeclaim")
    placing.place(namespace, "pair-0", {GPU: 4}, labels=labels)
    begun = time.monotonic()
    placing.create(namespace, "single", {GPU: 4})
    placing.refused(namespace, "single")
    assert placing.placed(namespace, "single").node == "a"
    assert HOLD - 1 <= time.monotonic() - begun <= HOLD + LONGEST
    assert "PlanExpired" in placing.wait_for_event(namespace, "pair-1", "PlanExpired")
    all_is_well(placing)
