"""The Volcano of the test cluster, without an extender: it places Jobs by count alone, and its programs restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import ascend
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for
from support.e2e.volcano import installed_volcano
from support.e2e.volcano_objects import pod_names, volcano_job
from support.volcano_seed import SEED_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.cluster import Cluster
    from support.e2e.volcano import Volcano

NPU = "huawei.com/Ascend910"


@pytest.fixture(scope="module")
def plain(kubernetes: Cluster, volcano_programs: Path) -> Iterator[Volcano]:
    if not isinstance(kubernetes, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    with installed_volcano(kubernetes, volcano_programs) as made:
        made.run(SEED_FILE.replace("  - name: topology910\n", ""))
        yield made


def bound(cluster: Cluster, namespace: str, names: list[str]) -> list[str]:
    """The nodes of pods, as soon as all have one."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    def nodes() -> list[str] | None:
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in cluster.api.list(path)}
        assert all(found.get(name) for name in names), found
        return [found[name] for name in names]

    return wait_for(nodes, 20, f"pods of {namespace} are bound")


def test_volcano_places_a_job_whose_chips_suffice_by_count(cluster: Cluster, plain: Volcano, namespace: str) -> None:
    cluster.create(ascend("a"))
    plain.pass_sessions()
    job = volcano_job(namespace, "train", {NPU: 3}, 2)
    cluster.create([job])
    assert bound(cluster, namespace, pod_names(job)) == ["a", "a"]


def test_a_job_waits_for_a_scheduler_that_is_down(cluster: Cluster, plain: Volcano, namespace: str) -> None:
    cluster.create(ascend("a"))
    plain.kill()
    job = volcano_job(namespace, "train", {NPU: 8})
    cluster.create([job])
    plain.start()
    assert bound(cluster, namespace, pod_names(job)) == ["a"]


@pytest.mark.rule("003.config")
def test_upstream_volcano_does_not_have_the_plugin_that_the_seeds_file_names(plain: Volcano) -> None:
    before = plain.configuration.read_text()
    plain.run(SEED_FILE)
    try:
        wait_for(lambda: "Failed to get plugin topology910" in plain.scheduler.tail(200), 20, "the plugin is missing")
    finally:
        plain.run(before)
