"""Misspelt resources, labels and annotations of pods, and the names that only look like them."""

from __future__ import annotations

import pytest

from linkwise.dialects.misspelt_keys import closest_key, misspelt_keys
from linkwise.dialects.registry import DIALECTS
from linkwise.model.views import ContainerView, PodView

KNOWN = [name for dialect in DIALECTS for name in dialect.resources]


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvida.com/gpu", "nvidia.com/gpu"),
        ("koordinator.sh/gpuu", "koordinator.sh/gpu"),
        ("koordinator.sh/gpu-memroy", "koordinator.sh/gpu-memory"),
        ("huawei.com/ascend910", "huawei.com/Ascend910"),
        ("aliyun.com/gpu-men", "aliyun.com/gpu-mem"),
        ("mthreads.com/gpu", ""),
        ("nvidia.com/mig-1g.5gb", ""),
        ("nvidia.com/gpu.shared", ""),
        ("nvidia.com/gpumem", ""),
        ("nvidia.com/hostdev", ""),
        ("amd.com/gpu-vf", ""),
        ("rdma/hca", ""),
        ("example.com/", ""),
        ("/", ""),
    ],
)
def test_a_misspelt_resource_is_close_to_one_of_its_own_vendor(resource: str, meant: str) -> None:
    assert closest_key(resource, KNOWN) == meant


def test_every_known_resource_is_spelt_right() -> None:
    box = ContainerView(
        "main", limits=dict.fromkeys([*KNOWN, "huawei.com/Ascend910-2c", "nvidia.com/mig-2g.10gb"], "1")
    )
    assert misspelt_keys(PodView("team", "p", "u", (box,))) == []


def test_misspelt_labels_and_annotations_are_problems() -> None:
    labels = {"gputopology.scheduling.koordinator.sh/nam": "bert", "app": "bert", "kueue.x-k8s.io/queue-name": "q"}
    annotations = {"linkwise.dev/polcy": "bandwidth", "linkwise.dev/policy": "bandwidth"}
    assert [
        (problem.key, problem.sentence) for problem in misspelt_keys(PodView("t", "p", "u", (), labels, annotations))
    ] == [
        (
            "gputopology.scheduling.koordinator.sh/nam",
            "unknown label; did you mean gputopology.scheduling.koordinator.sh/name?",
        ),
        ("linkwise.dev/polcy", "unknown annotation; did you mean linkwise.dev/policy?"),
    ]
