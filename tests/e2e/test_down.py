"""What is not ours to decide goes on without us: plain pods never ask, and a dead service stops its own pods only."""

from __future__ import annotations

import time
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.lossy_proxy import slow_binds, sound
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.lossy_proxy import Line
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster, line: Line) -> Iterator[Serve]:
    way = line.kubeconfig(kubernetes.folder / "line.kubeconfig")
    with running_service(kubernetes, "down", kubeconfig=way) as serve:
        yield serve


@pytest.fixture
def namespace(placing: Placing, line: Line) -> Iterator[str]:
    """On a cluster of twelve nodes; the service runs in the end, and its line is sound."""
    placing.nodes(*(thing for number in range(12) for thing in machine(f"n{number}", "nvlink")))
    yield placing.namespace()
    line.fate = sound
    placing.serve.process.signal(SIGCONT)
    if not placing.serve.process.alive:
        placing.serve.restart()


def asked(placing: Placing) -> list[str]:
    return [row for row in placing.text("/metrics").splitlines() if row.startswith("linkwise_requests_total")]


def has_new_bind(rows: list[str], earlier: list[str]) -> bool:
    return any('verb="bind"' in row and row not in earlier for row in rows)


@pytest.mark.rule("000.skip", level="R")
def test_a_pod_without_devices_is_scheduled_without_us_and_bears_no_word_of_ours(
    placing: Placing, namespace: str
) -> None:
    earlier = asked(placing)
    placing.place(namespace, "with", {GPU: 1})
    # A bind is counted when it is answered, and the pod has its node shortly before that.
    wait_for(lambda: has_new_bind(asked(placing), earlier), 10, "the bind is counted")
    before = asked(placing)
    for number in range(10):
        assert placing.place(namespace, f"plain-{number}", {"cpu": 1}).annotations == {}
    assert asked(placing) == before
    assert any('verb="bind"' in row for row in before)


@pytest.mark.rule("000.skip", level="R")
def test_without_the_service_plain_pods_run_and_pods_with_devices_wait_for_it(placing: Placing, namespace: str) -> None:
    placing.serve.kill()
    placing.create(namespace, "with", {GPU: 1})
    assert placing.place(namespace, "plain", {"cpu": 1}).node
    placing.wait_for_event(namespace, "with", "FailedScheduling")
    assert not placing.cluster.pod(namespace, "with")["spec"].get("nodeName")
    placing.serve.start()
    assert placing.placed(namespace, "with", 30).devices
    all_is_well(placing)


@pytest.mark.rule("004.record", level="R")
def test_a_service_that_is_asked_to_stop_ends_its_binds_first(placing: Placing, namespace: str, line: Line) -> None:
    line.hold, line.fate, before = 1.5, slow_binds, line.fates["POST", "held"]
    for number in range(4):
        placing.create(namespace, f"p{number}", {GPU: 2})
    wait_for(lambda: line.fates["POST", "held"] >= before + 4, 10, "four binds are under way")
    begun = time.monotonic()
    assert placing.serve.stop() == 0
    assert time.monotonic() - begun > 0.5, "nothing was under way"
    nodes = [placing.cluster.pod(namespace, f"p{number}")["spec"].get("nodeName") for number in range(4)]
    assert all(nodes)
    line.fate = sound
    placing.serve.start()
    all_is_well(placing)


def test_pods_that_come_while_the_service_stops_are_placed_by_the_next(
    placing: Placing, namespace: str, line: Line
) -> None:
    line.hold, line.fate = 1.0, slow_binds
    placing.cluster.create(pod(namespace, f"p{number}", {GPU: 2}) for number in range(20))
    assert placing.serve.stop() == 0
    line.fate = sound
    placing.serve.start()
    for number in range(20):
        placing.placed(namespace, f"p{number}", 40)
    all_is_well(placing)


@pytest.mark.rule("002.whole", level="R")
def test_a_service_that_stood_still_for_a_while_gives_nothing_twice(placing: Placing, namespace: str) -> None:
    serve = placing.serve.process
    placing.cluster.create(pod(namespace, f"a{number}", {GPU: 2}) for number in range(20))
    wait_for(lambda: placing.cluster.pod(namespace, "a5")["spec"].get("nodeName"), 10, "some are bound")
    serve.signal(SIGSTOP)
    placing.cluster.create(pod(namespace, f"b{number}", {GPU: 2}) for number in range(20))
    for number in range(5):  # it has not heard of their end when it goes on
        placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/a{number}")
    time.sleep(6)  # longer than kube-scheduler waits for an answer
    serve.signal(SIGCONT)
    for name in [*(f"a{number}" for number in range(5, 20)), *(f"b{number}" for number in range(20))]:
        placing.placed(namespace, name, 40)
    all_is_well(placing)
