from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import ascend, gpushare, machine, node
from support.e2e.pod_objects import pod, pod_group
from support.embedded.cli_cluster import AskedCluster, gpushare_pod

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    """A cluster that the tests only read."""
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine("m", "measured"), *machine("a", "nvlink"), *gpushare("s"), *ascend("x"), node("bare"))
        made.make(pod("default", "train", {"nvidia.com/gpu": 2}), gpushare_pod("share", "s", 6, 1))
        labels = {"scheduling.x-k8s.io/pod-group": "llm"}
        made.make(pod_group("default", "llm"))
        made.make(*(pod("default", f"w-{i}", {"nvidia.com/gpu": 4}, labels=labels) for i in range(2)))
        yield made


def test_a_node_is_described_with_its_link_matrix_and_capacity(cluster: AskedCluster) -> None:
    shown = cluster.ask("describe", "node", "a", columns=80).stdout
    assert shown.startswith("node a: 8 devices (Tesla V100-SXM2-16GB), 8 idle;")
    assert " 0        X  NV1+PIX  NV1+PHB  NV2+PHB" in shown
    assert "a request for 1 to 8 devices fits now" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_node_that_shares_memory_shows_the_usage_of_each_device(cluster: AskedCluster) -> None:
    shown = cluster.ask("describe", "node/s").stdout
    assert "1        -       6/22 GiB   #####...............   default/share 6 GiB" in shown
    assert "the largest free share is 22 GiB, on device 0" in shown


def test_rings_are_shown_with_their_idle_devices(cluster: AskedCluster) -> None:
    assert "ring {4,5,6,7}: 4 of 4 devices idle\n" in cluster.ask("describe", "node", "x").stdout


def test_a_node_without_devices_is_described_as_such(cluster: AskedCluster) -> None:
    assert cluster.ask("describe", "node", "bare").stdout == "node bare has no devices managed by Linkwise\n"


def test_the_devices_of_a_pod_are_marked_in_the_link_matrix(cluster: AskedCluster) -> None:
    shown = cluster.ask("describe", "pod", "train").stdout
    assert "it would get devices 0, 3 on node a" in shown
    assert "\n*3  NV2+PHB  NV1+PHB  NV2+PIX" in shown


def test_a_group_is_described_with_the_planned_node_of_each_member(cluster: AskedCluster) -> None:
    shown = cluster.ask("describe", "group", "llm").stdout
    assert "A     default/w-0   a      {0,1,2,3}" in shown
    assert "\na      A A A A B B B B" in shown
    assert "runner-up on node m: its slowest pair has 14.7 GB/s instead of 16 GB/s" in shown


def test_a_similar_name_is_suggested(cluster: AskedCluster) -> None:
    shown = cluster.ask("describe", "pod", "trian")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "linkwise: pod default/trian not found; did you mean train?\n"
