"""`linkwise get --watch` prints changes line by line, and ends with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.embedded.cli_cluster import AskedCluster
from support.environment import surroundings

if TYPE_CHECKING:
    from pathlib import Path

GPU = "nvidia.com/gpu"


def watching(cluster: AskedCluster, *words: str) -> subprocess.Popen[str]:
    environment = {**surroundings(), "KUBECONFIG": str(cluster.kubeconfig)}
    command = [sys.executable, "-m", "linkwise", "get", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def line_of(process: subprocess.Popen[Any]) -> list[str]:
    assert process.stdout
    return list(process.stdout.readline().split())


def test_new_changed_and_deleted_pods_are_printed_one_line_each(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("a", "nvlink"), pod("default", "first", {GPU: 2}))
        process = watching(cluster, "pods", "-w")
        assert [line_of(process)[:2] for _ in range(2)] == [["NAME", "STATE"], ["first", "Pending"]]
        cluster.make(pod("default", "second", {GPU: 16}))
        assert line_of(process)[:2] == ["second", "Pending"]
        cluster.ask("delete", "pod/first")
        assert line_of(process)[:2] == ["first", "Deleted"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err.strip()) == (130, "", "")


def test_names_are_printed_again_when_their_objects_change(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("a", "nvlink"))
        process = watching(cluster, "nodes", "--watch", "-o", "name")
        assert line_of(process) == ["node/a"]
        cluster.make(*machine("b", "nvlink"))
        assert line_of(process) == ["node/b"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
