"""Who has how many devices, by namespace."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.broker import Broker
from linkwise.explain.published.allocations import AllocationRow, allocation_rows, totals
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

GPU, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"


def cluster(*pods: tuple[str, str, int]) -> Runner:
    """Two machines, with pods of these namespaces, resources and amounts; those that do not fit are pending."""
    runner = Runner(Broker())
    for machine in ("dgx1-v100", "p40-share"):
        runner.show(*fleet_node(profile(machine), machine))
    for number, (namespace, resource, amount) in enumerate(pods):
        box = (ContainerView("main", limits={resource: str(amount)}),)
        view = PodView(namespace, f"p{number}", f"u{number}", box, {"app": namespace}, created=float(number), version=1)
        runner.show(view)
        runner.place(view)
    return runner


def rows(runner: Runner, namespace: str | None = None) -> list[AllocationRow]:
    return list(allocation_rows(runner.broker, runner.now, namespace).rows)


def test_devices_and_shares_are_counted_by_namespace_and_model() -> None:
    found = rows(cluster(("a", GPU, 2), ("a", GPU, 1), ("b", GPU, 4), ("b", MEMORY, 6), ("b", MEMORY, 3)))
    assert [(one.namespace, one.resource, one.pods, one.devices, one.share, one.unit) for one in found] == [
        ("a", GPU, 2, 3, 0, ""),
        ("b", MEMORY, 2, 0, 9, "GiB"),
        ("b", GPU, 1, 4, 0, ""),
    ]
    assert {one.model for one in found} == {"Tesla V100-SXM2-16GB", "Tesla P40"}


def test_what_pods_wait_for_is_counted_beside_what_they_have() -> None:
    found = rows(cluster(("a", GPU, 6), ("a", GPU, 4)))
    pending = [(one.pods, one.devices, one.pending_pods, one.pending_devices) for one in found]
    assert pending == [(0, 0, 1, 4), (1, 6, 0, 0)]
    (total,) = totals(found)
    assert (total.namespace, total.devices, total.pending_devices, total.pods) == ("", 6, 4, 1)


def test_one_namespace_or_labels_select_pods() -> None:
    runner = cluster(("a", GPU, 1), ("b", GPU, 2))
    assert [one.devices for one in rows(runner, "b")] == [2]
    chosen = allocation_rows(runner.broker, runner.now, None, lambda pod: pod.labels["app"] == "a")
    assert [one.namespace for one in chosen.rows] == ["a"]


def test_usage_of_a_sum_is_known_only_if_that_of_all_is() -> None:
    one = AllocationRow("a", GPU, "m", "", pods=1, devices=1, used=5, total=10, idle=0)
    (known,) = totals([one, replace(one, namespace="b", idle=1)])
    (unknown,) = totals([one, replace(one, namespace="b", used=None, idle=None)])
    waiting = AllocationRow("c", GPU, "", "", pending_pods=1, pending_devices=1)
    (with_pending,) = totals([one, waiting])
    assert (known.used, known.idle) == (10, 1)
    assert (unknown.used, unknown.idle, unknown.total) == (None, None, 20)
    assert (with_pending.used, with_pending.pending_devices) == (5, 1)


def test_pending_pods_that_no_node_can_serve_are_named() -> None:
    runner = cluster(("a", GPU, 16), ("a", GPU, 8), ("a", GPU, 4), ("b", MEMORY, 23), ("b", MEMORY, 22))
    found = allocation_rows(runner.broker, runner.now, None)
    assert found.never == ("PENDING includes pods a/p0, b/p3: no node is large enough, even if it were empty",)
    never = {one.resource: one.never_pods for one in totals(found.rows)}
    assert never == {GPU: 1, MEMORY: 1}
