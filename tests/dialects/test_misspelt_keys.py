"""Misspelt resources, labels and annotations of pods, and the names that only look like them."""

from __future__ import annotations

import pytest

from linkwise.dialects.misspelt_keys import MOST, closest_key, misspelt_keys
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


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gang.scheduling.koordinator.sh/nam", "the annotation gang.scheduling.koordinator.sh/name"),
        ("gang.scheduling.koordinator.sh/min-avialable", "the annotation gang.scheduling.koordinator.sh/min-available"),
        ("gang.scheduling.kordinator.sh/name", "the annotation gang.scheduling.koordinator.sh/name"),
        ("scheduling.x-k8s.io/pod-grop", "scheduling.x-k8s.io/pod-group"),
        ("kueue.x-k8s.io/pod-group-nam", "kueue.x-k8s.io/pod-group-name"),
        ("scheduling.k8s.io/group-nme", "scheduling.k8s.io/group-name"),
        ("kai.scheduler/subgroup-nam", "kai.scheduler/subgroup-name"),
    ],
)
def test_a_misspelt_key_of_any_group_convention_is_a_problem(key: str, meant: str) -> None:
    (problem,) = misspelt_keys(PodView("t", "p", "u", (), {key: "x"}))
    assert problem.sentence == f"unknown label; did you mean {meant}?"


@pytest.mark.parametrize(
    "key",
    [
        *(
            "kueue.x-k8s.io/queue-name",
            "kueue.x-k8s.io/podset",
            "kueue.x-k8s.io/priority-class",
            "volcano.sh/queue-name",
        ),
        *("kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/podset-group-name", "kueue.x-k8s.io/podset-slice-size"),
        *("volcano.sh/preemptable", "volcano.sh/task-index", "volcano.sh/job-retry-count", "kai.scheduler/queue"),
        *("scheduling.volcano.sh/queue-name", "scheduling.koordinator.sh/device-allocated"),
        *("pod-group.scheduling.sigs.k8s.io/name", "app.kubernetes.io/name", "batch.kubernetes.io/job-name"),
    ],
)
def test_other_keys_of_these_systems_are_not_misspelt(key: str) -> None:
    assert misspelt_keys(PodView("t", "p", "u", (), {key: "x"}, {key: "x"})) == []


def test_an_annotation_that_is_set_as_a_label_is_a_problem() -> None:
    key = "gang.scheduling.koordinator.sh/name"
    (problem,) = misspelt_keys(PodView("t", "p", "u", (), {key: "x"}))
    assert problem.sentence == "it is read as an annotation, not as a label"
    assert misspelt_keys(PodView("t", "p", "u", (), {}, {key: "x"})) == []


@pytest.mark.parametrize(("others", "problems"), [(MOST - 1, 2), (MOST, 0)])
def test_of_many_unknown_names_of_a_pod_only_the_first_are_compared(others: int, problems: int) -> None:
    names = [f"example.com/thing-{number}" for number in range(others)]
    labels = dict.fromkeys(["gputopology.scheduling.koordinator.sh/name", *names, "linkwise.dev/polcy"], "x")
    box = ContainerView("main", limits=dict.fromkeys(["nvidia.com/gpu", *names, "nvidia.com/gpus"], "1"))
    assert len(misspelt_keys(PodView("t", "p", "u", (box,), labels))) == problems
