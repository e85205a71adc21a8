"""`linkwise annotate` on an embedded API server."""

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
        made.make(pod("default", "a", annotations={"kept": "yes"}, labels={"app": "x"}), pod("default", "b"))
        yield made


def test_annotations_are_set_and_removed_and_others_stay(cluster: AskedCluster) -> None:
    assert cluster.ask("annotate", "pod", "a", "example.com/x=1", "y=").stdout == "pod/a annotated\n"
    assert cluster.annotations("pods", "a") == {"kept": "yes", "example.com/x": "1", "y": ""}
    assert cluster.ask("annotate", "po/a", "example.com/x-", "y-", "none-").returncode == 0
    assert cluster.annotations("pods", "a") == {"kept": "yes"}


def test_another_value_is_replaced_only_if_that_is_said(cluster: AskedCluster) -> None:
    refused = cluster.ask("annotate", "pod/a", "kept=no")
    assert (refused.returncode, "--overwrite replaces it" in refused.stderr) == (2, True)
    assert cluster.ask("annotate", "pod/a", "kept=yes").stdout == "pod/a unchanged\n"
    assert cluster.ask("annotate", "pod/a", "kept=no", "--overwrite").returncode == 0
    assert cluster.annotations("pods", "a") == {"kept": "no"}


def test_several_objects_and_labels(cluster: AskedCluster) -> None:
    assert cluster.ask("annotate", "pods", "a", "b", "n=1").stdout == "pod/a annotated\npod/b annotated\n"
    assert cluster.ask("annotate", "pods", "-l", "app=x", "n=2", "--overwrite").stdout == "pod/a annotated\n"
    missing = cluster.ask("annotate", "pods", "none", "b", "m=1")
    assert (missing.returncode, missing.stdout) == (1, "pod/b annotated\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pod", "a"], "annotation required"),
        (["pod", "x=1"], "name required"),
        (["pod", "a", "x=1", "b"], "objects come before annotations"),
        (["pod", "a", "x=1", "x-"], "given twice"),
        (["pod", "a", "/x=1"], "not a valid key"),
    ],
)
def test_invalid_arguments_are_refused(cluster: AskedCluster, words: list[str], sentence: str) -> None:
    done = cluster.ask("annotate", *words)
    assert (done.returncode, sentence in done.stderr) == (2, True)
