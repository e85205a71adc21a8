"""Habits of kubectl on a real API server: watches, deletion, annotations, workloads, and completion by the real kubectl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster

GPU: Final = "nvidia.com/gpu"
LONG: Final = 60.0  # seconds


class CommandLine:
    """`linkwise` as an administrator, in one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.namespace = cluster, cluster.namespace()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig("admin")), "PATH": programs}

    def run(self, *words: str, stdin: str = "") -> str:
        """What a command prints; it succeeds."""
        done = subprocess.run(
            [sys.executable, "-m", "linkwise", *words, "-n", self.namespace],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=self.environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def watch(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        command = [sys.executable, "-m", "linkwise", *words, "-n", self.namespace]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )

    def completed(self, *words: str) -> list[str]:
        """What the real kubectl completes for its plugin."""
        kubectl = str(self.cluster.programs / "kubectl")
        done = subprocess.run(
            [kubectl, "__complete", "linkwise", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=self.environment,
        )
        return [line.partition("\t")[0] for line in done.stdout.splitlines() if not line.startswith(":")]


@pytest.fixture
def line(cluster: Cluster) -> CommandLine:
    return CommandLine(cluster)


def first_words(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout
    return process.stdout.readline().split()[:2]


def test_a_watch_prints_new_changed_and_deleted_pods(line: CommandLine) -> None:
    line.cluster.create(machine("habit-1", "nvlink"))
    process = line.watch("get", "pods", "--watch", "--no-headers")
    try:
        line.cluster.create([pod(line.namespace, "a", {GPU: 2}, scheduler="none")])
        assert first_words(process) == ["a", "Pending"]
        assert line.run("annotate", "pod", "a", "example.com/note=x") == "pod/a annotated\n"
        assert line.run("delete", "pod", "a") == "pod/a deleted\n"
        assert first_words(process) == ["a", "Deleted"]
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LONG)
    assert (process.returncode, "Traceback" in said) == (130, False)


def test_objects_are_annotated_and_deleted_as_by_kubectl(line: CommandLine) -> None:
    names = ("a", "b")
    line.cluster.create(pod(line.namespace, name, scheduler="none", labels={"app": "x"}) for name in names)
    assert line.run("annotate", "po", "a", "b", "example.com/note=x").count("annotated") == 2
    found = line.cluster.pod(line.namespace, "a")["metadata"]["annotations"]
    assert found["example.com/note"] == "x"
    line.run("annotate", "pod/a", "example.com/note-")
    assert "example.com/note" not in line.cluster.pod(line.namespace, "a")["metadata"].get("annotations", {})
    assert line.run("delete", "pods", "-l", "app=x") == "pod/a deleted\npod/b deleted\n"
    assert line.cluster.api.list(f"/api/v1/namespaces/{line.namespace}/pods") == []
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    assert line.run("apply", "-f", "-", stdin=manifest) == "configmap/m created\n"
    assert line.run("delete", "-f", "-", stdin=manifest) == "configmap/m deleted\n"
    assert line.run("delete", "-f", "-", "--ignore-not-found", stdin=manifest) == ""


def test_a_job_is_explained_as_one(line: CommandLine) -> None:
    line.cluster.create(machine("habit-1", "nvlink"))
    box = {"name": "main", "image": "example.com/none", "resources": {"limits": {GPU: "16"}}}
    spec = {"restartPolicy": "Never", "schedulerName": "none", "containers": [box]}
    metadata = {"name": "train", "namespace": line.namespace}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    line.cluster.create([{**made, "spec": {"parallelism": 3, "completions": 3, "template": {"spec": spec}}}])
    path = f"/api/v1/namespaces/{line.namespace}/pods"
    wait_for(lambda: len(line.cluster.api.list(path)) == 3, LONG, "the controller creates the pods of the Job")
    shown = line.run("explain", "job/train").splitlines()
    assert shown[0] == f"job {line.namespace}/train has 3 pods: 3 pending"
    assert "3 pods for the same reason (train-" in shown[1]
    document = json.loads(line.run("explain", "job", "train", "-o", "json"))
    assert [len(part["pods"]) for part in document["data"]["parts"]] == [3]
    assert line.run("delete", "job", "train") == "job.batch/train deleted\n"


def test_usage_and_capacity_are_those_of_the_cluster(line: CommandLine) -> None:
    line.cluster.create(machine("habit-1", "nvlink"))
    line.cluster.create([pod(line.namespace, "a", {GPU: 3}, scheduler="none")])
    (usage,) = json.loads(line.run("get", "usage", "-o", "json"))["items"]
    assert (usage["namespace"], usage["pending_devices"], usage["devices"]) == (line.namespace, 3, 0)
    items = json.loads(line.run("get", "capacity", "-o", "json"))["items"]
    sizes = [size for item in items if item["resource"] == GPU for size in item["sizes"]]
    assert {size["size"]: size["pods"] for size in sizes} == {1: 8, 2: 4, 4: 2, 8: 1}


def test_the_real_kubectl_completes_its_plugin(line: CommandLine) -> None:
    line.cluster.create([pod(line.namespace, "train-0", scheduler="none")])

    def completes() -> bool:
        assert line.completed("get", "no") == ["nodes"]
        assert line.completed("get", "-n", line.namespace, "pods", "") == ["train-0"]
        return line.completed("explain", "-n", line.namespace, "pod/tr") == ["pod/train-0"]

    wait_for(completes, LONG, "kubectl completes names")
