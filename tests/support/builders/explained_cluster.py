"""Clusters of a few machines, and the explanation of a pod in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.broker import Broker
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from linkwise.explain.reports import Explanation

__all__ = ["GPU", "MEMORY", "NPU", "cluster", "explained", "lines", "placed", "pod"]

GPU: Final = "nvidia.com/gpu"
NPU: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"


def pod(name: str, resource: str = "", count: object = 1, cpu: str = "", **fields: Any) -> PodView:  # noqa: ANN401 - any field of a view
    """A pod of one container, whose name is its uid too."""
    limits = {key: value for key, value in ((resource, str(count)), ("cpu", cpu)) if key and value}
    return PodView("team", name, name, (ContainerView("main", limits=limits),), version=1, **fields)


def cluster(**machines: str) -> Runner:
    """Nodes by name, each of a known machine."""
    runner = Runner(Broker())
    for name, machine in machines.items():
        runner.show(*fleet_node(profile(machine), name))
    return runner


def placed(runner: Runner, *pods: PodView) -> Runner:
    """The same after these were placed, one after the other."""
    for number, view in enumerate(pods):
        must(runner.place(replace(view, created=float(number))).node, f"{view.name} is placed nowhere")
    return runner


def explained(runner: Runner, uid: str) -> Explanation:
    """What there is to say about a pod, as data."""
    found = explain_pod(runner.broker, uid, runner.now)
    if found is None:
        raise AssertionError(f"{uid} is not known")
    return found


def lines(runner: Runner, uid: str) -> list[str]:
    """The same as a person reads it."""
    return explanation_lines(explained(runner, uid))
