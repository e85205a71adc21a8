"""npu-smi as a program: what it prints is the machine, and what it fails to do is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from linkwise.drivers.smi import NpuSmiDriver
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from pathlib import Path

# Answers `info`, `info -l` and `info -t topo` with the file of that name and its exit code in <name>.code.
PROGRAM: Final = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$2" in "") name=info ;; -l) name=list ;; *) name=$3 ;; esac
[ ! -e $name.hangs ] || exec sleep 60
cat $name
exit $(cat $name.code 2>/dev/null || echo 0)
"""
LINE: Final = "+----------------+---------------+-------------------------------------+\n"
HEAD: Final = (
    f"{LINE}| npu-smi 23.0.3 | Version: 23.0.3 |                        |\n{LINE}"
    "| NPU   Name     | Health        | Power(W) Temp(C)  Hugepages-Usage   |\n"
    "| Chip  Device   | Bus-Id        | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n"
)


def table(*health: str) -> str:
    rows = (
        f"| {number}     910A     | {state}            | 70.0     40       0    / 0          |\n"
        f"| 0     {number}        | 0000:{0x11 + number:02X}:00.0  | 0         10 / 100         5 / 32768    |\n{LINE}"
        for number, state in enumerate(health)
    )
    return HEAD + "".join(rows)


def links(count: int) -> str:
    names = [f"NPU{number}" for number in range(count)]
    rows = (
        f"NPU{a}  " + "  ".join("X" if a == b else "HCCS" if a // 4 == b // 4 else "SYS" for b in range(count))
        for a in range(count)
    )
    return "        " + "  ".join(names) + "\n" + "\n".join(rows) + "\n"


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    program = tmp_path / "npu-smi"
    program.write_text(PROGRAM, "utf-8")
    program.chmod(0o755)
    (tmp_path / "info").write_text(table(*["OK"] * 8), "utf-8")
    (tmp_path / "topo").write_text(links(8), "utf-8")
    (tmp_path / "list").write_text("\tTotal Count : 0\n", "utf-8")
    return program


@pytest.fixture
def driver(tool: Path) -> NpuSmiDriver:
    return NpuSmiDriver(str(tool), node="npu-7", host=tool.parent)


@pytest.mark.rule("002.detect")
def test_the_table_and_the_links_are_one_machine(driver: NpuSmiDriver) -> None:
    found = driver.discover()
    assert (found.vendor, found.faults, found.problems) == ("ascend", {}, ())
    assert [(one.id, one.minor) for one in found.devices] == [(f"Ascend910-{number}", number) for number in range(8)]
    assert (found.devices[1].bus_id, found.devices[1].memory) == ("0000:12:00.0", 32768)
    assert found.topology is not None
    assert found.topology.rings == ((0, 1, 2, 3), (4, 5, 6, 7))


@pytest.mark.rule("003.faulty")
def test_an_alarm_takes_a_chip_out_of_use_until_it_ends(driver: NpuSmiDriver, tool: Path) -> None:
    driver.discover()
    (tool.parent / "info").write_text(table("OK", "Alarm", "Warning"), "utf-8")
    found = driver.discover()
    assert [one.healthy for one in found.devices][:4] == [True, False, True, False]
    assert found.faults["Ascend910-1"] == "device 1 is unhealthy: its health is Alarm"
    assert found.faults["Ascend910-3"] == "device 3 is lost: the driver no longer reports it"
    (tool.parent / "info").write_text(table(*["OK"] * 8), "utf-8")
    assert all(one.healthy for one in driver.discover().devices)


def test_hardware_without_a_link_matrix_is_no_problem(driver: NpuSmiDriver, tool: Path) -> None:
    (tool.parent / "topo").write_text("This device does not support querying topo.\n", "utf-8")
    (tool.parent / "topo.code").write_text("1", "utf-8")
    found = driver.discover()
    assert (len(found.devices), found.problems) == (8, ())


def test_the_list_of_cards_serves_where_the_table_can_not_be_read(driver: NpuSmiDriver, tool: Path) -> None:
    (tool.parent / "info").write_text("a new layout\n", "utf-8")
    (tool.parent / "topo").write_text("", "utf-8")
    (tool.parent / "list").write_text("Total Count : 2\n\nNPU ID : 0\nChip Count : 1\n\nNPU ID : 1\nChip Count : 1\n\n")
    found = driver.discover()
    assert [one.id for one in found.devices] == ["Ascend910-0", "Ascend910-1"]
    assert found.problems[0] == "npu-smi info can't be read, so that the health of the chips is not known"


def test_addresses_come_from_the_file_that_huaweis_tool_writes(driver: NpuSmiDriver, tool: Path) -> None:
    (tool.parent / "etc").mkdir()
    (tool.parent / "etc/hccn.conf").write_text("address_1=10.0.0.2\n", "ascii")
    assert driver.discover().addresses == {"Ascend910-1": "10.0.0.2"}


def test_a_tool_that_lists_nothing_is_an_error(driver: NpuSmiDriver, tool: Path) -> None:
    (tool.parent / "info").write_text("dcmi module initialize failed. ret is -8005\n", "utf-8")
    (tool.parent / "info.code").write_text("1", "utf-8")
    (tool.parent / "topo").write_text("", "utf-8")
    with pytest.raises(DriverError, match=r"npu-smi: dcmi module initialize failed.*run `npu-smi info` on the node"):
        driver.discover()


def test_a_machine_without_cards_has_no_devices(driver: NpuSmiDriver, tool: Path) -> None:
    (tool.parent / "info").write_text("There is no NPU card.\n", "utf-8")
    (tool.parent / "topo").write_text("There is no NPU card.\n", "utf-8")
    assert driver.discover().devices == ()


def test_a_tool_that_is_missing_or_hangs_says_what_to_check(tool: Path, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="install the Ascend driver, or give the path of the tool"):
        NpuSmiDriver(str(tmp_path / "nowhere")).discover()
    (tool.parent / "info.hangs").write_text("", "utf-8")
    with pytest.raises(DriverError, match=r"did not end within 0.2 s; a chip may hang, see `dmesg`"):
        NpuSmiDriver(str(tool), timeout=0.2).discover()
