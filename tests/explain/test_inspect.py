"""What every node has and who has it, as inspect commands need it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from linkwise.broker.broker import Broker
from linkwise.explain.inspect import inspect_nodes
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.explain.inspect import NodeInspection

GPU, MEMORY, COUNT = "nvidia.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def pod(name: str, resource: str, count: int = 1, **fields: Any) -> PodView:  # noqa: ANN401 - any field of a view
    containers = (ContainerView("main", limits={resource: str(count)}),)
    return replace(PodView("team", name, name, containers, version=1), **fields)


def shared(name: str = "a", *pods: PodView) -> Runner:
    """A node of the seed's sample: four cards of 22 GiB."""
    runner = Runner(Broker())
    runner.show(NodeView(name, capacity={MEMORY: "88", COUNT: "4"}))
    for number, view in enumerate(pods):
        assert runner.place(replace(view, created=float(number))).node
    return runner


def inspected(runner: Runner, name: str = "a") -> NodeInspection:
    (found,) = inspect_nodes(runner.broker, name, runner.now)
    return found


def test_a_shared_node_reports_totals_and_amounts_by_device_and_pod() -> None:
    found = inspected(shared("a", pod("binpack-1", MEMORY, 1), pod("large", MEMORY, 22)))
    assert (found.name, found.mode, found.unit) == ("a", "share", "GiB")
    assert (found.memory, found.taken, found.idle) == (88, 23, 2)
    assert [(device.index, device.memory, device.share) for device in found.devices] == [
        (0, 22, 1),
        (1, 22, 22),
        (2, 22, 0),
        (3, 22, 0),
    ]
    pods = [(pod.namespace, pod.name, pod.share) for device in found.devices for pod in device.pods]
    assert pods == [("team", "binpack-1", 1), ("team", "large", 22)]


def test_pods_that_share_a_device_stand_in_the_order_of_their_age() -> None:
    found = inspected(shared("a", pod("z", MEMORY, 3), pod("a", MEMORY, 4)))
    (device, *_) = found.devices
    assert [(held.name, held.share) for held in device.pods] == [("z", 3), ("a", 4)]
    assert (device.share, device.room, device.namespaces) == (7, 15, ("team",))


def test_a_pod_that_was_promised_and_not_seen_bound_is_marked() -> None:
    runner = shared("a", pod("seen", MEMORY, 2))
    runner.place(pod("unseen", MEMORY, 2), "unknown")
    (device, *_) = inspected(runner).devices
    assert [(held.name, held.state, held.seen) for held in device.pods] == [
        ("seen", "bound", True),
        ("unseen", "binding", False),
    ]


def test_a_bound_pod_on_an_unknown_card_is_listed_separately_and_counted() -> None:
    runner = shared()
    runner.show(pod("wild", MEMORY, 5, node="a", phase="Running"))
    found = inspected(runner)
    assert [(held.name, held.share) for held in found.unattributed] == [("wild", 5)]
    assert (found.taken, [device.share for device in found.devices]) == (5, [0, 0, 0, 0])


def test_whole_devices_are_reported_as_whole_with_model_and_health() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx-a100"), "a", unhealthy=(7,)))
    runner.place(pod("train", GPU, 2))
    found = inspected(runner)
    taken = [device for device in found.devices if device.whole]
    assert [(device.index, device.model, [held.name for held in device.pods]) for device in taken] == [
        (0, "NVIDIA A100-SXM4-40GB", ["train"]),
        (1, "NVIDIA A100-SXM4-40GB", ["train"]),
    ]
    assert [device.index for device in found.devices if not device.healthy] == [7]
    assert (found.enforced, found.idle) == (True, 5)


def test_a_switch_of_mode_is_no_debt_of_the_pods_that_are_there() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("p40-share"), "a"))
    runner.place(pod("serve", MEMORY, 2))
    runner.show(*fleet_node(replace(profile("p40-share"), shared=False), "a"))
    found = inspected(runner)
    assert (found.unattributed, found.idle) == ((), 0)
    assert [held.name for held in found.devices[0].pods] == ["serve"]


def test_nodes_with_devices_are_listed_by_name_and_others_on_request() -> None:
    runner = shared("z")
    runner.show(*fleet_node(profile("dgx-a100"), "b"), NodeView("plain"))
    assert [found.name for found in inspect_nodes(runner.broker, None, 0.0)] == ["b", "z"]
    assert inspected(runner, "plain").devices == ()
    assert inspect_nodes(runner.broker, "unknown", 0.0) == ()


def test_an_inspection_is_data_that_json_can_hold() -> None:
    runner = shared("a", pod("serve", MEMORY, 2))
    data = json.loads(json.dumps(asdict(inspected(runner))))
    assert data["devices"][0]["pods"][0] == {
        "uid": "serve",
        "namespace": "team",
        "name": "serve",
        "state": "bound",
        "share": 2,
        "core": 0,
        "whole": False,
        "devices": 0,
        "other": 0,
    }
