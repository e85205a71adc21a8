"""The one way in: which tool wrote a text, and what a machine looks like by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise import TopologyError, parse_topology
from linkwise.vendors.readers import all_readers, device_facts, recognised

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOPO = """\
\x1b[4m\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tSOC\t0-7\t0\t\tN/A
GPU1\tSOC\t X \t8-15\t1\t\tN/A
"""
LIST = """\
GPU 0: Tesla T4 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000001)
GPU 1: Tesla T4 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000002)
"""
SPEEDS = """\
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 240.00  11.25
     1  12.50 241.00
"""


@pytest.mark.rule("000.links")
def test_links_stand_as_the_tool_printed_them() -> None:
    topology = parse_topology(TOPO)
    assert topology.devices == ("GPU0", "GPU1")
    assert topology.links == (("X", "SYS"), ("SYS", "X"))
    assert topology.problems == ()


def test_bandwidth_keeps_both_directions() -> None:
    topology = parse_topology(SPEEDS)
    assert (topology.bandwidth[0][1], topology.bandwidth[1][0]) == (11.25, 12.5)
    assert topology.links == ()


def test_links_and_bandwidth_of_one_text_are_joined() -> None:
    topology = parse_topology(f"{TOPO}\n{SPEEDS}\n{LIST}")
    assert topology.links[0][1] == "SYS"
    assert topology.bandwidth[0][1] == 11.25
    assert [facts.uuid[-1] for facts in device_facts(f"{LIST}\n{TOPO}")] == ["1", "2"]
    assert [facts.numa for facts in device_facts(f"{LIST}\n{TOPO}")] == ["0", "1"]


def test_what_other_tools_say_beside_a_matrix_is_a_warning() -> None:
    lost = parse_topology(f"Unable to determine the device handle for GPU2: 0000:3B:00.0: Unknown Error\n{TOPO}")
    assert lost.problems == ()
    assert any("GPU2" in warning for warning in lost.warnings)
    three = (
        SPEEDS.replace("     0      1\n", "     0      1      2\n")
        .replace("11.25", "11.25  9.00")
        .replace("241.00", "241.00  9.00")
    )
    speeds = parse_topology(TOPO + three + "     2  9.00  9.00 240.00\n")
    assert any("ignored" in warning for warning in speeds.warnings)


def test_a_markdown_table_is_read() -> None:
    rows = ["|  | GPU0 | GPU1 |", "|---|:---:|---|", "| GPU0 | X | NV2 |", "| GPU1 | NV2 | X |"]
    assert parse_topology("\n".join(rows) + "\n").links == (("X", "NV2"), ("NV2", "X"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bash: rocm-smi: command not found\n", "rocm-smi is not installed where this was run"),
        ("$ amd-smi monitor\nGPU  POWER\n", "try `amd-smi topology`"),
        ("| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4 |\n", "try `nvidia-smi topo -m`"),
    ],
)
def test_a_text_that_names_a_tool_without_a_table_says_what_to_run(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        parse_topology(text)


def test_an_inventory_is_complete_and_says_that_it_has_no_links() -> None:
    topology = parse_topology(LIST)
    assert (topology.devices, topology.links, topology.problems) == (("GPU0", "GPU1"), (), ())
    assert topology.warnings[0] == "nvidia-smi -L has no data on links between devices"


def test_a_cut_text_names_what_is_missing() -> None:
    topology = parse_topology(TOPO[: TOPO.index("GPU1\tSOC")])
    assert topology.problems == ("row GPU1 is missing",)
    assert topology.links[1][0] == "?"


@pytest.mark.parametrize("text", ["", "hello", "GPU", "\x00\x1b[", "[[0,1],[1,0]]"])
def test_a_text_of_no_tool_is_an_error(text: str) -> None:
    assert not recognised(text)
    with pytest.raises(TopologyError, match="no known topology tool"):
        parse_topology(text)


def test_an_error_of_the_tool_is_an_error_with_its_words() -> None:
    with pytest.raises(TopologyError, match="does not support querying topo"):
        parse_topology("This device does not support querying topo.\n")


@pytest.mark.rule("002.vendors")
def test_three_vendors_and_one_more_are_read() -> None:
    kinds = " ".join(reader.kind for reader in all_readers())
    for tool in ("nvidia-smi", "npu-smi", "rocm-smi", "amd-smi", "mx-smi", "p2pBandwidthLatencyTest", "nvbandwidth"):
        assert tool in kinds
    assert len({reader.kind for reader in all_readers()}) == len(all_readers())


def test_every_text_of_the_collection_is_whole_incomplete_or_an_error_as_it_should_be(shared: Path) -> None:
    folder = shared / "data/topology-text"
    for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines():
        truth = json.loads(line)
        text = (folder / truth["file"]).read_text("utf-8", errors="replace")
        if truth["expect"] == "error":
            with pytest.raises(TopologyError):
                parse_topology(text)
            continue
        topology = parse_topology(text)
        assert bool(topology.problems) == (truth["expect"] == "incomplete"), truth["file"]
        assert len(topology.devices) == truth["n_gpus"], truth["file"]
        if truth.get("gpus"):
            assert list(topology.devices) == truth["gpus"], truth["file"]
        if truth.get("matrix"):
            printed = [[cell.replace("SOC", "SYS") for cell in row] for row in truth["matrix"]]
            assert [list(row) for row in topology.links] == printed, truth["file"]


def square(marks: str, corner: str, end: str = "") -> str:
    """Rows of three devices; the first knows the third not, and prints `marks` for it."""
    rows = [("X", "SYS", marks), ("SYS", "X", "SYS"), (marks, "SYS", "X")]
    header = "\t".join(["", *(f"{corner}{number}" for number in range(3))])
    return "\n".join([header + end, *(f"{corner}{number}\t" + "\t".join(row) for number, row in enumerate(rows)), ""])


def amd(marks: str, title: str) -> str:
    rows = [("0", "XGMI", marks), ("XGMI", "0", "XGMI"), (marks, "XGMI", "0")]
    lines = [title, "       GPU0  GPU1  GPU2", *(f"GPU{number}  " + "  ".join(row) for number, row in enumerate(rows))]
    return "\n".join([*lines, ""])


def amd_json(marks: str) -> str:
    links = [
        {"gpu": other, "link_type": marks if {gpu, other} == {0, 2} else "XGMI"}
        for gpu in range(3)
        for other in range(3)
    ]
    records = [{"gpu": gpu, "bdf": "", "links": links[3 * gpu : 3 * gpu + 3]} for gpu in range(3)]
    return json.dumps(records)


@pytest.mark.parametrize("marks", ["XXXX", "N/A"])
@pytest.mark.parametrize(
    ("layout", "devices"),
    [
        (lambda marks: square(marks, "GPU"), "GPU0-GPU2"),
        (lambda marks: f"mx-smi topo\n{square(marks, 'GPU', chr(9) + 'Node Affinity')}", "GPU0-GPU2"),
        (lambda marks: square(marks, "NPU"), "NPU0-NPU2"),
        (lambda marks: square(marks, "Phy-ID"), "Phy-ID0-Phy-ID2"),
        (lambda marks: amd(marks, "===== Link Type between two GPUs ====="), "GPU0-GPU2"),
        (lambda marks: amd(marks, "LINK TYPE TABLE:"), "GPU0-GPU2"),
        (amd_json, "GPU0-GPU2"),
    ],
    ids=["nvidia-smi", "mx-smi", "npu-smi", "npu-smi A3", "rocm-smi", "amd-smi", "amd-smi --json"],
)
def test_pairs_whose_link_the_tool_does_not_know_are_counted(
    layout: Callable[[str], str], devices: str, marks: str
) -> None:
    topology = parse_topology(layout(marks))
    assert topology.links[0][2].direct == topology.links[0][2].pcie == 0
    assert [warning for warning in topology.warnings if "known" in warning] == [
        f"no link is known for 1 of 3 pairs, which count as the slowest: {devices}"
    ]


def test_an_empty_cell_is_counted_as_an_unknown_link() -> None:
    topology = parse_topology(square("", "GPU"))
    assert "no link is known for" in " ".join(topology.warnings)


def test_a_whole_table_has_no_unknown_link() -> None:
    assert parse_topology(TOPO).warnings == ()


def test_pairs_without_a_measured_value_are_counted() -> None:
    text = SPEEDS.replace("11.25", "  N/A").replace("12.50", "  N/A")
    assert parse_topology(text).warnings == ("no value for 1 of 1 pairs (0-1)",)


def test_pairs_that_a_cut_table_lacks_are_counted() -> None:
    topology = parse_topology(SPEEDS[: SPEEDS.index("     1  12.50")])
    assert topology.problems == ("'Unidirectional P2P=Enabled (P2P Writes)' has no row 1",)
    assert topology.warnings == ("no value for 1 of 1 pairs (0-1)",)


def test_published_tables_that_are_whole_have_no_unknown_link(shared: Path) -> None:
    folder = shared / "data" / "topology-text"
    entries = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines()]
    whole = [entry for entry in entries if entry["expect"] == "ok" and "matrix" in entry]
    assert whole
    for entry in whole:
        warnings = parse_topology((folder / entry["file"]).read_text("utf-8")).warnings
        assert not [warning for warning in warnings if "no link is known" in warning], entry["file"]
