"""Where counts are short a pod of higher priority evicts others, and only where that gives it a good set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import ascend, machine

if TYPE_CHECKING:
    from support.e2e.service import Granted, Placing

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
PRIORITIES: Final = {"cheap": 10, "dear": 20, "high": 1000, "fixed": 5000}


@pytest.fixture
def namespace(placing: Placing) -> str:
    placing.cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"e2e-{name}"},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    )
    return placing.namespace()


def place(placing: Placing, namespace: str, name: str, limits: dict[str, int | str], node: str = "") -> Granted:
    """A pod whose priority is the first word of its name."""
    more: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return placing.place(namespace, name, limits, priorityClassName=f"e2e-{name.split('-', maxsplit=1)[0]}", **more)


def names(placing: Placing, namespace: str) -> set[str]:
    found = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in found}


def test_a_pod_of_higher_priority_gets_the_devices_of_others(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "nvlink"))
    for number in range(4):
        place(placing, namespace, f"cheap-{number}", {GPU: 2})
    found = place(placing, namespace, "high", {GPU: 4})
    assert found.node == "a"
    assert len(names(placing, namespace)) == 3
    all_is_well(placing)


def test_no_pod_is_evicted_for_a_pod_of_the_same_priority(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "nvlink"))
    place(placing, namespace, "cheap-0", {GPU: 8})
    placing.create(namespace, "cheap-1", {GPU: 4}, priorityClassName="e2e-cheap")
    placing.refused(namespace, "cheap-1")
    assert names(placing, namespace) == {"cheap-0", "cheap-1"}


@pytest.mark.rule("003.ring", level="R")
def test_pods_are_evicted_only_where_their_chips_make_a_ring(placing: Placing, namespace: str) -> None:
    """By priorities alone the other node is the cheaper one, and its two chips are in two rings."""
    placing.nodes(*ascend("torn"), *ascend("whole"))
    rings = set[int]()
    for number in range(8):
        word = "cheap" if number in {3, 7} else "fixed"
        found = place(placing, namespace, f"{word}-{number}", {CHIP: 1}, "torn")
        rings |= {int(found.devices[0][1:]) // 4} if word == "cheap" else set()
    assert rings == {0, 1}
    for number in range(4):
        place(placing, namespace, f"dear-{number}", {CHIP: 2}, "whole")
    found = place(placing, namespace, "high", {CHIP: 2})
    assert found.node == "whole"
    assert len({int(chip[1:]) // 4 for chip in found.devices}) == 1
    assert {"cheap-3", "cheap-7"} <= names(placing, namespace)
    all_is_well(placing)


def test_no_pod_is_evicted_where_no_eviction_helps(placing: Placing, namespace: str) -> None:
    placing.nodes(*ascend("torn"))
    for number in range(8):
        place(placing, namespace, f"{'cheap' if number in {3, 7} else 'fixed'}-{number}", {CHIP: 1})
    before = names(placing, namespace)
    placing.create(namespace, "high", {CHIP: 2}, priorityClassName="e2e-high")
    placing.refused(namespace, "high")
    assert names(placing, namespace) == before | {"high"}
