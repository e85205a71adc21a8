"""Where counts are short a pod of higher priority evicts others, and only where that gives it a good set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import ascend, gpushare, machine

if TYPE_CHECKING:
    from support.e2e.service import Granted, Placing

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"
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


@pytest.mark.rule("003.ring", level="R")
def test_another_victim_is_evicted_where_the_schedulers_choice_is_in_the_wrong_ring(
    placing: Placing, namespace: str
) -> None:
    """A chip of one ring is free; by counts the cheapest pod would do, and that is in the other ring."""
    placing.nodes(*ascend("rings"))
    for number in range(8):
        word = "dear" if number < 4 else "cheap" if number == 4 else "fixed"
        place(placing, namespace, f"{word}-{number}", {CHIP: 1})
    placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/dear-0")
    placing.counted(7)
    found = place(placing, namespace, "high", {CHIP: 2})
    assert len({int(chip[1:]) // 4 for chip in found.devices}) == 1
    left = names(placing, namespace)
    assert "cheap-4" in left
    assert len(left) == 7
    all_is_well(placing)


@pytest.mark.rule("004.one-card", level="R")
def test_memory_comes_free_on_the_card_that_needs_it(placing: Placing, namespace: str) -> None:
    placing.nodes(*gpushare("shared", cards=2, memory=12))
    for number in range(3):
        place(placing, namespace, f"cheap-{number}", {MEMORY: 6})
    found = place(placing, namespace, "high", {MEMORY: 12})
    assert len(found.devices) == 1
    assert len(names(placing, namespace)) == 3
    all_is_well(placing)


def test_users_read_why_a_node_with_scattered_devices_is_refused(placing: Placing, namespace: str) -> None:
    placing.nodes(*ascend("torn"))
    for number in range(8):
        place(placing, namespace, f"cheap-{number}", {CHIP: 1})
    for name in ("cheap-3", "cheap-7"):
        placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    placing.counted(6)
    placing.create(namespace, "high", {CHIP: 2}, priorityClassName="e2e-high")
    said = placing.refused(namespace, "high", "not in the required layout")
    assert "Preemption is not helpful for scheduling" in said
    assert "expected at least one victim" not in said
