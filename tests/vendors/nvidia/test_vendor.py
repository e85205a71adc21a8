"""`nvidia-smi topo` as users and vendors publish it: one text, made up for the purpose, per quirk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.model.link import Pcie
from linkwise.vendors.nvidia.vendor import READERS
from linkwise.vendors.readers import clean

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.vendors.reader import Reading

FOUR = """\
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity
GPU0     X      NV12    PXB     SYS     0-15    0
GPU1    NV12     X      PXB     SYS     0-15    0
GPU2    PXB     PXB      X      NODE    0-15    0
GPU3    SYS     SYS     NODE     X      16-31   1
"""
FOUR_LINKS = (
    ("X", "NV12", "PXB", "SYS"),
    ("NV12", "X", "PXB", "SYS"),
    ("PXB", "PXB", "X", "NODE"),
    ("SYS", "SYS", "NODE", "X"),
)


def read(text: str) -> Reading:
    plain = clean(text)
    readers = [reader for reader in READERS if reader.recognises(plain)]
    assert len(readers) == 1, [reader.kind for reader in readers]
    return readers[0].read(plain)


def cpus(reading: Reading) -> list[str | None]:
    return [facts.cpus for facts in reading.facts]


def numa(reading: Reading) -> list[str | None]:
    return [facts.numa for facts in reading.facts]


@pytest.mark.rule("000.links")
def test_every_kind_of_link_keeps_its_code_and_its_meaning() -> None:
    reading = read(FOUR)
    assert (reading.kind, reading.status) == ("nvidia-smi topo -m", "ok")
    assert reading.devices == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert reading.links == FOUR_LINKS
    assert reading.links[0][1].direct == 12
    assert [link.pcie for link in reading.links[3][:3]] == [Pcie.SYS, Pcie.SYS, Pcie.NODE]


@pytest.mark.rule("000.nvswitch")
def test_a_switched_machine_has_eighteen_links_between_all_pairs() -> None:
    names = [f"GPU{i}" for i in range(8)]
    rows = "".join("\t".join([a, *(" X " if a == b else "NV18" for b in names), "0-9"]) + "\n" for a in names)
    reading = read("\t\x1b[4m" + "\t".join([*names, "CPU Affinity"]) + "\x1b[0m\n" + rows)
    assert reading.status == "ok"
    assert {link.direct for i, row in enumerate(reading.links) for j, link in enumerate(row) if i != j} == {18}
    assert reading.warnings == ()


def test_escapes_an_empty_column_and_empty_cells_keep_their_place() -> None:
    reading = read(
        "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV6\t0-7\t0\t\tN/A\n"
        "GPU1\tNV6\t X \t\t8\t\tN/A\n"
    )
    assert reading.status == "ok"
    assert cpus(reading) == ["0-7", ""]
    assert numa(reading) == ["0", "8"]


def test_doubled_tabs_and_tabs_among_blanks_are_one_separator() -> None:
    doubled = "\t\tGPU0\t\tGPU1\t\tCPU Affinity\nGPU0\t\t X \t\tNV2\t\t0-3\nGPU1\t\tNV2\t\t X \t\t4-7\n"
    mixed = "\t GPU0 \tGPU1  CPU Affinity\nGPU0 \t X  \t NV2   0-3\nGPU1\tNV2 \t X \t4-7\n"
    for text in (doubled, mixed):
        reading = read(text)
        assert reading.status == "ok"
        assert reading.links == (("X", "NV2"), ("NV2", "X"))
        assert cpus(reading) == ["0-3", "4-7"]


def test_without_tabs_an_empty_cell_makes_the_affinity_uncertain() -> None:
    reading = read("GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X PHB 0-3 0\nGPU1 PHB X 1\n")
    assert reading.status == "ok"
    assert cpus(reading) == ["0-3", None]
    assert numa(reading) == ["0", None]
    assert reading.warnings == ("the affinity of GPU1 is not certain: a cell is empty or odd",)


def test_affinities_are_lists_of_ranges_or_absent() -> None:
    reading = read(
        "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tSYS\tSYS\t0-3,8-11\t0-1\nGPU1\tSYS\t X \tSYS\tN/A\t0,3-5\nGPU2\tSYS\tSYS\t X \tsome\t8\n"
    )
    assert cpus(reading) == ["0-3,8-11", "N/A", None]
    assert numa(reading) == ["0-1", "0,3-5", "8"]


@pytest.mark.parametrize("header", ["GPU0 CPU Affinity NUMA Affinity", "\tGPU0\tCPU Affinity\tNUMA Affinity", "GPU0"])
def test_a_header_that_begins_like_a_row_is_no_row(header: str) -> None:
    reading = read(f"{header}\nGPU0\t X \t0-3\t0\n")
    assert (reading.status, reading.devices, reading.links) == ("ok", ("GPU0",), (("X",),))


def test_glued_names_and_cells_are_taken_apart() -> None:
    reading = read(
        "GPU0GPU1GPU2NIC8NIC9CPU Affinity\n"
        "GPU0 X NODENODE PXB NODE 0-3\nGPU1 NODEX PIX NODEPXB 0-3\nGPU2 NODE PIXX SYSSYS 0-3\n"
    )
    assert reading.status == "ok"
    assert reading.links == (("X", "NODE", "NODE"), ("NODE", "X", "PIX"), ("NODE", "PIX", "X"))
    assert reading.nics == ("NIC8", "NIC9")
    assert cpus(reading) == ["0-3"] * 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("➜ nvidia-smi topo -m\n", ""),
        ("```\n[root@a1 ~]# nvidia-smi topo --matrix\n", "```\n"),
        ("index, name\n0, Some Device\nGPU 1: Some Device (UUID: GPU-1)\n## GPU0 and GPU1\n", "\nGPU0 is fast\n"),
        ("* GPU0 GPU1 GPU2 GPU3 CPU Affinity\n", ""),
        ("CUDA_VISIBLE_DEVICES=0,1 GPU0\nTopology: ", "done\n"),
    ],
)
def test_text_around_the_table_is_ignored(before: str, after: str) -> None:
    reading = read(before + FOUR + after)
    assert (reading.status, reading.links, reading.warnings) == ("ok", FOUR_LINKS, ())


@pytest.mark.parametrize("mark", ["# ", "> ", "    ", "#", "| ", "- "])
def test_a_prefix_on_every_line_is_ignored(mark: str) -> None:
    reading = read("".join(f"{mark}{line}{' ' * 100}\n" for line in FOUR.splitlines()))
    assert (reading.status, reading.links) == ("ok", FOUR_LINKS)


def test_the_first_of_two_tables_counts() -> None:
    other = FOUR.replace("NODE", "PIX ")
    for between in ("\nLegend:\n\n", "\n", "  X    = Self\n"):
        reading = read(FOUR + between + other)
        assert (reading.status, reading.links) == ("ok", FOUR_LINKS)
        assert reading.warnings == ("the text has more tables: the first is used",)


def test_a_peer_table_behind_the_links_is_left_alone() -> None:
    peers = "nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n  OK = Status Ok\n"
    assert read(FOUR + "\n" + peers).links == FOUR_LINKS
    assert read(peers + FOUR).links == FOUR_LINKS


def test_peer_access_is_no_matrix_and_keeps_its_words() -> None:
    reading = read("$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n")
    assert (reading.kind, reading.status, reading.links) == ("nvidia-smi topo -p2p", "no matrix", ())
    assert reading.devices == ("GPU0", "GPU1")
    assert reading.warnings == ("peer access of GPU0: X CNS", "peer access of GPU1: CNS X")


@pytest.mark.parametrize("wording", ["  X    = Self\n", "Legend:\n\n    X   = Self\n    SOC = Path", "# X    = Self"])
def test_a_legend_is_no_row(wording: str) -> None:
    assert read(FOUR + wording).links == FOUR_LINKS


def test_nics_are_apart_from_the_devices_whatever_their_order_and_end() -> None:
    reading = read(
        "\tGPU0\tGPU1\tmlx5_0\tmlx5_2\tmlx5_1\tCPU Affinity\n"
        "GPU0\t X \tSOC\tPIX\tSOC\tSOC\t0-3\nGPU1\tSOC\t X \tSOC\tPIX\tPHB\t4-7\n"
        "mlx5_0\tPIX\tSOC\t X \tSOC\tSOC\nmlx5_2\tSOC\tPIX\tSOC\t X \tPHB\t\t\nmlx5_1\tSOC\tP"
    )
    assert reading.status == "ok"
    assert reading.links == (("X", "SYS"), ("SYS", "X"))
    assert reading.nics == ("mlx5_0", "mlx5_2", "mlx5_1")
    assert [facts.nics for facts in reading.facts] == [("mlx5_0",), ("mlx5_2",)]
    assert cpus(reading) == ["0-3", "4-7"]


def test_a_row_that_is_cut_among_its_nics_is_whole() -> None:
    reading = read("\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV4\tPIX\tSYS\t0-3\nGPU1\tNV4\t X \tPI")
    assert (reading.status, reading.links) == ("ok", (("X", "NV4"), ("NV4", "X")))
    assert cpus(reading) == ["0-3", None]


def test_missing_rows_are_named() -> None:
    reading = read("\n".join(FOUR.splitlines()[:3]))
    assert (reading.status, reading.devices) == ("incomplete", ("GPU0", "GPU1", "GPU2", "GPU3"))
    assert reading.problems == ("row GPU2 is missing", "row GPU3 is missing")
    assert reading.links[1] == FOUR_LINKS[1]
    assert reading.links[2] == ("?", "?", "X", "?")


def test_a_row_that_ends_early_is_named() -> None:
    reading = read(FOUR.replace("PXB     PXB      X      NODE    0-15    0", "PXB     PXB"))
    assert reading.problems == ("row GPU2 ends after 2 of 4 cells",)
    assert reading.links[2] == ("PXB", "PXB", "X", "?")


@pytest.mark.parametrize(("last", "cell"), [("NV12", "NV12"), ("NV1", "?"), ("NV", "?"), ("N", "?")])
def test_a_cut_cell_is_not_another_kind_of_link(last: str, cell: str) -> None:
    reading = read(f"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-3\nGPU1\t{last}")
    assert reading.status == "incomplete"
    assert reading.links[1][0] == cell


def test_a_truncated_range_is_ignored() -> None:
    reading = read("GPU0 GPU1 CPU Affinity\nGPU0 X SYS 0-23,48-71\nGPU1 SYS X 0-23,4")
    assert (reading.status, cpus(reading)) == ("ok", ["0-23,48-71", None])


def test_without_its_header_a_table_is_read_by_where_the_x_stand() -> None:
    reading = read("\n".join(FOUR.splitlines()[1:]))
    assert (reading.status, reading.problems) == ("incomplete", ("the header is missing",))
    assert reading.links == FOUR_LINKS


def test_a_header_that_lost_its_first_names_does_not_shift_the_columns() -> None:
    reading = read(FOUR[FOUR.index("PU1") :])
    assert reading.status == "incomplete"
    assert reading.links == FOUR_LINKS


def test_a_row_whose_x_stands_elsewhere_reports_nothing() -> None:
    reading = read(FOUR.replace("GPU1    NV12     X      PXB ", "GPU1    NV12    PXB      X  "))
    assert reading.problems == ("row GPU1 does not fit its columns",)
    assert reading.links[1] == ("?", "X", "?", "?")


@pytest.mark.parametrize(
    "text",
    [
        "ERROR: Option -m is missing its value. Run help.",
        "$ nvidia-smi topo -m\nNVIDIA-SMI has failed because it couldn't reach the driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "bash: nvidia-smi: command not found",
        "No devices were found",
    ],
)
def test_an_error_instead_of_a_table_is_an_error(text: str) -> None:
    reading = read(f"{text}\n\n# (exit code: 255)\n")
    assert (reading.status, reading.problems) == ("error", (text.splitlines()[-1],))


def test_a_command_without_its_output_is_no_matrix() -> None:
    reading = read("$ nvidia-smi topo -m\n")
    assert (reading.status, reading.problems) == ("no matrix", ("the text has no table of GPUs",))


def test_a_header_without_rows_is_incomplete() -> None:
    reading = read("\tGPU0\tGPU1\tCPU Affinity\tNUMA")
    assert reading.problems == ("row GPU0 is missing", "row GPU1 is missing")


@pytest.mark.parametrize("text", ["$ nvidia-smi topo -mp\n" + FOUR, FOUR + "\n(that was topo -mp)\n"])
def test_mp_hides_nvlink_and_says_so(text: str) -> None:
    reading = read(text.replace("NV12", "PIX "))
    assert (reading.kind, reading.status) == ("nvidia-smi topo -mp", "ok")
    assert reading.warnings[0].startswith("NVLink is not shown by -mp")


def test_m_before_mp_is_read_with_its_nvlinks() -> None:
    reading = read(f"$ nvidia-smi topo -m\n{FOUR}\n$ nvidia-smi topo -mp\n{FOUR.replace('NV12', 'PIX ')}")
    assert (reading.kind, reading.links) == ("nvidia-smi topo -m", FOUR_LINKS)


def test_an_unknown_code_stays_as_it_is() -> None:
    reading = read("GPU0 GPU1 CPU Affinity\nGPU0 X C2C 0\nGPU1 C2C X 0\n")
    assert (reading.status, reading.links) == ("ok", (("X", "C2C"), ("C2C", "X")))
    assert (reading.links[0][1].direct, reading.links[0][1].pcie) == (0, Pcie.UNKNOWN)


def test_names_count_and_not_the_order_of_the_rows() -> None:
    lines = FOUR.splitlines()
    assert read("\n".join([lines[0], *reversed(lines[1:])])).links == FOUR_LINKS


def test_more_devices_than_a_machine_has_are_an_error() -> None:
    names = [f"GPU{i}" for i in range(65)]
    reading = read(" ".join(names) + "\nGPU0 X\n")
    assert (reading.status, reading.problems) == ("error", ("65 devices: a machine has at most 64",))


def test_escapes_prefix_glue_and_a_cut_at_once() -> None:
    reading = read("> \t\x1b[4mGPU0GPU1GPU2\x1b[0m\n> GPU0\t X \tNV12NV12\n> GPU1\tNV12\t X \tNV12\n> GPU2\tNV12NV1")
    assert reading.problems == ("row GPU2 ends after 1 of 3 cells",)
    assert reading.links == (("X", "NV12", "NV12"), ("NV12", "X", "NV12"), ("NV12", "?", "X"))


@pytest.mark.parametrize("text", ["", "hello", "GPU0 GPU1", "GPU[0] : X", "GPU0 0 XGMI\nGPU1 XGMI 0", "NPU0 X HCCS"])
def test_texts_of_others_are_not_ours(text: str) -> None:
    assert not any(reader.recognises(text) for reader in READERS)


def test_published_texts_read_as_people_read_them(shared: Path) -> None:
    folder = shared / "data/topology-text"
    entries = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines()]
    ours = [entry for entry in entries if entry["kind"] == "topo_m"]
    assert ours
    for entry in ours:
        reading = read((folder / entry["file"]).read_text("utf-8"))
        codes = [[*map(str, row)] for row in reading.links]
        rows = entry["matrix"] or entry.get("matrix_rows") or []
        assert (reading.status, [*reading.devices]) == (entry["expect"], entry["gpus"]), entry["file"]
        assert codes[: len(rows)] == [[cell.replace("SOC", "SYS") for cell in row] for row in rows], entry["file"]
        assert [*reading.nics] == entry.get("nics", [*reading.nics]), entry["file"]
        assert cpus(reading) == entry.get("cpu_affinity", cpus(reading)), entry["file"]
        assert numa(reading) == entry.get("numa_affinity", numa(reading)), entry["file"]


def test_a_last_row_that_lost_its_cells_and_its_column_is_missed() -> None:
    reading = read("\tGPU0\nGPU0\tX\nGPU10\t")
    assert (reading.status, reading.devices) == ("incomplete", ("GPU0",))
    assert reading.problems == ("the text ends with GPU10, which the header lacks",)
