"""A service that may evict makes room in a real cluster for gangs, and for pods that kube-scheduler can't help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import ascend, machine
from support.e2e.processes import wait_for
from support.e2e.service import printed, running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
GANG: Final = "gang.scheduling.koordinator.sh"
WORDS: Final = {f"{GANG}/name": "high", f"{GANG}/min-available": "2"}
LONG: Final = 60.0  # seconds


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    """A service with its defaults."""
    with running_service(kubernetes, "preempting") as made:
        yield made


@pytest.fixture
def namespace(placing: Placing) -> str:
    placing.cluster.grant_printed("linkwise", printed("manifests", "rbac"))
    placing.cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"e2e-{name}"},
            "value": value,
            "preemptionPolicy": "Never" if name == "polite" else "PreemptLowerPriority",
        }
        for name, value in {"cheap": 10, "high": 1000, "polite": 1000}.items()
    )
    return placing.namespace()


def names(placing: Placing, namespace: str) -> set[str]:
    found = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


@pytest.mark.rule("001.gang", level="R")
def test_a_gang_makes_room_on_two_nodes(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"))
    for number in range(2):
        placing.place(namespace, f"cheap-{number}", {GPU: 8}, priorityClassName="e2e-cheap")
    for number in range(2):
        placing.create(namespace, f"high-{number}", {GPU: 8}, priorityClassName="e2e-high", annotations=WORDS)
    assert "evicting 2 pods of lower priority" in placing.wait_for_event(namespace, "high-0", "Preempting", LONG)
    found = {placing.placed(namespace, f"high-{number}", LONG).node for number in range(2)}
    assert found == {"a", "b"}
    assert names(placing, namespace) == {"high-0", "high-1"}
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
def test_a_gang_waits_as_long_as_a_disruption_budget_protects_the_pods_that_must_go(
    placing: Placing, namespace: str
) -> None:
    api, path = placing.cluster.api, f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/db"
    spec = {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 1}
    about = {"name": "db", "namespace": namespace}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": spec}
    placing.cluster.create([budget])
    placing.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"))
    for number in range(2):
        placing.place(namespace, f"cheap-{number}", {GPU: 8}, priorityClassName="e2e-cheap", labels={"app": "db"})
    wait_for(lambda: api.get(path).get("status", {}).get("expectedPods") == 2, LONG, "the budget counts both pods")
    wait_for(
        lambda: f"{namespace}/db" in placing.snapshot()["shared"].get("PodDisruptionBudget.policy", {}),
        LONG,
        "the service knows the budget",
    )
    for number in range(2):
        placing.create(namespace, f"high-{number}", {GPU: 8}, priorityClassName="e2e-high", annotations=WORDS)
    wait_for(
        lambda: "a PodDisruptionBudget forbids it" in placing.text(f"/debug/explain/group/{namespace}/high"),
        LONG,
        "the group says why it waits",
    )
    assert names(placing, namespace) == {"cheap-0", "cheap-1", "high-0", "high-1"}
    api.delete(path)
    found = {placing.placed(namespace, f"high-{number}", LONG).node for number in range(2)}
    assert found == {"a", "b"}
    all_is_well(placing)


@pytest.mark.rule("003.ring", level="R")
def test_a_pod_gets_two_chips_of_one_ring_where_one_of_each_is_free(placing: Placing, namespace: str) -> None:
    """By counts nothing is short, so kube-scheduler does not preempt."""
    placing.nodes(*ascend("torn"))
    for number in range(8):
        placing.place(namespace, f"cheap-{number}", {CHIP: 1}, priorityClassName="e2e-cheap")
    for name in ("cheap-3", "cheap-7"):
        placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    placing.counted(6)
    placing.create(namespace, "polite", {CHIP: 2}, priorityClassName="e2e-polite")
    placing.refused(namespace, "polite", "not in the required layout")
    placing.create(namespace, "high", {CHIP: 2}, priorityClassName="e2e-high")
    found = placing.placed(namespace, "high", LONG)
    assert len({int(chip[1:]) // 4 for chip in found.devices}) == 1
    assert len(names(placing, namespace)) == 7  # five of the six, and both that asked
    wait_for(lambda: placing.metric('linkwise_effects_total{effect="evict",result="written"}'), 5, "it is counted")
    all_is_well(placing)
