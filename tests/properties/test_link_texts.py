"""Link matrices in every style: what is printed is read, and a cut text never tells a wrong cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.model.link import SELF, Link
from linkwise.vendors import ascend as ascend_topo, metax
from linkwise.vendors.nvidia import vendor as nvidia_topo
from linkwise.vendors.readers import clean
from support.builders.tool_texts import GPU_STYLES, Machine, machine_of, mx_text, npu_text
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.vendors.reader import Reader, Reading

GPU_CODES = ("NV1", "NV2", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")
NPU_CODES = ("HCCS", "HCCS_SW", "SIO", "UB", "PIX", "PXB", "PHB", "SYS")
MX_CODES = ("MX", "PIX", "PXB", "PHB", "NODE", "SYS")
CPUS = ("0-23", "24-47", "0-23,48-71", "0", "N/A")
NUMA = ("0", "1", "8", "0-1", "0,3-9,11-17", "N/A")

STYLES: dict[str, tuple[str, tuple[str, ...], Reader, Callable[[Machine], str]]] = {
    **{name: ("GPU", GPU_CODES, nvidia_topo.READERS[0], render) for name, render in GPU_STYLES.items()},
    "npu": ("NPU", NPU_CODES, ascend_topo.READERS[0], npu_text),
    "phy": ("Phy-ID", NPU_CODES, ascend_topo.READERS[0], npu_text),
    "mx": ("GPU", MX_CODES, metax.READERS[0], mx_text),
}
PIECES = (
    *("GPU0", "GPU1", "GPU10", "NPU3", "Phy-ID2", "X", "NV12", "NV1", "SYS", "NODENODE", "HCCS", "MX", "?", "N/A"),
    *("NIC0", "mlx5_0", "CPU Affinity", "0-3", "=", "Legend:", "topo -mp", "OK", "\t", " ", "\n", "# ", "é", "\x1b"),
)
EMPTY_CELLS_SHOW = ("tabs", "quoted")
NO_NICS = ("npu", "phy", "mx")

STEP = 29  # every place is cut in one run or another
every_style = pytest.mark.parametrize("style", STYLES)


@st.composite
def machines(draw: st.DrawFn, style: str) -> Machine:
    stem, codes, _, _ = STYLES[style]
    numbers = sorted(draw(st.sets(st.integers(0, 17), min_size=1, max_size=9)))
    count = len(numbers)
    kinds = draw(st.sampled_from([codes, codes[:2], codes[:1]]))
    drawn = iter(draw(st.lists(st.sampled_from(kinds), min_size=count * count, max_size=count * count)))
    upper = {(i, j): Link(next(drawn)) for i in range(count) for j in range(i + 1, count)}
    links = tuple(tuple(SELF if i == j else upper[min(i, j), max(i, j)] for j in range(count)) for i in range(count))
    empty = ("",) if style in EMPTY_CELLS_SHOW else ()
    cpus, numa = (
        tuple(draw(st.lists(st.sampled_from(values + empty), min_size=count, max_size=count)))
        for values in (CPUS, NUMA)
    )
    nics = () if style in NO_NICS else tuple(f"NIC{number}" for number in range(draw(st.integers(0, 3))))
    return Machine(tuple(f"{stem}{number}" for number in numbers), links, cpus, numa, nics)


def parsed(style: str, text: str) -> Reading:
    return STYLES[style][2].read(clean(text))


def cells(machine: Machine | Reading) -> dict[tuple[str, str], str]:
    return {
        (row, column): str(link)
        for row, links in zip(machine.devices, machine.links, strict=True)
        for column, link in zip(machine.devices, links, strict=True)
    }


@every_style
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_what_is_printed_is_read(style: str, data: st.DataObject) -> None:
    machine = data.draw(machines(style))
    text = STYLES[style][3](machine)
    reading = parsed(style, text)
    assert STYLES[style][2].recognises(clean(text))
    assert reading.status == "ok", reading.problems
    assert (reading.devices, reading.links, reading.nics) == (machine.devices, machine.links, machine.nics)
    if style != "bare":
        assert tuple(facts.cpus for facts in reading.facts) == machine.cpus


@every_style
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_a_text_without_its_end_never_reports_a_wrong_cell(style: str, data: st.DataObject) -> None:
    machine = data.draw(machines(style))
    text = STYLES[style][3](machine)
    for end in range(data.draw(st.integers(0, STEP)), len(text), STEP):
        _tells_nothing_wrong(parsed(style, text[:end]), machine)


@every_style
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_a_text_without_its_beginning_never_reports_a_wrong_cell(style: str, data: st.DataObject) -> None:
    machine = data.draw(machines(style))
    text = STYLES[style][3](machine)
    for start in range(data.draw(st.integers(0, STEP)), len(text), STEP):
        _tells_nothing_wrong(parsed(style, text[start:]), machine)


@every_style
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_lines_cut_at_the_width_of_a_terminal_never_report_a_wrong_cell(style: str, data: st.DataObject) -> None:
    machine = data.draw(machines(style))
    text = STYLES[style][3](machine)
    for width in range(data.draw(st.integers(1, STEP)), max(map(len, text.splitlines())), STEP):
        _tells_nothing_wrong(parsed(style, "\n".join(line[:width] for line in text.splitlines())), machine)


@every_style
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_reading_a_written_topology_gives_the_same(style: str, data: st.DataObject) -> None:
    text = STYLES[style][3](data.draw(machines(style)))
    first = parsed(style, text)
    assert parsed(style, STYLES[style][3](machine_of(first))) == first


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_nothing_that_is_pasted_together_raises(text: str) -> None:
    for reader in (*nvidia_topo.READERS, *ascend_topo.READERS, *metax.READERS):
        reader.recognises(text)
        reading = reader.read(text)
        assert len(reading.links) in (0, len(reading.devices))
        assert (reading.status == "ok") <= (not reading.problems)


def _tells_nothing_wrong(reading: Reading, machine: Machine) -> None:
    found = cells(reading)
    true = cells(machine)
    assert {place: link for place, link in found.items() if link not in ("?", true.get(place))} == {}
    if reading.status == "ok":
        assert found == true
    else:
        assert reading.problems or reading.status == "no matrix"
