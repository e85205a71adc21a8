"""Completion of kinds and names, in bash and for kubectl's plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.embedded.cli_cluster import AskedCluster
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

KUBECTL = "kubectl_complete-linkwise"
BASH = """
eval "$(linkwise completion bash)"
COMP_WORDS=(linkwise TYPED)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_linkwise_completion linkwise
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    """A cluster that the tests only read."""
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine("gpu-1", "nvlink"), pod("default", "train-a"), pod("default", "train-b"))
        made.make(pod("kube-system", "other"))
        yield made


def completed(cluster: AskedCluster, *words: str) -> list[str]:
    """What kubectl gets from the program that completes a plugin."""
    done = cluster.ask(*words, program=KUBECTL)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, directive = done.stdout.splitlines()
    assert directive.startswith(":")
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["get", "no"], ["nodes"]),
        (["get", "pods", "train"], ["train-a", "train-b"]),
        (["get", "pods", "train-a", ""], ["train-b"]),
        (["get", "pods", "-n", "kube-system", ""], ["other"]),
        (["explain", "pod/train-"], ["pod/train-a", "pod/train-b"]),
        (["describe", "node", "g"], ["gpu-1"]),
        (["delete", "namesp"], ["namespaces"]),
        (["annotate", "no/"], ["no/gpu-1"]),
        (["get", "nodes", "-o", "j"], ["json"]),
        (["ann"], ["annotate"]),
    ],
)
def test_kinds_and_names_are_completed(cluster: AskedCluster, words: list[str], found: list[str]) -> None:
    assert completed(cluster, *words) == found


def test_files_are_left_to_the_shell(cluster: AskedCluster) -> None:
    assert cluster.ask("apply", "-f", "", program=KUBECTL).stdout == ":0\n"


def test_bash_completes_names(cluster: AskedCluster) -> None:
    environment = {
        **surroundings(),
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    script = BASH.replace("TYPED", "explain pod/tr")
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", script], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert done.stdout.split() == ["pod/train-a", "pod/train-b"], done.stderr


def test_a_cluster_that_does_not_answer_completes_nothing_quietly(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as gone:
        pass
    done = gone.ask("explain", "pod/", program=KUBECTL)
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")
    assert completed(gone, "get", "n") == ["nodes"]
