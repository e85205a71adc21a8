"""Over generated matrices: what is written is read back, and a text cut anywhere never gives a wrong value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from linkwise.model.link import SELF, UNKNOWN_LINK, Link, Pcie
from linkwise.vendors.amd import vendor as amd
from linkwise.vendors.nvidia import nvbandwidth, p2p_test
from linkwise.vendors.readers import clean
from support.builders.tool_texts import (
    P2P_TITLES,
    amd_smi_text,
    nvbandwidth_text,
    p2p_text,
    rocm_smi_text,
)
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.model.topology import Matrix
    from linkwise.vendors.reader import Reading

READERS = (*p2p_test.READERS, *nvbandwidth.READERS, *amd.READERS)
STATUSES = {"ok", "incomplete", "error", "no matrix"}
READ, WRITE = "device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"
VALUES = st.integers(1, 300_000).map(lambda cents: cents / 100)
CODES = st.sampled_from(["XGMI", "PCIE", "XXXX"])
PIECES = st.sampled_from(
    [
        *(
            "P2P=Enabled Bandwidth Matrix",
            "Unidirectional ",
            "Bidirectional ",
            "D\\D",
            " 0 1",
            "0",
            "1.5",
            "N/A",
            "\n0 ",
        ),
        *("GPU(row) -> GPU(column) bandwidth (GB/s)", "Running x.", "SUM x 1.00", "\n", "\t", "…", "٣", "[...]", "GPU"),
        *("Link Type", " between two GPUs", "LINK TYPE TABLE:\n", "WEIGHT TABLE:\n", "0000:0a:00.0 ", "GPU0 ", "XGMI "),
        *("GPU[1] : ", "(Topology) Numa Node: "),
    ]
)


@st.composite
def matrices(draw: st.DrawFn, most: int = 12) -> Matrix:
    size = draw(st.integers(1, most))
    return tuple(draw(st.tuples(*[VALUES] * size)) for _ in range(size))


@st.composite
def link_tables(draw: st.DrawFn, most: int = 12) -> dict[str, list[list[str]]]:
    size = range(draw(st.integers(1, most)))
    weights = st.integers(1, 200).map(str)
    return {
        title: [["0" if i == j else draw(kind) for j in size] for i in size]
        for title, kind in (("Weight", weights), ("Hops", st.integers(1, 4).map(str)), ("Link Type", CODES))
    }


def turned(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def cut(draw: st.DataObject, text: str) -> str:
    return clean(text[: draw.draw(st.integers(0, len(text)), label="cut")])


def check_values(reading: Reading, full: Matrix) -> None:
    """Every value is right or 0, and all of them are right when the reading says so."""
    assert reading.status in STATUSES
    if reading.bandwidth:
        pairs = [
            (got, want)
            for row, whole in zip(reading.bandwidth, full, strict=True)
            for got, want in zip(row, whole, strict=True)
        ]
        assert all(got in {want, 0.0} for got, want in pairs)
    if reading.status == "ok":
        assert reading.bandwidth == full
    assert bool(reading.problems) == (reading.status != "ok")


@settings(deadline=None)
@given(st.sampled_from(sorted(key for key in P2P_TITLES if "directional" in key)), matrices())
def test_what_p2p_prints_is_read_back(key: str, matrix: Matrix) -> None:
    reading = p2p_test.read(clean(p2p_text({key: matrix})))
    assert (reading.status, reading.kind) == ("ok", f"p2pBandwidthLatencyTest {key}")
    assert reading.bandwidth == (turned(matrix) if "Reads" in key else matrix)


@settings(deadline=None, max_examples=examples(300))
@given(matrices(), st.data())
def test_a_p2p_text_cut_anywhere_gives_no_wrong_value(matrix: Matrix, data: st.DataObject) -> None:
    keys = data.draw(st.permutations(sorted(P2P_TITLES)), label="order")
    full = {key: tuple(tuple(cell + shift for cell in row) for row in matrix) for shift, key in enumerate(keys)}
    full["P2P Connectivity"] = tuple((1.0,) * len(matrix) for _ in matrix)
    reading = p2p_test.read(cut(data, p2p_text({key: full[key] for key in keys}, ["Model"] * len(matrix))))
    key = reading.kind.removeprefix("p2pBandwidthLatencyTest").strip()
    rounded = {key: tuple(tuple(round(cell, 2) for cell in row) for row in rows) for key, rows in full.items()}
    check_values(reading, turned(rounded[key]) if "Reads" in key else rounded.get(key, ()))
    assert reading.latency in {(), rounded["P2P=Enabled Latency"]}


@settings(deadline=None)
@given(arrow=st.sampled_from(["->", "<-", "<->"]), matrix=matrices(), bare=st.booleans())
def test_what_nvbandwidth_prints_is_read_back(arrow: str, matrix: Matrix, *, bare: bool) -> None:
    rows = [[None if bare and i == j else cell for j, cell in enumerate(row)] for i, row in enumerate(matrix)]
    reading = nvbandwidth.read(clean(nvbandwidth_text({READ: (arrow, rows)})))
    kept = tuple(tuple(cell or 0.0 for cell in row) for row in rows)
    assert (reading.status, reading.bandwidth) == ("ok", turned(kept) if arrow == "<-" else kept)
    assert not any("sum up" in warning for warning in reading.warnings)


@settings(deadline=None, max_examples=examples(300))
@given(matrices(), st.data())
def test_an_nvbandwidth_text_cut_anywhere_gives_no_wrong_value(matrix: Matrix, data: st.DataObject) -> None:
    other = tuple(tuple(round(cell + 1, 2) for cell in row) for row in matrix)
    host = ("->", [matrix[0]])
    text = nvbandwidth_text({"host_to_device_memcpy_ce": host, READ: ("->", matrix), WRITE: ("<-", other)})
    reading = nvbandwidth.read(cut(data, text))
    check_values(reading, turned(other) if WRITE in reading.kind else matrix)


@settings(deadline=None, max_examples=examples(300))
@given(written=link_tables(), data=st.data(), by_bus=st.booleans())
def test_amd_tables_cut_anywhere_give_no_wrong_link(
    written: dict[str, list[list[str]]], data: st.DataObject, *, by_bus: bool
) -> None:
    codes = written["Link Type"]
    if by_bus:
        names = [f"0000:{number + 10:02x}:00.0" for number in range(len(codes))]
        text, read = amd_smi_text(names, {title.upper(): rows for title, rows in written.items()}), amd.read_amd_smi
    else:
        names = [f"GPU{number}" for number in range(len(codes))]
        text, read = rocm_smi_text(written, numa=range(len(codes))), amd.read_rocm_smi
    full, reading = read(clean(text)), read(cut(data, text))
    want = [
        [("?" if cell == "XXXX" else cell) if i != j else "X" for j, cell in enumerate(row)]
        for i, row in enumerate(codes)
    ]
    assert (full.status, list(full.devices), [list(row) for row in full.links]) == ("ok", names, want)
    assert reading.status in STATUSES
    assert reading.devices in {(), full.devices}
    for row, whole in zip(reading.links, full.links, strict=bool(reading.links)):
        for got, link in zip(row, whole, strict=True):
            assert got in {link, UNKNOWN_LINK, Link(str(link), pcie=Pcie.UNKNOWN)}
    if reading.status == "ok":
        assert reading.links == full.links
    assert all(fact.numa in {None, str(number)} for number, fact in enumerate(reading.facts))


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=40).map("".join))
def test_no_text_is_too_strange(text: str) -> None:
    for reader in READERS:
        reader.recognises(clean(text))
        reading = reader.read(clean(text))
        assert reading.status in STATUSES
        size = len(reading.devices)
        assert all(len(row) == size for matrix in (reading.links, reading.bandwidth) for row in matrix)
        assert all(row[place] == SELF for place, row in enumerate(reading.links))


@settings(deadline=None, max_examples=examples(60))
@given(matrices(4), st.data())
def test_a_line_cut_before_its_end_gives_no_wrong_value(matrix: Matrix, data: st.DataObject) -> None:
    text = p2p_text({"Unidirectional P2P=Enabled": matrix})
    lines = text.splitlines()
    number = data.draw(st.integers(2, len(lines) - 1))
    lines[number] = lines[number][: data.draw(st.integers(0, len(lines[number])))]
    reading = p2p_test.read("\n".join(lines) + "\n")
    for row, printed in zip(reading.bandwidth, matrix, strict=False):
        for value, right in zip(row, printed, strict=False):
            assert value in {round(right, 2), 0.0}
