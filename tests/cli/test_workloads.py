"""Workloads of several kinds of pods are read and planned as the pods that their controllers would create."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]

MANIFESTS = Path(__file__).parent / "manifests"
TRAINING = {
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}


def read(linkwise: Linkwise, name: str) -> list[dict[str, Any]]:
    shown = linkwise("read", "-f", str(MANIFESTS / f"{name}.yaml"), "--json")
    assert shown.returncode == 0, shown.stdout
    entries: list[dict[str, Any]] = json.loads(shown.stdout)
    return entries


def plan(linkwise: Linkwise, name: str) -> list[dict[str, Any]]:
    shown = linkwise("plan", "-f", str(MANIFESTS / f"{name}.yaml"), "--fleet", "dgx1-v100=8", "--json")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    groups: list[dict[str, Any]] = json.loads(shown.stdout)["items"]
    return groups


def members(group: dict[str, Any]) -> list[str]:
    return sorted(member["name"].partition("/")[2] for member in group["members"])


@pytest.mark.parametrize(
    ("name", "pods", "keys"),
    [
        ("job", {"plain": 2}, {"team-a/plain.UID"}),
        ("jobset", {"llama-driver": 1, "llama-workers": 4}, {"team-a/llama.UID.0"}),
        ("leaderworkerset", {"vllm": 2, "vllm-worker": 2}, {"team-a/vllm-0.UID"}),
        ("pytorchjob", {"bert-master": 1, "bert-worker": 3}, {"team-a/bert.UID"}),
        ("mpijob", {"hpl-launcher": 1, "hpl-worker": 2}, {None, "team-a/hpl.mpijob"}),
        ("trainjob", {"tune-node": 2}, {"team-a/tune.UID.0"}),
        (
            "rayjob",
            {"sweep-raycluster-head": 1, "sweep-raycluster-gpus-worker": 2},
            {None, "team-a/sweep-raycluster.UID"},
        ),
        ("raycluster", {"tune-head": 1, "tune-small-worker": 2, "tune-spare-worker": 2}, {"team-a/tune.UID"}),
    ],
)
def test_the_pods_and_the_group_of_a_workload_are_read(
    linkwise: Linkwise, name: str, pods: dict[str, int], keys: set[str | None]
) -> None:
    entries = read(linkwise, name)
    assert {entry["name"]: entry["pods"] for entry in entries} == pods
    assert {entry["owner_group"]["key"] if entry["owner_group"] else None for entry in entries} == keys
    assert all(entry["group"] is None for entry in entries), "no pod declares a group"


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        (
            "jobset",
            [
                [
                    *("llama-driver-0-0", "llama-workers-0-0", "llama-workers-0-1"),
                    *("llama-workers-1-0", "llama-workers-1-1"),
                ]
            ],
        ),
        ("leaderworkerset", [["vllm-0", "vllm-0-1"], ["vllm-1", "vllm-1-1"]]),
        ("pytorchjob", [["bert-master-0", "bert-worker-0", "bert-worker-1", "bert-worker-2"]]),
        ("mpijob", [["hpl-launcher-0", "hpl-worker-0", "hpl-worker-1"]]),
        ("trainjob", [["tune-node-0-0", "tune-node-0-1"]]),
        (
            "rayjob",
            [["sweep-raycluster-gpus-worker-0", "sweep-raycluster-gpus-worker-1", "sweep-raycluster-head"]],
        ),
        (
            "raycluster",
            [["tune-head", *(f"tune-{group}-worker-{number}" for group in ("small", "spare") for number in range(2))]],
        ),
    ],
)
def test_a_workload_is_planned_as_its_controller_would_create_it(
    linkwise: Linkwise, name: str, groups: list[list[str]]
) -> None:
    assert [members(group) for group in plan(linkwise, name)] == groups


def test_the_text_names_the_group_by_owner_and_the_setting(linkwise: Linkwise) -> None:
    shown = linkwise("read", "-f", str(MANIFESTS / "leaderworkerset.yaml")).stdout
    assert "owner    team-a/vllm-0.UID (a group where groups by owner are on, 2 members)" in shown


def test_what_a_train_job_leaves_to_its_runtime_is_noted(linkwise: Linkwise) -> None:
    (entry,) = read(linkwise, "trainjob")
    assert entry["note"] == "the pod template is in the runtime torch-distributed, a separate object"
    bare = "kind: TrainJob\nmetadata: {name: tune}\nspec: {runtimeRef: {name: torch}}\n"
    assert "numNodes and resourcesPerNode may be set there" in linkwise("read", "-f", "-", stdin=bare).stdout
    noted = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=1", stdin=bare)
    assert "note: standard input:3: TrainJob tune: the pod template is in the runtime torch" in noted.stderr


def test_declared_groups_count_before_the_owner(linkwise: Linkwise) -> None:
    text = (MANIFESTS / "leaderworkerset.yaml").read_text()
    labels = (
        "      metadata: {labels: {gputopology.scheduling.koordinator.sh/name: all,"
        " gputopology.scheduling.koordinator.sh/replica: '4'}}\n      spec:\n"
    )
    declared = text.replace("      spec:\n", labels)
    shown = json.loads(linkwise("read", "-f", "-", "--json", stdin=declared).stdout)
    assert [(entry["group"]["key"], entry["owner_group"]) for entry in shown] == [("team-a/all/4", None)] * 2


@pytest.mark.parametrize("kind", TRAINING)
def test_all_training_jobs_are_read(linkwise: Linkwise, kind: str) -> None:
    template = "{spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}}"
    text = f"""\
kind: {kind}
metadata: {{name: fit}}
spec:
  {TRAINING[kind]}:
    Worker: {{replicas: 2, template: {template}}}
"""
    (entry,) = json.loads(linkwise("read", "-f", "-", "--json", stdin=text).stdout)
    assert (entry["name"], entry["pods"], entry["owner_group"]["key"]) == ("fit-worker", 2, "default/fit.UID")


POD = "{spec: {containers: [{name: main}]}}"


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("kind: JobSet\nspec: {}\n", "2:7", "spec.replicatedJobs: it is missing"),
        ("kind: JobSet\nspec: {replicatedJobs: 3}\n", "2:24", "spec.replicatedJobs: expected a list, got 3"),
        ("kind: JobSet\nspec:\n  replicatedJobs:\n  - 7\n", "4:5", "spec.replicatedJobs[0]: expected an object, got 7"),
        (
            "kind: JobSet\nspec:\n  replicatedJobs:\n  - {name: a, replicas: many}\n",
            "4:25",
            "spec.replicatedJobs[0].replicas: expected a whole number of 0 or more, got 'many'",
        ),
        (
            "kind: JobSet\nspec:\n  replicatedJobs:\n  - {name: a}\n",
            "4:5",
            "spec.replicatedJobs[0]: it has no pod template",
        ),
        ("kind: LeaderWorkerSet\nspec: {}\n", "2:7", "spec.leaderWorkerTemplate: it is missing"),
        (
            f"kind: LeaderWorkerSet\nspec:\n  leaderWorkerTemplate:\n    size: 0\n    workerTemplate: {POD}\n",
            "4:11",
            "spec.leaderWorkerTemplate.size: expected a whole number of 1 or more, got 0",
        ),
        ("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: []}\n", "2:29", "expected an object, got a list"),
        ("kind: TrainJob\nspec: {trainer: {numNodes: 2}}\n", "2:7", "spec.runtimeRef: it is missing"),
        (
            "kind: RayJob\nspec: {clusterSelector: {a: b}}\n",
            "2:25",
            "spec.clusterSelector: the job runs on a RayCluster",
        ),
        ("kind: RayCluster\nspec: {headGroupSpec: {}}\n", "2:23", "spec.headGroupSpec: it has no pod template"),
    ],
)
def test_mistakes_are_reported_with_line_and_column(linkwise: Linkwise, text: str, place: str, sentence: str) -> None:
    shown = linkwise("read", "-f", "-", stdin=text)
    assert shown.returncode == 1
    assert sentence in shown.stdout
    assert f"problem  {place} " in shown.stdout
    refused = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=1", stdin=text)
    assert refused.returncode == 2
    assert f"standard input:{place}: " in refused.stderr
    assert sentence in refused.stderr


def test_too_many_pods_are_refused_before_they_are_created(linkwise: Linkwise) -> None:
    text = (MANIFESTS / "leaderworkerset.yaml").read_text().replace("size: 2", "size: 1000000000")
    refused = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=1", stdin=text)
    assert refused.returncode == 2
    assert "the maximum is 10000" in refused.stderr
