"""Error lines of a tool inside its tables: the same table is read, or the text is incomplete; no cell is ever wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.model.link import SELF, Link
from linkwise.vendors import ascend as ascend_topo, metax
from linkwise.vendors.amd.vendor import read_amd_smi, read_rocm_smi
from linkwise.vendors.nvidia import vendor as nvidia_topo
from linkwise.vendors.nvidia.nvbandwidth import READERS as NVBANDWIDTH
from linkwise.vendors.nvidia.p2p_test import READERS as P2P
from linkwise.vendors.readers import clean
from support.builders.tool_texts import (
    GPU_STYLES,
    Machine,
    amd_smi_text,
    mx_text,
    npu_text,
    nvbandwidth_text,
    p2p_text,
    rocm_smi_text,
)
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.vendors.reader import Reading

MESSAGES = (
    "get_link_weight_topology, Not supported on the given system",
    "ERROR: GPU[1]\t\t: Cannot read Link Weight: Not supported on this machine",
    "ERROR: 2 GPU[0]: rsmi_topo_get_link_type: RSMI_STATUS_NOT_SUPPORTED",
    "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status",
    "Unable to determine the device handle for GPU 0000:2b:00.0: Unknown Error",
    "error: no route between GPU0 GPU1",
    "GPU1 ERROR",
    "GPU0 0 FAILED",
    "GPU1 X ERROR",
    "NPU0 X HCCS: error 5",
    "0000:0a:00.0 0 FAILED",
    "Cannot read Link Type between two GPUs",
    "Traceback (most recent call last):",
)
BUS = tuple(f"0000:{number:02x}:00.0" for number in range(10, 18))
Read = tuple[str, "Callable[[str], Reading]"]


def squares(draw: st.DrawFn, size: int, cells: st.SearchStrategy[str], own: str) -> list[list[str]]:
    upper = {(i, j): draw(cells) for i in range(size) for j in range(i + 1, size)}
    return [[own if i == j else upper[min(i, j), max(i, j)] for j in range(size)] for i in range(size)]


@st.composite
def rocm(draw: st.DrawFn) -> Read:
    size = draw(st.integers(1, 6))
    tables = {
        "Weight": squares(draw, size, st.sampled_from(["15", "30", "72", "1", "150"]), "0"),
        "Hops": squares(draw, size, st.sampled_from("123"), "0"),
        "Link Type": squares(draw, size, st.sampled_from(["XGMI", "PCIE", "XXXX"]), "0"),
    }
    return rocm_smi_text(tables, numa=range(size)), read_rocm_smi


@st.composite
def amd(draw: st.DrawFn) -> Read:
    size = draw(st.integers(1, 6))
    tables = {
        "ACCESS": squares(draw, size, st.sampled_from(["ENABLED", "DISABLED"]), "ENABLED"),
        "WEIGHT": squares(draw, size, st.sampled_from(["15", "30", "40", "4"]), "0"),
        "HOPS": squares(draw, size, st.sampled_from("123"), "0"),
        "LINK TYPE": squares(draw, size, st.sampled_from(["XGMI", "PCIE"]), "SELF"),
        "NUMA BW": squares(draw, size, st.sampled_from(["N/A", "100-200"]), "N/A"),
    }
    return amd_smi_text(BUS[:size], tables), read_amd_smi


@st.composite
def links(draw: st.DrawFn) -> Read:
    styles = {**GPU_STYLES, "npu": npu_text, "mx": mx_text}
    style = draw(st.sampled_from(sorted(styles)))
    stem, reader = {"npu": ("NPU", ascend_topo), "mx": ("GPU", metax)}.get(style, ("GPU", nvidia_topo))
    codes = {"npu": ["HCCS", "HCCS_SW", "SIO", "PHB"], "mx": ["MX", "PXB", "SYS"]}.get(style, ["NV1", "NV12", "NODE"])
    size = draw(st.integers(1, 6))
    rows = squares(draw, size, st.sampled_from(codes), "X")
    square = tuple(tuple(SELF if cell == "X" else Link(cell) for cell in row) for row in rows)
    machine = Machine(tuple(f"{stem}{i}" for i in range(size)), square, ("0-23,48-71",) * size, ("0",) * size)
    return styles[style](machine), reader.READERS[0].read


@st.composite
def speeds(draw: st.DrawFn) -> Read:
    size = draw(st.integers(2, 5))
    numbers = st.integers(100, 99_999).map(lambda number: number / 100)
    rows = tuple(tuple(draw(numbers) for _ in range(size)) for _ in range(size))
    if draw(st.booleans()):
        return p2p_text({"Unidirectional P2P=Enabled": rows}), P2P[0].read
    return nvbandwidth_text({"device_to_device_memcpy_write_ce": ("->", rows)}), NVBANDWIDTH[0].read


TOOLS = {"rocm-smi": rocm(), "amd-smi": amd(), "link tables": links(), "bandwidth": speeds()}
every_tool = pytest.mark.parametrize("tool", TOOLS)
inserted = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(MESSAGES)), min_size=1, max_size=4)


@every_tool
@settings(deadline=None, max_examples=examples(40))
@given(data=st.data())
def test_error_lines_between_the_rows_leave_the_table_as_it_is(tool: str, data: st.DataObject) -> None:
    text, read = data.draw(TOOLS[tool])
    whole = read(clean(text))
    lines = text.split("\n")
    for place, message in data.draw(inserted):
        lines.insert(place % len(lines), message)
    reading = read(clean("\n".join(lines)))
    assert (reading.status, reading.problems) == (whole.status, whole.problems)
    assert replace(reading, warnings=()) == replace(whole, warnings=())


@every_tool
@settings(deadline=None, max_examples=examples(60))
@given(data=st.data())
def test_messages_that_divide_a_line_never_make_a_wrong_cell(tool: str, data: st.DataObject) -> None:
    text, read = data.draw(TOOLS[tool])
    whole = read(clean(text))
    at = data.draw(st.integers(0, len(text)))
    message = data.draw(st.sampled_from(MESSAGES)) + "\n"
    reading = read(clean(text[:at] + data.draw(st.sampled_from(["", "\n"])) + message + text[at:]))
    true = cells(whole)
    wrong = {place: cell for place, cell in cells(reading).items() if cell not in ("?", 0.0, true.get(place))}
    assert not wrong
    assert reading.status != "ok" or whole_table(reading) == whole_table(whole)


def whole_table(reading: Reading) -> tuple[object, ...]:
    return reading.devices, reading.links, reading.bandwidth


def cells(reading: Reading) -> dict[tuple[str, str], str | float]:
    """By names; PCIe paths are derived from whole tables only, so they are not compared."""
    matrix: tuple[tuple[str | float, ...], ...] = reading.bandwidth or tuple(
        tuple(map(str, row)) for row in reading.links
    )
    return {
        (row, column): cell
        for row, values in zip(reading.devices, matrix, strict=bool(matrix))
        for column, cell in zip(reading.devices, values, strict=True)
    }
