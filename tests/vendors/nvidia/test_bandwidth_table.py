"""What p2pBandwidthLatencyTest prints, read: the right matrix, and nothing that was cut; and what both tests share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.vendors.nvidia import nvbandwidth, p2p_test
from linkwise.vendors.readers import clean
from support.builders.tool_texts import nvbandwidth_text, p2p_text
from support.environment import growth
from support.profile import examples

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.topology import Matrix

WRITES = "Unidirectional P2P=Enabled (P2P Writes)"
READS = "Unidirectional P2P=Enabled (P2P Reads)"
STAGED = "Unidirectional P2P=Disabled"
BOTH = "Bidirectional P2P=Enabled"
READ_CE = "device_to_device_memcpy_read_ce"

FAST: Matrix = ((700.0, 41.5, 42.25), (43.75, 701.0, 44.0), (45.5, 46.25, 702.0))
SLOW: Matrix = ((600.0, 11.5, 12.25), (13.75, 601.0, 14.0), (15.5, 16.25, 602.0))
QUICK: Matrix = ((1.5, 2.25, 2.5), (2.75, 1.5, 3.0), (3.25, 3.5, 1.5))
ALL = ((1.0, 1.0, 1.0),) * 3


def truth_of(file: str, shared: Path) -> dict[str, Any]:
    index = (shared / "data/topology-text/INDEX.jsonl").read_text("utf-8").splitlines()
    found: dict[str, Any] = next(line for line in map(json.loads, index) if line["file"] == file)
    return found


def test_unidirectional_writes_with_peer_access_are_preferred() -> None:
    text = p2p_text({"P2P Connectivity": ALL, STAGED: SLOW, READS: SLOW, BOTH: SLOW, WRITES: FAST})
    reading = p2p_test.read(text)
    assert (reading.status, reading.bandwidth, reading.problems) == ("ok", FAST, ())
    assert reading.devices == ("GPU0", "GPU1", "GPU2")
    assert reading.kind == f"p2pBandwidthLatencyTest {WRITES}"


@pytest.mark.parametrize(
    ("matrices", "used"),
    [({STAGED: SLOW, BOTH: FAST}, BOTH), ({STAGED: FAST}, STAGED), ({"Unidirectional P2P=Enabled": FAST}, "")],
)
def test_where_there_are_no_writes_the_next_best_matrix_is_taken_and_named(
    matrices: dict[str, Matrix], used: str
) -> None:
    reading = p2p_test.read(p2p_text(matrices))
    assert (reading.status, reading.bandwidth) == ("ok", FAST)
    assert used in reading.kind


def test_a_device_that_reads_is_the_destination() -> None:
    assert p2p_test.read(p2p_text({READS: FAST})).bandwidth == tuple(zip(*FAST, strict=True))


def test_latency_is_that_with_peer_access_timed_by_the_gpu() -> None:
    text = p2p_text({WRITES: FAST, "P2P=Disabled Latency": SLOW, "P2P=Enabled Latency": QUICK})
    assert p2p_test.read(text).latency == QUICK
    assert p2p_test.sections(text)["P2P=Enabled Latency (P2P Writes) CPU"].whole


def test_enabled_numbers_without_peer_access_are_warned_of() -> None:
    connectivity = ((1.0, 1.0, 0.0), (1.0, 1.0, 1.0), (0.0, 1.0, 1.0))
    reading = p2p_test.read(p2p_text({"P2P Connectivity": connectivity, WRITES: FAST}))
    assert reading.status == "ok"
    assert reading.warnings == ("no peer access between 0-2: their numbers are of copies through the host's memory",)


def test_cannot_access_lines_report_the_same_as_the_connectivity_matrix() -> None:
    reading = p2p_test.read("Device=1 CANNOT Access Peer Device=0\n" + p2p_text({WRITES: FAST}))
    assert "no peer access between 0-1" in reading.warnings[0]


def test_a_matrix_cut_behind_the_preferred_one_does_no_harm() -> None:
    reading = p2p_test.read(p2p_text({WRITES: FAST, "Bidirectional P2P=Disabled": SLOW})[:-30])
    assert (reading.status, reading.bandwidth) == ("ok", FAST)
    assert reading.warnings == ("'Bidirectional P2P=Disabled' is cut and left out",)


def test_a_cut_matrix_is_incomplete_and_its_rows_are_named() -> None:
    text = p2p_text({WRITES: FAST})
    reading = p2p_test.read(text[: text.index("44.00")].rstrip())
    assert (reading.status, reading.bandwidth[1]) == ("incomplete", (43.75, 701.0, 0.0))
    assert reading.problems == (f"row 1 of '{WRITES}' ends after 2 of 3 values", f"'{WRITES}' has no row 2")


def test_a_number_that_the_end_of_the_text_may_have_cut_is_not_believed() -> None:
    text = p2p_text({WRITES: FAST})
    reading = p2p_test.read(text[: text.index("46.25") + 4])
    assert reading.bandwidth[2] == (45.5, 0.0, 0.0)
    assert reading.problems == (f"row 2 of '{WRITES}' ends after 1 of 3 values: '46.2' is not a whole number",)


def test_a_lone_number_without_its_decimals_is_not_believed() -> None:
    text = p2p_text({"Unidirectional P2P=Enabled": ((1.01,),)})
    assert p2p_test.read(text.replace("1.01", "1")).bandwidth == ()


def test_numbers_without_peer_access_do_not_stand_in_for_those_that_were_cut() -> None:
    text = p2p_text({STAGED: SLOW, WRITES: FAST})
    reading = p2p_test.read(text[: text.index("43.75")])
    assert reading.status == "incomplete"
    assert reading.bandwidth[0] == FAST[0]
    assert p2p_test.read(text[: text.index("   D\\D", text.index("Enabled"))]).status == "incomplete"


def test_rows_left_out_by_the_writer_are_missing() -> None:
    lines = p2p_text({WRITES: FAST}).splitlines()
    reading = p2p_test.read("\n".join([*lines[:4], "[...]", *lines[5:], ""]))
    assert (reading.status, reading.problems) == ("incomplete", (f"'{WRITES}' has no row 1",))
    assert (reading.bandwidth[0], reading.bandwidth[2]) == (FAST[0], FAST[2])


def test_a_row_with_too_many_values_is_not_believed() -> None:
    reading = p2p_test.read(p2p_text({WRITES: FAST}).replace("44.00", "44.00  9.00"))
    assert (reading.status, reading.bandwidth[1]) == ("incomplete", (0.0, 0.0, 0.0))


def test_a_quoted_text_without_a_number_on_the_diagonal_is_read() -> None:
    text = "# Bidirectional P2P=Enabled Matrix (GB/s)\n#  D\\D  0  1\n#  0  —  102.00\n#  1  101  —\n"
    assert p2p_test.read(text).bandwidth == ((0.0, 102.0), (101.0, 0.0))


def test_the_listed_devices_are_facts() -> None:
    (fact, _) = p2p_test.read(p2p_text({WRITES: FAST}, ["Model A", "Model B"])).facts
    assert (fact.name, fact.model, fact.bus_id) == ("GPU0", "Model A", "00000000:10:00.0")


def test_a_failed_run_is_an_error_and_a_run_without_bandwidth_has_no_matrix() -> None:
    start = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
    failed = p2p_test.read(start + "Cuda failure p2p.cu:42: 'out of memory'\n")
    assert (failed.status, failed.problems) == ("error", ("Cuda failure p2p.cu:42: 'out of memory'",))
    assert p2p_test.read(start + p2p_text({"P2P Connectivity": ALL})).status == "no matrix"


def test_each_reader_knows_its_own_texts() -> None:
    p2p, nvb = p2p_test.READERS[0].recognises, nvbandwidth.READERS[0].recognises
    texts = (
        p2p_text({WRITES: FAST}),
        nvbandwidth_text({READ_CE: ("->", FAST)}),
        "$ ls\nnvbandwidth  p2pBandwidthLatencyTest\n",
    )
    assert [(p2p(text), nvb(text)) for text in texts] == [(True, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    "line", ["0 1 2 3\n", "Running x.\n", "=" * 400 + "\n", "9" * 400, " \t", "P2P=Enabled ", "Device: 0, "]
)
def test_megabytes_of_anything_are_read_line_by_line(line: str) -> None:
    def read(size: int) -> None:
        text = p2p_text({WRITES: FAST})[:-40] + line * (size // len(line))
        p2p_test.read(text)
        nvbandwidth.read(text)

    assert growth(read, examples(3_000_000)) < 40


KEYS = {
    "connectivity": ("P2P Connectivity",),
    "uni_p2p_disabled": (STAGED,),
    "uni_p2p_enabled": (WRITES, "Unidirectional P2P=Enabled"),
    "uni_p2p_enabled_reads": (READS,),
    "bi_p2p_disabled": ("Bidirectional P2P=Disabled",),
    "bi_p2p_enabled": (BOTH,),
    "latency_gpu_p2p_enabled": ("P2P=Enabled Latency (P2P Writes) GPU", "P2P=Enabled Latency GPU"),
}


@pytest.mark.parametrize(
    "file", ["01_4x_rtx6000ada_full.txt", "03_a100_8gpu_uni_enabled.txt", "07_6gpu_p2p_slower_than_staged.txt"]
)
def test_published_outputs_of_p2p_are_read_as_people_read_them(file: str, shared: Path) -> None:
    text = clean((shared / "data/topology-text/p2p" / file).read_text("utf-8"))
    truth, found, reading = truth_of(f"p2p/{file}", shared), p2p_test.sections(text), p2p_test.read(text)
    for name, rows in truth["matrices"].items():
        section = next(found[key] for key in KEYS[name] if key in found)
        assert section.whole
        assert section.matrix() == tuple(map(tuple, rows)), name
    assert (reading.status, len(reading.devices)) == (truth["expect"], truth["n_gpus"])
    assert reading.bandwidth == tuple(map(tuple, truth["matrices"]["uni_p2p_enabled"]))
    assert reading.latency == tuple(map(tuple, truth["matrices"].get("latency_gpu_p2p_enabled", ())))


def test_every_published_output_is_covered(shared: Path) -> None:
    readers = (*p2p_test.READERS, *nvbandwidth.READERS)
    for path in sorted((shared / "data/topology-text/p2p").glob("*.txt")):
        text = clean(path.read_text("utf-8"))
        truth = truth_of(f"p2p/{path.name}", shared)
        (reader,) = (reader for reader in readers if reader.recognises(text))
        assert (reader.kind == "nvbandwidth") == (truth.get("tool") == "nvbandwidth")
        assert reader.read(text).status == truth["expect"]


def test_an_error_line_between_the_rows_is_a_warning_and_the_table_is_whole() -> None:
    lines = p2p_text({WRITES: FAST}).split("\n")
    lines.insert(4, "Cuda failure: peer access is not supported")
    reading = p2p_test.read("\n".join(lines))
    assert (reading.status, reading.bandwidth) == ("ok", FAST)
    assert reading.warnings == ("line 5: Cuda failure: peer access is not supported",)


def test_a_row_that_an_error_line_divides_ends_the_table() -> None:
    text = p2p_text({WRITES: FAST})
    place = text.index("41.50") + 3
    reading = p2p_test.read(f"{text[:place]}\nCuda failure\n{text[place:]}")
    assert reading.status == "incomplete"
    assert reading.bandwidth == ((700.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
