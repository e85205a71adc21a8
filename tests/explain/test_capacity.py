"""Capacity is what the scheduler would place, and fragmentation what it could not."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from linkwise.broker.broker import Broker
from linkwise.explain.capacity import CapacityRow, capacity_rows
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

GPU, NPU, MEMORY, PERCENT = "nvidia.com/gpu", "huawei.com/Ascend910", "aliyun.com/gpu-mem", "koordinator.sh/gpu"


def pod(name: str, resource: str, amount: int) -> PodView:
    box = (ContainerView("main", limits={resource: str(amount)}, requests={resource: str(amount)}),)
    return PodView("team", name, name, box, version=1)


def fleet(*taken: tuple[str, int]) -> Runner:
    """Two machines of each kind, with pods that take this much of a resource."""
    runner = Runner(Broker())
    for machine in ("dgx1-v100", "atlas-800", "p40-share"):
        for number in range(2):
            runner.show(*fleet_node(profile(machine), f"{machine}-{number}"))
    runner.show(*fleet_node(profile("dgx1-v100"), "percent-0", mode="percent"))
    for number, (resource, amount) in enumerate(taken):
        assert runner.place(replace(pod(f"t{number}", resource, amount), created=float(number))).node
    return runner


def row(runner: Runner, resource: str, size: int) -> CapacityRow:
    (found,) = (
        one for one in capacity_rows(runner.broker, runner.now, "team") if (one.resource, one.size) == (resource, size)
    )
    return found


@pytest.mark.parametrize(
    ("resource", "size"),
    [(GPU, 1), (GPU, 2), (GPU, 4), (GPU, 8), (NPU, 2), (NPU, 4), (NPU, 8), (MEMORY, 5), (MEMORY, 22), (PERCENT, 50)],
)
def test_as_many_pods_are_counted_as_the_scheduler_places(resource: str, size: int) -> None:
    runner = fleet((GPU, 1), (GPU, 2), (NPU, 1), (NPU, 2), (MEMORY, 8), (MEMORY, 3), (PERCENT, 30), (PERCENT, 200))
    expected = row(runner, resource, size).pods
    placed = 0
    for number in count():
        if not runner.place(replace(pod(f"p{number}", resource, size), created=100.0 + number)).node:
            break
        placed += 1
    assert placed == expected > 0
    assert row(runner, resource, size).pods == 0


def test_idle_devices_of_several_nodes_are_fragmented_for_a_large_pod() -> None:
    runner = fleet()
    assert (row(runner, GPU, 8).pods, row(runner, GPU, 8).fragmentation) == (2, 0)
    taken = fleet(*[(GPU, 4)] * 3)
    large = row(taken, GPU, 8)
    assert (large.pods, large.free, large.total, large.fragmentation) == (0, 4, 16, 100)
    assert (row(taken, GPU, 4).pods, row(taken, GPU, 4).fragmentation) == (1, 0)


def test_pods_across_rings_are_not_linked() -> None:
    runner = fleet()
    assert (row(runner, NPU, 4).pods, row(runner, NPU, 4).linked) == (4, 4)
    assert (row(runner, NPU, 8).pods, row(runner, NPU, 8).linked) == (2, 0)
    assert row(runner, NPU, 1).linked is None


def test_nodes_that_accept_no_pods_count_in_the_total_only() -> None:
    runner = fleet()
    view = runner.broker.nodes["dgx1-v100-0"]
    runner.show(replace(view, unschedulable=True, version=view.version + 1))
    assert (row(runner, GPU, 8).pods, row(runner, GPU, 8).free, row(runner, GPU, 8).total) == (1, 8, 16)


def test_shares_of_other_namespaces_leave_less_room() -> None:
    runner = fleet(*[(MEMORY, 1)] * 1)
    others = [one.pods for one in capacity_rows(runner.broker, runner.now, "other") if one.size == 11]
    assert (row(runner, MEMORY, 11).pods, others) == (15, [14])


def test_nodes_can_be_selected() -> None:
    broker, machine = Broker(), profile("dgx1-v100")
    broker.observe([event for number in range(500) for event in fleet_node(machine, f"n{number}")], 0.0)

    def selects(node: NodeView) -> bool:
        return node.name.endswith("7")

    assert [one.pods for one in capacity_rows(broker, 0.0, "team")] == [4000, 2000, 1000, 500]
    assert [one.pods for one in capacity_rows(broker, 0.0, "team", selects)] == [400, 200, 100, 50]


def test_an_empty_cluster_is_not_fragmented_for_any_size() -> None:
    sizes = [one for one in capacity_rows(fleet().broker, 0.0, "team") if one.free == one.total]
    assert sizes
    assert {one.fragmentation for one in sizes} == {0}


def test_a_device_with_a_fault_fragments_its_node_for_a_large_pod() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx1-v100"), "a", unhealthy=(3,)), *fleet_node(profile("dgx1-v100"), "b"))
    assert (row(runner, GPU, 8).pods, row(runner, GPU, 8).fragmentation) == (1, 47)
