"""`linkwise topo --annotate` writes the links of a machine on a node that runs no agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.nvidia import TOPOLOGY
from linkwise.embedded.apiserver.faults import Fault
from linkwise.vendors.machines import profile
from support.e2e.node_objects import gpushare, machine, node
from support.embedded.cli_cluster import AskedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

GPU = "nvidia.com/gpu"
TEXT = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n"
MATRIX = '[["X","NV4"],["NV4","X"]]'


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(node("gpu-7", {GPU: 2}, annotations={"example.com/other": "kept"}), node("bare"))
        yield made


def annotated(cluster: AskedCluster, *words: str, stdin: str = TEXT) -> CompletedProcess[str]:
    return cluster.ask("topo", "--annotate", "node/gpu-7", *words, stdin=stdin)


def node_annotations(cluster: AskedCluster, name: str = "gpu-7") -> dict[str, str]:
    return cluster.annotations("nodes", name)


def test_the_links_are_written_and_used_and_other_annotations_stay(cluster: AskedCluster) -> None:
    shown = annotated(cluster)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "node/gpu-7 annotated: links of 2 devices\n", "")
    assert node_annotations(cluster) == {"example.com/other": "kept", TOPOLOGY: MATRIX}
    assert json.loads(cluster.ask("topo", "node/gpu-7", "--json").stdout)["links"] == json.loads(MATRIX)


def test_the_same_links_again_change_nothing(cluster: AskedCluster) -> None:
    annotated(cluster)
    assert annotated(cluster).stdout == "node/gpu-7 unchanged\n"


@pytest.mark.parametrize(
    ("before", "replaced"),
    [
        ('[["X","NV1"],["NV1","X"]]', "replacing 1 of 1 link"),
        ('[["X"]]', "replacing those of 1 device"),
        ("[[", "replacing an invalid matrix"),
    ],
)
def test_what_is_replaced_is_reported(cluster: AskedCluster, before: str, replaced: str) -> None:
    cluster.make(node("old", {GPU: 2}, annotations={TOPOLOGY: before}))
    shown = cluster.ask("topo", "--annotate", "node/old", stdin=TEXT)
    assert shown.stdout == f"node/old annotated: links of 2 devices, {replaced}\n"
    assert node_annotations(cluster, "old")[TOPOLOGY] == MATRIX


def test_a_dry_run_prints_the_annotation_and_writes_nothing(cluster: AskedCluster) -> None:
    shown = annotated(cluster, "--dry-run")
    assert shown.stdout == f"node/gpu-7 annotated: links of 2 devices (server dry run)\n{TOPOLOGY}: {MATRIX}\n"
    assert TOPOLOGY not in node_annotations(cluster)


def test_a_profile_is_a_source_as_well(cluster: AskedCluster) -> None:
    cluster.make(node("dgx", {GPU: 8}))
    assert cluster.ask("topo", "--profile", "dgx1-v100", "--annotate", "node/dgx").returncode == 0
    links = profile("dgx1-v100").topology.links
    assert json.loads(node_annotations(cluster, "dgx")[TOPOLOGY])[0][1:] == list(links[0][1:])


def test_bandwidth_is_left_out_beside_links_and_refused_alone(cluster: AskedCluster) -> None:
    alone = "bandwidth: [[700, 96], [96, 700]]\n"
    assert "no link kinds, which the annotation needs" in annotated(cluster, stdin=alone).stderr
    shown = annotated(cluster, stdin=f"{alone}links: [[X, NV2], [NV2, X]]\n")
    assert (shown.returncode, "bandwidth is left out" in shown.stderr) == (0, True)


def test_nodes_that_share_memory_are_annotated_by_their_number_of_devices(cluster: AskedCluster) -> None:
    cluster.make(*gpushare("s", 2))
    assert cluster.ask("topo", "--annotate", "node/s", stdin=TEXT).returncode == 0


@pytest.mark.parametrize(
    ("words", "stdin", "code", "sentence"),
    [
        (["node/gpu-8"], TEXT, 1, "node gpu-8 not found; did you mean gpu-7?"),
        (["node/bare"], TEXT, 1, "node bare has no devices; check its device plugin"),
        (["gpu-7"], TEXT, 2, "--annotate gpu-7: expected node/NAME"),
        (["node/gpu-7", "--json"], TEXT, 2, "--annotate prints no links"),
        (["node/gpu-7"], TEXT[: TEXT.index("GPU1\tNV4")], 3, "incomplete, node gpu-7 is not annotated: row GPU1"),
        (["node/gpu-7"], "hello", 2, "neither the output of a supported tool nor a machine file"),
        (
            ["node/gpu-7"],
            "links: [[X, NV1, NV1], [NV1, X, NV1], [NV1, NV1, X]]",
            2,
            "links of 3 devices given, but node gpu-7 has 2; run the topology tool on that node",
        ),
    ],
)
def test_what_does_not_match_the_node_is_refused(
    cluster: AskedCluster, words: list[str], stdin: str, code: int, sentence: str
) -> None:
    shown = cluster.ask("topo", "--annotate", *words, stdin=stdin)
    assert (shown.returncode, shown.stdout) == (code, "")
    assert sentence in shown.stderr
    assert TOPOLOGY not in node_annotations(cluster)


def test_a_node_with_an_agent_keeps_the_links_of_its_inventory(cluster: AskedCluster) -> None:
    cluster.make(*machine("agent", "pcie"))
    shown = cluster.ask("topo", "--profile", "dgx1-v100", "--annotate", "node/agent")
    assert shown.returncode == 2
    assert "an inventory object has its links already" in shown.stderr


def test_links_of_a_node_whose_devices_are_divided_are_refused(cluster: AskedCluster) -> None:
    cluster.make(node("slices", {GPU: 2}, labels={"nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "2"}))
    shown = cluster.ask("topo", "--annotate", "node/slices", stdin=TEXT)
    assert shown.returncode == 2
    assert "links would not be used: nvidia.com/gpu" in shown.stderr


def test_a_dry_run_without_annotate_is_an_error(cluster: AskedCluster) -> None:
    shown = cluster.ask("topo", "--dry-run", stdin=TEXT)
    assert (shown.returncode, shown.stderr) == (2, "linkwise: --dry-run is for --annotate: nothing else is written\n")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(403, "may not patch nodes: "), (404, "node gpu-7 not found: "), (500, "node gpu-7: ")],
)
def test_a_refused_write_is_reported(cluster: AskedCluster, code: int, sentence: str) -> None:
    cluster.fail(Fault("answer", on="PATCH", path="/nodes/", code=code, times=0))
    shown = annotated(cluster)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.startswith(f"linkwise: {sentence}")
