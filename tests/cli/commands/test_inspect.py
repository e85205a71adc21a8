from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.cli.reports.gpushare_memory import memory_nodes, padded, show_details
from linkwise.views.cluster import ClusterView
from linkwise.wire.kubernetes.objects import node_view, pod_view
from support.e2e.node_objects import gpushare, machine
from support.embedded.cli_cluster import AskedCluster, gpushare_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

# The sample output of GPU share: four P40 of 22 GiB, seven TITAN Xp of 11 GiB, and one pod of 1 GiB.
# A bar marks the end of lines with trailing spaces.
DETAILS = """
NAME:       10.0.20.250
IPADDRESS:  10.0.20.250

NAME                        NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  GPU2(Allocated)  GPU3(Allocated)  |
binpack-1-767bddd4b5-gzqk7  default    1                0                0                0                |
Allocated :                 1 (1%)     |
Total :                     88         |
------------------------------------------------------

NAME:       10.0.33.21
IPADDRESS:  10.0.33.21

NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  GPU2(Allocated)  GPU3(Allocated)  GPU4(Allocated)  GPU5(Allocated)  GPU6(Allocated)  |
Allocated :  0 (0%)     |
Total :      77         |
------------------------------------------------------


Allocated/Total GPU Memory In Cluster:  1/165 (0%)  |
""".replace("|\n", "\n")
SUMMARY = """\
NAME         IPADDRESS    GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU2(Allocated/Total)  GPU Memory(GiB)
10.0.20.250  10.0.20.250  1/22                   0/22                   0/0                    1/44
n3           unknown      0/11                   5/11                   0/11                   5/33
---------------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
6/77 (7%)  |
""".replace("|\n", "\n")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def add(cluster: AskedCluster, name: str, cards: int, memory: int) -> None:
    (node,) = gpushare(name, cards, memory)
    node["status"]["addresses"] = [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": name}]
    cluster.make(node)


@pytest.mark.rule("004.inspect", level="E")
def test_details_have_the_layout_of_gpushare(cluster: AskedCluster) -> None:
    add(cluster, "10.0.20.250", 4, 22)
    add(cluster, "10.0.33.21", 7, 11)
    cluster.make(gpushare_pod("binpack-1-767bddd4b5-gzqk7", "10.0.20.250", 1, 0))
    assert cluster.ask("inspect", "-d").stdout == DETAILS
    assert cluster.ask("-d", program="/usr/bin/kubectl-inspect-gpushare").stdout == DETAILS


@pytest.mark.rule("004.inspect")
def test_the_gpushare_layout_needs_no_cluster() -> None:
    broker = Broker()
    sample = gpushare_pod("binpack-1-767bddd4b5-gzqk7", "10.0.20.250", 1, 0)
    sample["metadata"]["uid"] = "u"
    nodes = [node_view(*gpushare("10.0.20.250", 4, 22)), node_view(*gpushare("10.0.33.21", 7, 11))]
    broker.observe([*(replace(node, address=node.name) for node in nodes), pod_view(sample)], 0.0)
    seen = ClusterView(broker, 0.0, "default")
    assert show_details(memory_nodes(seen, None)) == DETAILS


def test_the_summary_has_one_row_per_node(cluster: AskedCluster) -> None:
    add(cluster, "10.0.20.250", 2, 22)
    cluster.make(*gpushare("n3", 3, 11), gpushare_pod("a", "10.0.20.250", 1, 0), gpushare_pod("b", "n3", 5, 1))
    assert cluster.ask("inspect").stdout == SUMMARY


def test_memory_without_a_recorded_device_is_shown_as_pending(cluster: AskedCluster) -> None:
    cluster.make(*gpushare("n1", 1, 11), gpushare_pod("lost", "n1", 3))
    heading, row = cluster.ask("inspect", "n1").stdout.splitlines()[:2]
    assert heading.split()[-4:] == ["GPU0(Allocated/Total)", "PENDING(Allocated)", "GPU", "Memory(GiB)"]
    assert row.split() == ["n1", "unknown", "0/11", "3", "3/11"]
    assert "lost         default    0                3" in cluster.ask("inspect", "-d", "n1").stdout


def test_a_node_that_shares_no_memory_is_noted_on_stderr(cluster: AskedCluster) -> None:
    cluster.make(*machine("whole", "nvlink"))
    shown = cluster.ask("inspect", "whole")
    assert (shown.returncode, shown.stderr[:22]) == (0, "note: node whole does ")
    assert shown.stdout.endswith("\n0/0 (0%)  \n")


def test_columns_are_aligned_across_consecutive_lines() -> None:
    assert padded(["a\tb\t", "long\tc\t", "", "x\tend"]) == "a     b  \nlong  c  \n\nx  end\n"
