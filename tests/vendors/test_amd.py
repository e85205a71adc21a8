"""Tables of rocm-smi and amd-smi, read: links by device name, and PCIe paths distinguished by weight and hops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.vendors.amd.vendor import READERS, read_amd_smi, read_rocm_smi, tables
from linkwise.vendors.readers import clean
from support.builders.tool_texts import amd_smi_text, rocm_smi_text
from support.environment import growth
from support.profile import examples

if TYPE_CHECKING:
    from pathlib import Path

NEAR, BETWEEN, FAR = (Link("PCIE", pcie=path) for path in (Pcie.PHB, Pcie.NODE, Pcie.SYS))
XGMI = Link("XGMI")
BUS = ("0000:0a:00.0", "0000:2b:00.0")


def cells(text: str) -> list[list[str]]:
    return [row.split() for row in text.split("; ")]


PCIE3 = cells("0 PCIE PCIE; PCIE 0 PCIE; PCIE PCIE 0")


def test_links_are_read_by_name_and_numa_nodes_are_facts() -> None:
    text = rocm_smi_text({"Link Type": cells("0 XGMI; XGMI 0")}, numa=[3, 1])
    reading = read_rocm_smi(text)
    assert (reading.status, reading.devices) == ("ok", ("GPU0", "GPU1"))
    assert reading.links == ((SELF, XGMI), (XGMI, SELF))
    assert [fact.numa for fact in reading.facts] == ["3", "1"]
    assert read_rocm_smi(text.replace("GPU[0]", "GPU 0").replace("GPU[1]", "GPU 1")) == reading


def test_weight_distinguishes_near_from_far_pcie_paths() -> None:
    weight = cells("0 32 48; 32 0 64; 48 64 0")
    reading = read_rocm_smi(rocm_smi_text({"Weight": weight, "Link Type": PCIE3}))
    assert reading.links == ((SELF, NEAR, BETWEEN), (NEAR, SELF, FAR), (BETWEEN, FAR, SELF))


def test_hops_distinguish_paths_of_equal_weight() -> None:
    tables_ = {"Weight": cells("0 32 32; 32 0 32; 32 32 0"), "Hops": cells("0 2 3; 2 0 3; 3 3 0"), "Link Type": PCIE3}
    assert read_rocm_smi(rocm_smi_text(tables_)).links[0] == (SELF, NEAR, FAR)


@pytest.mark.parametrize(("hops", "link"), [("2", NEAR), ("3", FAR)])
def test_paths_that_are_all_alike_are_graded_by_hops(hops: str, link: Link) -> None:
    found = {"Hops": cells(f"0 {hops}; {hops} 0"), "Link Type": cells("0 PCIE; PCIE 0")}
    assert read_rocm_smi(rocm_smi_text(found)).links[0][1] == link


def test_only_pcie_pairs_count_for_the_grades() -> None:
    types = cells("0 XGMI PCIE; XGMI 0 PCIE; PCIE PCIE 0")
    found = {"Weight": cells("0 15 72; 15 0 72; 72 72 0"), "Hops": cells("0 1 3; 1 0 3; 3 3 0"), "Link Type": types}
    assert read_rocm_smi(rocm_smi_text(found)).links[0] == (SELF, XGMI, FAR)


def test_what_the_tool_does_not_know_is_unknown_and_a_new_code_is_kept() -> None:
    reading = read_rocm_smi(rocm_smi_text({"Link Type": cells("0 XXXX NEWX; XXXX 0 XGMI; NEWX XGMI 0")}))
    assert reading.links[0] == (SELF, UNKNOWN_LINK, Link("NEWX"))


def test_a_weight_table_may_hold_link_types_between_error_lines() -> None:
    lines = rocm_smi_text({"Weight": cells("0 XGMI; XGMI 0")}).split("\n")
    error = "ERROR: 2 GPU[0]: rsmi_topo_get_link_weight: Not supported"
    reading = read_rocm_smi("\n".join([*lines[:2], error, *lines[2:4], error, *lines[4:]]))
    assert (reading.status, reading.links[0]) == ("ok", (SELF, XGMI))
    assert reading.warnings == (
        "the table titled 'Weight' holds link types",
        "lines 3, 6: ERROR: 2 GPU0: rsmi_topo_get_link_weight: Not supported",
    )


def test_messages_without_the_word_error_leave_the_table_whole_and_are_warned_of_by_line() -> None:
    lines = rocm_smi_text({"Weight": PCIE3, "Link Type": PCIE3}).split("\n")
    lines[2:2] = [
        "get_link_weight_topology, Not supported on the given system",
        "ERROR: GPU[1]\t\t: Cannot read Link Weight: Not supported on this machine",
    ]
    lines.insert(6, "rsmi_topo_get_link_weight returned 2")
    reading = read_rocm_smi("\n".join(lines))
    assert (reading.status, reading.problems) == ("ok", ())
    assert [warning.partition(":")[0] for warning in reading.warnings] == ["line 3", "line 4", "line 7"]


def test_amd_smi_tables_survive_error_lines() -> None:
    lines = amd_smi_text(BUS, {"LINK TYPE": cells("SELF XGMI; XGMI SELF")}).split("\n")
    lines.insert(2, f"{BUS[1]} ERROR AMDSMI_STATUS_NOT_SUPPORTED")
    reading = read_amd_smi("\n".join(lines))
    assert (reading.status, reading.links) == ("ok", ((SELF, XGMI), (XGMI, SELF)))
    assert reading.warnings == (f"line 3: {BUS[1]} ERROR AMDSMI_STATUS_NOT_SUPPORTED",)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("GPU0         0            15", "GPU0         0            1\nERROR\n5", "'Weight' has no row GPU0"),
        ("GPU0         0            15", "GPU0         0            1ERROR", "'Weight' has no row GPU0"),
        ("             GPU0         GPU1", "GPU0\nERROR\nGPU1", "the rows of 'Weight' can't be read"),
        ("Weight between", "Weiget_link_weight: failed\nght between", "a table lost its title and is not read"),
    ],
)
def test_a_table_that_a_message_tore_apart_is_incomplete(before: str, after: str, problem: str) -> None:
    text = rocm_smi_text({"Weight": cells("0 15; 15 0"), "Link Type": cells("0 PCIE; PCIE 0")})
    reading = read_rocm_smi(text.replace(before, after, 1))
    assert (reading.status, reading.problems) == ("incomplete", (problem,))
    assert reading.links == ((SELF, Link("PCIE")), (Link("PCIE"), SELF))


def test_links_that_differ_by_direction_are_warned_of() -> None:
    reading = read_rocm_smi(rocm_smi_text({"Link Type": cells("0 XGMI; PCIE 0")}))
    assert reading.warnings == ("links differ by direction: GPU0-GPU1",)


def test_a_cut_table_is_incomplete_and_its_paths_are_not_graded() -> None:
    text = rocm_smi_text({"Weight": cells("0 32 48; 32 0 64; 48 64 0"), "Link Type": PCIE3})
    reading = read_rocm_smi(text[: text.rindex("GPU2 ") + 14])
    assert (reading.status, reading.problems) == ("incomplete", ("'Link Type' has no row GPU2",))
    assert reading.links[0] == (SELF, Link("PCIE"), Link("PCIE"))
    assert reading.links[2] == (UNKNOWN_LINK, UNKNOWN_LINK, SELF)


def test_without_link_types_nothing_is_known_of_the_links() -> None:
    reading = read_rocm_smi(rocm_smi_text({"Weight": cells("0 15; 15 0")}))
    assert (reading.status, reading.problems) == ("incomplete", ("the text has no table of link types",))
    assert reading.links == ((SELF, UNKNOWN_LINK), (UNKNOWN_LINK, SELF))


def test_numa_lines_alone_are_no_matrix_and_an_error_is_an_error() -> None:
    assert read_rocm_smi(rocm_smi_text({}, numa=[0])).status == "no matrix"
    failed = read_rocm_smi("== Link Type between two GPUs ==\nERROR: No AMD GPUs specified\n")
    assert (failed.status, failed.problems) == ("error", ("ERROR: No AMD GPUs specified",))


def test_amd_smi_names_devices_by_bus_and_itself_in_three_ways() -> None:
    text = amd_smi_text(
        BUS,
        {
            "ACCESS": cells("ENABLED DISABLED; DISABLED ENABLED"),
            "WEIGHT": cells("0 40; 40 0"),
            "HOPS": cells("0 2; 2 0"),
            "LINK TYPE": cells("SELF PCIE; PCIE SELF"),
            "NUMA BW": cells("N/A 100-200; 100-200 N/A"),
        },
    )
    reading = read_amd_smi(text)
    assert (reading.status, reading.devices) == ("ok", BUS)
    assert reading.links == ((SELF, NEAR), (NEAR, SELF))
    assert [fact.bus_id for fact in reading.facts] == list(BUS)
    assert reading.warnings == (f"no peer access between {BUS[0]}-{BUS[1]}",)


def test_each_reader_knows_its_own_texts() -> None:
    texts = (
        rocm_smi_text({"Link Type": cells("0")}),
        amd_smi_text(BUS[:1], {"LINK TYPE": cells("SELF")}),
        "=== ROCm System Management Interface ===\nGPU  Temp  Power\n0  40c  30W\n",
    )
    known = [[reader.recognises(text) for reader in READERS] for text in texts]
    assert known == [[True, False], [False, True], [False, False]]


@pytest.mark.parametrize(
    "line", ["=" * 900, "GPU0 ", "GPU0 0\n", "- a ", "ERROR\n", "\n", "GPU[1] : (Topology) Numa Node: 1\n"]
)
def test_megabytes_of_anything_are_read_line_by_line(line: str) -> None:
    def read(size: int) -> None:
        text = rocm_smi_text({"Link Type": cells("0 XGMI; XGMI 0")})[:-200] + line * (size // len(line))
        for reader in READERS:
            reader.read(text)

    assert growth(read, examples(3_000_000)) < 40


def test_published_outputs_are_read_as_people_read_them(shared: Path) -> None:
    folder = shared / "data/topology-text"
    index = map(json.loads, (folder / "INDEX.jsonl").read_text("utf-8").splitlines())
    for truth in (line for line in index if line["kind"] == "rocm_topo"):
        text = clean((folder / truth["file"]).read_text("utf-8"))
        found, reading = tables(text.split("\n")), read_rocm_smi(text)
        for title in ("weight", "hops", "link_type"):
            rows = found[title.replace("_", " ")].rows
            assert [list(rows[name]) for name in truth["gpus"]] == truth[title]
        assert (reading.status, list(reading.devices)) == (truth["expect"], truth["gpus"])
        assert [fact.numa for fact in reading.facts] == list(map(str, truth["numa"]))
        printed = [["X" if i == j else cell for j, cell in enumerate(row)] for i, row in enumerate(truth["link_type"])]
        assert list(map(list, reading.links)) == printed


def test_near_and_far_pairs_of_a_published_pcie_machine_differ(shared: Path) -> None:
    text = (shared / "data/topology-text/amd/05_mi100_4gpu_pcie_72_40.txt").read_text("utf-8")
    assert read_rocm_smi(clean(text)).links[0] == (SELF, FAR, NEAR, FAR)
