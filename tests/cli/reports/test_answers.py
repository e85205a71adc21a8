"""Answers of get, explain and top: the service and a cluster that is read give the same, and one replaces the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TriedCluster]:
    """A cluster with a pod that runs and one that waits."""
    folder: Path = tmp_path_factory.mktemp("up")
    with TriedCluster(folder, "--fleet", "dgx1-v100=2,p40-share=1") as made:
        made.shell("linkwise example link-pair | linkwise apply -f -; linkwise example too-many | linkwise apply -f -")
        made.shell("until linkwise get pods | grep Running; do :; done")
        yield made


@pytest.mark.parametrize(
    "words",
    [
        "get nodes",
        "get nodes -o wide",
        "get nodes,policies",
        "get devices -l 'kubernetes.io/hostname=p40-share-0' -o yaml",
        "get pod/link-pair -o name",
        "get usage -o json",
        "get capacity",
        "get groups -A",
        "explain node/dgx1-v100-0 -o json",
        "describe node/dgx1-v100-0",
        "describe node/p40-share-0",
        "describe pod/link-pair",
        "explain pod/nothing-like-it",
        "get pods nothing-like-it",
        "top pods -o name",
    ],
)
def test_the_service_and_a_cluster_that_is_read_give_the_same_answer(cluster: TriedCluster, words: str) -> None:
    asked, read = (
        cluster.shell(f"linkwise {words}; echo $?"),
        cluster.shell(f"linkwise {words} --service none; echo $?"),
    )
    assert asked == read
    assert "Traceback" not in asked


def test_the_service_knows_what_schedulers_have_asked(cluster: TriedCluster) -> None:
    asked = cluster.shell("linkwise explain pod/too-many -o json")
    assert '"offered": {' in asked
    assert '"offered": null' in cluster.shell("linkwise explain pod/too-many -o json --service none")


def test_a_service_that_was_named_is_not_replaced(cluster: TriedCluster) -> None:
    assert "is neither a URL nor" in cluster.shell("linkwise get nodes --service 127.0.0.1:1")
    assert "the service can't be reached" in cluster.shell("linkwise get nodes --service http://127.0.0.1:1")


def test_without_a_service_the_cluster_is_read(tmp_path: Path) -> None:
    with TriedCluster(tmp_path, "--fleet", "dgx1-v100=1") as own:
        before = own.shell("linkwise get nodes")
        own.shell("linkwise delete service/linkwise -n linkwise-system")
        assert own.shell("linkwise get nodes") == before
        assert "node dgx1-v100-0: 8 devices" in own.shell("linkwise explain node/dgx1-v100-0")
