"""Volcano jobs whose shape no machine of rings serves are refused as a whole, with a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.explain.group.group import explain_group
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.model.settings import JobShape

NODES = ["a", "b"]


def job(
    *counts: int, resource: str = "huawei.com/Ascend910", key: str = "scheduling.k8s.io/group-name"
) -> list[PodView]:
    """Pods of one job, by how many devices each wants."""
    words = {key: "job", "scheduling.volcano.sh/group-min-member": str(len(counts)), "volcano.sh/task-spec": "worker"}
    return [
        PodView(
            "default",
            f"p{number}",
            f"u{number}",
            (ContainerView("main", limits={resource: str(count)}),),
            annotations=words,
        )
        for number, count in enumerate(counts)
    ]


def cluster(shape: JobShape = "strict", machine: str = "atlas-800") -> Broker:
    broker = Broker(PlacingSettings(job_shape=shape))
    for name in NODES:
        broker.observe(fleet_node(profile(machine), name), 0.0)
    return broker


def offered(broker: Broker, pods: list[PodView]) -> list[list[str]]:
    broker.observe(pods, 0.0)
    return [list(broker.filter(pod, NODES, 1.0).nodes) for pod in pods]


@pytest.mark.rule("003.one-pod")
@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ((4, 4), "8 devices requested by 2 pods; a job of up to 8 devices must be one pod"),
        ((4, 4, 8), "task worker requests 4 devices per pod; a job of more than 8 devices must request 8 per pod"),
        ((8, 2), "10 devices requested in total; a job of more than 8 must request a multiple of 8"),
    ],
)
def test_a_job_of_an_unsupported_shape_is_refused_with_the_supported_ones(counts: tuple[int, ...], why: str) -> None:
    broker, pods = cluster(), job(*counts)
    assert not any(offered(broker, pods))
    explanation = explain_group(broker, "u0", 1.0)
    assert explanation is not None
    assert explanation.sentence == why


@pytest.mark.rule("003.one-pod")
@pytest.mark.parametrize("counts", [(1,), (2,), (4,), (8,), (8, 8)])
def test_the_shapes_that_are_served_are_placed(counts: tuple[int, ...]) -> None:
    assert all(offered(cluster(), job(*counts)))


def test_per_pod_lets_any_number_of_pods_be_a_job_and_looks_at_each() -> None:
    assert all(offered(cluster("per-pod"), job(4, 4)))
    assert not any(offered(cluster("per-pod"), job(4, 3)))


def test_jobs_of_devices_without_rings_may_have_any_shape() -> None:
    assert all(offered(cluster(machine="dgx1-v100"), job(3, 2, resource="nvidia.com/gpu")))
