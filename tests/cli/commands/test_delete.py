"""`linkwise delete` on an embedded API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.pod_objects import pod
from support.embedded.cli_cluster import AskedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AskedCluster]:
    with AskedCluster(tmp_path) as made:
        made.make(*(pod("default", name, labels={"app": name[0]}) for name in ("a1", "a2", "b1")))
        yield made


@pytest.mark.parametrize("words", [["pod", "a1", "a2"], ["pod/a1", "po/a2"], ["pods", "-l", "app=a"]])
def test_objects_are_deleted_by_name_or_labels(cluster: AskedCluster, words: list[str]) -> None:
    done = cluster.ask("delete", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "pod/a1 deleted\npod/a2 deleted\n", "")
    assert cluster.names("pods") == ["b1"]


def test_the_objects_of_a_file_are_deleted(cluster: AskedCluster) -> None:
    text = "{apiVersion: v1, kind: Pod, metadata: {name: b1}, spec: {containers: [{name: c, image: i}]}}"
    assert cluster.ask("delete", "-f", "-", stdin=text).stdout == "pod/b1 deleted\n"
    again = cluster.ask("delete", "-f", "-", stdin=text)
    assert (again.returncode, "not found" in again.stderr) == (1, True)
    assert cluster.ask("delete", "-f", "-", "--ignore-not-found", stdin=text).returncode == 0


def test_a_missing_object_does_not_keep_the_others(cluster: AskedCluster) -> None:
    done = cluster.ask("delete", "pod", "no", "a1", "-o", "name")
    assert (done.returncode, done.stdout) == (1, "pod/a1\n")
    assert 'pods "no" not found' in done.stderr


def test_a_dry_run_deletes_nothing(cluster: AskedCluster) -> None:
    assert cluster.ask("delete", "pod/a1", "--dry-run").stdout == "pod/a1 deleted (server dry run)\n"
    assert "a1" in cluster.names("pods")


def test_an_object_that_stays_is_waited_for_until_the_timeout(cluster: AskedCluster) -> None:
    held = pod("default", "held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    cluster.make(held)
    done = cluster.ask("delete", "pod/held", "--timeout", "0.3")
    assert (done.returncode, "still exists after 0.3 seconds" in done.stderr) == (1, True)
    assert cluster.ask("delete", "pod/held", "--wait=false").returncode == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "objects required"),
        (["pods"], "name required"),
        (["pod", "a1", "-l", "app=a"], "a name can't be used together with -l or --all"),
        (["podz", "x"], "did you mean pod?"),
        (["pod/a1", "-f", "x.yaml"], "-f can't be used together with names"),
    ],
)
def test_invalid_arguments_are_refused(cluster: AskedCluster, words: list[str], sentence: str) -> None:
    done = cluster.ask("delete", *words)
    assert (done.returncode, sentence in done.stderr) == (2, True)
