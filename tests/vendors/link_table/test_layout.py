"""The table of links under all the tools: how rows are cut apart, found, checked and compared."""

from __future__ import annotations

import pytest

from linkwise.model.link import SELF, Link
from linkwise.vendors.link_table.layout import Cells, Names, chosen, split_row, tables
from linkwise.vendors.link_table.matrix import fabric_warnings, read_table
from linkwise.vendors.nvidia.vendor import READERS
from support.environment import growth

GPUS = Names("GPU[0-9]{1,3}")


def matrix(rows: str) -> list[list[Link]]:
    return [[SELF if cell == "X" else Link(cell) for cell in row.split()] for row in rows.strip().splitlines()]


def switched(count: int, usual: str, odd: dict[tuple[int, int], str]) -> list[list[Link]]:
    def link(i: int, j: int) -> Link:
        return SELF if i == j else Link(odd.get((min(i, j), max(i, j)), usual))

    return [[link(i, j) for j in range(count)] for i in range(count)]


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (" X \tNV2\t0-3\t\t\tN/A", Cells(("X", "NV2"), ("0-3", "", "", "N/A"), tabbed=True)),
        ("X  NV2  0-3", Cells(("X", "NV2"), ("0-3",))),
        ("X\t\tNV2\t\t0-3", Cells(("X", "NV2"), ("0-3",), gapped=True)),
        ("XNV2 PIXX", Cells(("X", "NV2", "PIX", "X"))),
        ("HCCS_SWHCCS", Cells(("HCCS_SW", "HCCS"))),
        ("FOO X", Cells(("FOO", "X"))),
        ("", Cells(())),
    ],
)
def test_a_row_is_cut_into_links_and_the_rest(text: str, cells: Cells) -> None:
    assert split_row(text) == cells


def test_links_end_where_the_header_says() -> None:
    assert split_row("X N/A 0", 1) == Cells(("X",), ("N/A", "0"))


def test_every_table_is_found_with_its_place() -> None:
    text = "GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\nlegend soon\n  X = Self\nGPU0\nGPU0 X\n"
    found = list(tables(text, GPUS))
    assert [(table.start, [*table.rows]) for table in found] == [
        (0, ["GPU0", "GPU1"]),
        (text.rindex("GPU0\n"), ["GPU0"]),
    ]


def test_a_table_with_a_header_is_chosen_before_stray_rows() -> None:
    table = chosen(tables("GPU7 NODE is down\n=\nGPU0 CPU Affinity\nGPU0 X 0-3\n", GPUS))
    assert table is not None
    assert [*table.rows] == ["GPU0"]
    assert chosen(tables("GPU0 GPU1\n", GPUS)) is None


def test_a_header_that_lacks_names_is_said() -> None:
    table = chosen(tables("GPU0 GPU1\nGPU0 X PIX SYS\nGPU1 PIX X SYS\nGPU2 SYS SYS X\n", GPUS))
    assert table is not None
    reading = read_table(table, "test")
    assert (reading.status, reading.problems) == ("incomplete", ("the header lacks GPU2",))
    assert reading.links == (("X", "PIX", "SYS"), ("PIX", "X", "SYS"), ("SYS", "SYS", "X"))


def test_a_row_that_lost_a_cell_reports_nothing() -> None:
    table = chosen(tables("GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X SYS 0\nGPU1 PIX X SYS 0\nGPU2 SYS SYS X 0\n", GPUS))
    assert table is not None
    reading = read_table(table, "test")
    assert reading.problems == ("row GPU0 does not fit its columns",)
    assert reading.links[0] == ("X", "?", "?")


def test_directions_that_differ_are_named() -> None:
    found = fabric_warnings(["A", "B"], matrix("X NV4\nNV3 X"))
    assert found == ("A to B is NV4, but B to A is NV3",)


def test_of_many_differing_directions_some_are_named_and_all_counted() -> None:
    rows = [[SELF if i == j else Link("PIX" if i < j else "SYS") for j in range(6)] for i in range(6)]
    found = fabric_warnings(list("ABCDEF"), rows)
    assert len(found) == 9
    assert found[-1] == "7 more pairs differ by direction"


@pytest.mark.parametrize(
    ("links", "degraded"),
    [
        (switched(4, "NV18", {}), ()),
        (switched(4, "NV18", {(0, 2): "SYS", (1, 2): "NODE", (2, 3): "SYS"}), ("C has NODE, SYS", "NV18")),
        (switched(8, "NV4", {(1, 4): "NV3"}), ("B-E has NV3", "NV4")),
        (switched(4, "NV2", {(0, 2): "SYS", (0, 3): "SYS", (1, 2): "SYS", (1, 3): "SYS"}), ()),
        (switched(4, "SYS", {(0, 1): "PIX"}), ()),
        (switched(4, "SYS", {(0, 1): "NV2"}), ()),
        (switched(4, "NV18", {(0, 1): "?"}), ()),
        (switched(3, "NV2", {(0, 2): "SYS", (1, 2): "SYS"}), ()),
    ],
)
def test_one_device_unlike_the_others_is_a_degraded_fabric(links: list[list[Link]], degraded: tuple[str, ...]) -> None:
    found = fabric_warnings("ABCDEFGH"[: len(links)], links)
    expected = (
        () if not degraded else (f"{degraded[0]} where the others have {degraded[1]}: the fabric may be degraded",)
    )
    assert found == expected


def test_time_grows_with_the_text_and_no_faster() -> None:
    def read(size: int) -> None:
        log = "01:02:03 INFO step=17 GPU0 and GPU1 at 90 % = busy\n" * (size // 50)
        table = "\tGPU0\tGPU1\nGPU0\tX\tNV2\nGPU1\tNV2\tX\n"
        text = f"{log}{table}{log}" + "GPU0 " * (size // 5) + "\n" + "GPU1 X" + "\t" * size
        assert READERS[0].recognises(text)
        assert READERS[0].read(text).status == "ok"

    assert growth(read, 1_000_000) < 40


def test_an_error_line_that_names_devices_is_neither_a_row_nor_a_header() -> None:
    text = "\tGPU0\tGPU1\nGPU0\tX\tNV12\nGPU1 ERROR\nerror: no route to GPU0 GPU1\nGPU1\tNV12\tX\n"
    reading = READERS[0].read(text)
    assert (reading.status, reading.links[1]) == ("ok", (Link("NV12"), SELF))
    assert reading.warnings == ("line 3: GPU1 ERROR", "line 4: error: no route to GPU0 GPU1")


def test_more_messages_than_a_person_reads_are_counted() -> None:
    messages = "".join(f"error {number}\n" for number in range(7))
    reading = READERS[0].read(f"GPU0 GPU1\nGPU0 X NV12\n{messages}GPU1 NV12 X\n")
    assert reading.warnings[-1] == "3 more messages between the rows"
