"""amd-smi and rocm-smi as programs: what they print is the machine, and what they fail to do is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.drivers.amd.commands import AmdSmiDriver, RocmSmiDriver
from linkwise.errors import DriverError
from linkwise.model.link import Pcie
from linkwise.model.usage import DeviceUsage, ProcessUsage
from linkwise.node.usage import checked
from support.amdsmi_stub.machine import StubAmd, cpx, mi100_four, mi300
from support.builders.amd_smi_json import amd_smi_json, rocm_smi_json

if TYPE_CHECKING:
    from pathlib import Path

# Answers a command with the file of its name and the exit code in <name>.code; --showtopo of rocm-smi is `topology`, and
# `usage` is that of both tools.
PROGRAM: Final = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
  --showuse*|"metric --usage") name=usage ;;
  --showtopo*) name=topology ;;
  --*) name=list ;;
  *) name=$1 ;;
esac
[ ! -e $name.hangs ] || exec sleep 60
cat $name
exit $(cat $name.code 2>/dev/null || echo 0)
"""
MIB: Final = 1 << 20
GIB: Final = 1 << 30
UUID: Final = "12ff74a1-0000-1000-80bd-5ee800000000"


class Tool:
    """A tool in a folder that is also the root of the host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "tool"
        self.program.write_text(PROGRAM, "utf-8")
        self.program.chmod(0o755)

    def amd(self, machine: StubAmd, *, wrapped: bool = False) -> AmdSmiDriver:
        self.prints(machine, wrapped=wrapped)
        return AmdSmiDriver(str(self.program), node="gpu-7", host=self.folder, timeout=10)

    def prints(self, machine: StubAmd, *, wrapped: bool = False) -> None:
        machine.write_kernel_files(self.folder)
        for command in ("list", "static", "topology", "metric", "usage"):
            (self.folder / command).write_text(amd_smi_json(machine, command, wrapped=wrapped), "utf-8")

    def rocm(self, machine: StubAmd) -> RocmSmiDriver:
        machine.write_kernel_files(self.folder)
        for command in ("list", "topology", "usage"):
            (self.folder / command).write_text(rocm_smi_json(machine, command), "utf-8")
        return RocmSmiDriver(str(self.program), node="gpu-7", host=self.folder)


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.mark.rule("002.detect", "002.vendors")
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_answers_of_amd_smi_are_one_machine(tool: Tool, *, wrapped: bool) -> None:
    found = tool.amd(mi300(), wrapped=wrapped).discover()
    assert (found.vendor, len(found.devices), found.faults, found.problems) == ("amd", 8, {}, ())
    third = found.devices[2]
    assert (third.id, third.minor, third.nodes, third.bus_id) == (UUID, 130, ("/dev/dri/card3",), "0000:2c:00.0")
    assert (third.model, third.memory, third.numa) == ("AMD Instinct MI300X", 196592, 0)
    assert found.topology is not None
    assert found.topology.links[0][7] == "XGMI"
    assert (found.facts["driver"], found.facts["rocm"]) == ("6.12.12", "6.4.1")


def test_the_answers_of_rocm_smi_are_one_machine(tool: Tool) -> None:
    found = tool.rocm(mi100_four()).discover()
    assert (found.vendor, found.faults, found.problems) == ("amd", {}, ())
    third = found.devices[2]
    assert (third.id, third.minor, third.memory) == ("GPU-12bd5ee800000000", 130, 196592)
    assert found.topology is not None
    assert [link.pcie for link in found.topology.links[0][1:]] == [Pcie.SYS, Pcie.PHB, Pcie.SYS]


def test_the_partitions_of_a_divided_gpu_are_devices(tool: Tool) -> None:
    found = tool.amd(cpx()).discover()
    assert [(device.id[-2:], device.minor) for device in found.devices] == [(f"-{n}", 128 + n) for n in range(8)]


def test_uncorrectable_errors_take_a_gpu_out_of_use(tool: Tool) -> None:
    driver = tool.amd(mi300().changing("g2", ecc=(9, 4)))
    assert driver.discover().faults == {UUID: "device 2 is unhealthy: its health is 4 uncorrectable memory errors"}
    tool.prints(mi300())
    assert driver.discover().faults == {}


def test_a_gpu_that_is_no_longer_listed_is_lost(tool: Tool) -> None:
    driver = tool.amd(mi300())
    driver.discover()
    tool.prints(mi300().without("g2"))
    found = driver.discover()
    assert [device.index for device in found.devices if not device.healthy] == [2]
    assert found.devices[3].id.startswith("13ff")


def test_without_links_and_errors_the_devices_are_still_known(tool: Tool) -> None:
    driver = tool.amd(mi300(2))
    for command in ("topology", "metric"):
        (tool.folder / command).write_text("Traceback: unrecognized arguments\n", "utf-8")
        (tool.folder / f"{command}.code").write_text("2", "utf-8")
    found = driver.discover()
    assert len(found.devices) == 2
    assert [problem[:60] for problem in found.problems] == [
        "amd-smi topology --json failed with exit code 2: Traceback: ",
        "amd-smi metric --ecc --json failed with exit code 2: Traceba",
    ]


def test_messages_before_the_document_are_skipped(tool: Tool) -> None:
    driver = tool.amd(mi300(2))
    text = (tool.folder / "list").read_text("utf-8")
    (tool.folder / "list").write_text(
        f"WARNING: User is missing the following required groups: render\n{text}", "utf-8"
    )
    assert len(driver.discover().devices) == 2


@pytest.mark.parametrize(
    "text", ["", "[]\n", "{", "ERROR: amdgpu not found\n", "[[[[", '{"gpu_data": 7}', "[" * 100_000]
)
def test_a_tool_that_lists_nothing_is_an_error_with_its_message(tool: Tool, text: str) -> None:
    driver = tool.amd(mi300())
    (tool.folder / "list").write_text(text, "utf-8")
    with pytest.raises(DriverError, match=r"run `amd-smi list --json` on the node"):
        driver.discover()


@pytest.mark.parametrize("garbage", ["null", "-1", "1e999", '"x"', "[]", "{}", "true", '"\\u0000"', "9" * 5000])
def test_garbage_in_any_field_hides_that_field_only(tool: Tool, garbage: str) -> None:
    machine = mi300(2)
    driver = tool.amd(machine)
    listed = f'[{{"gpu": 0, "uuid": "u0", "bdf": {garbage}, "partition_id": {garbage}}}, {{"gpu": {garbage}}}]'
    (tool.folder / "list").write_text(listed, "utf-8")
    fields = ("asic", "vram", "driver", "numa", "ecc", "bus")
    static = ", ".join(f'"{field}": {garbage}' for field in fields)
    (tool.folder / "static").write_text(f'[{{"gpu": 0, {static}}}]', "utf-8")
    (tool.folder / "topology").write_text(
        f'[{{"gpu": 0, "links": [{garbage}, {{"gpu": 1, "weight": {garbage}}}]}}]', "utf-8"
    )
    (tool.folder / "metric").write_text(f'[{{"gpu": 0, "ecc": {{"total_uncorrectable_count": {garbage}}}}}]', "utf-8")
    found = driver.discover()
    assert [device.id for device in found.devices] == ["u0"]
    assert found.devices[0].healthy


def test_a_tool_that_hangs_or_is_missing_is_an_error(tool: Tool, tmp_path: Path) -> None:
    (tool.folder / "list.hangs").touch()
    with pytest.raises(DriverError, match=r"did not end within 0\.2 s; a GPU may hang"):
        AmdSmiDriver(str(tool.program), timeout=0.2, host=tmp_path).discover()
    with pytest.raises(DriverError, match="install ROCm"):
        RocmSmiDriver(str(tmp_path / "nowhere"), host=tmp_path).discover()


BUSY: Final = replace(
    mi300(3).changing("g2", used=5 * GIB, busy=61), processes={4242: {"g2": 4 * GIB, "g0": 0}, 4243: {"g0": GIB}}
)


@pytest.mark.rule("002.usage")
@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_reports_memory_and_utilization_and_the_kernel_the_processes(tool: Tool, *, wrapped: bool) -> None:
    first, second, third = tool.amd(BUSY, wrapped=wrapped).usage().devices
    assert third == DeviceUsage(UUID, 196592 * MIB, 5 * GIB, 61, (ProcessUsage(4242, 4 * GIB),))
    assert (first.used, first.utilization, first.processes) == (283 * MIB, 0, (ProcessUsage(4243, GIB),))
    assert second.processes == ()


@pytest.mark.rule("002.usage")
def test_rocm_smi_reports_memory_and_utilization_and_the_kernel_the_processes(tool: Tool) -> None:
    third = tool.rocm(BUSY).usage().devices[2]
    assert third == DeviceUsage("GPU-12bd5ee800000000", 196592 * MIB, 5 * GIB, 61, (ProcessUsage(4242, 4 * GIB),))


def test_early_releases_of_amd_smi_print_numbers_without_units(tool: Tool) -> None:
    driver = tool.amd(mi300(1))
    values = '"usage": {"gfx_activity": 7}, "mem_usage": {"total_vram": 16368, "used_vram": 15}'
    (tool.folder / "usage").write_text(f'[{{"gpu": 0, {values}}}]', "utf-8")
    found = driver.usage().devices[0]
    assert (found.total, found.used, found.utilization) == (16368 * MIB, 15 * MIB, 7)


def test_usage_is_that_of_the_ids_that_the_tool_lists_now(tool: Tool) -> None:
    driver = tool.amd(BUSY)
    driver.discover()
    tool.prints(replace(BUSY.without("g0"), processes={}))
    assert {one.id[:2]: one.used for one in driver.usage().devices} == {"11": 283 * MIB, "12": 5 * GIB}


def test_a_command_for_usage_that_fails_is_a_problem(tool: Tool) -> None:
    driver = tool.amd(mi300(2))
    (tool.folder / "usage").write_text("amdsmi_cli_exceptions: unrecognized\n", "utf-8")
    (tool.folder / "usage.code").write_text("255", "utf-8")
    found = driver.usage()
    assert (found.devices, found.problems) == (
        (),
        ("amd-smi metric --usage --mem-usage --json failed with exit code 255: amdsmi_cli_exceptions: unrecognized",),
    )


@pytest.mark.parametrize("kind", ["amd", "rocm"])
@pytest.mark.parametrize(
    "garbage", ["null", "-1", "1e999", '"N/A"', "[]", "{}", "true", '{"value": "N/A"}', "9" * 5000]
)
def test_garbage_instead_of_usage_is_unknown(tool: Tool, kind: str, garbage: str) -> None:
    driver = tool.amd(mi300(1)) if kind == "amd" else tool.rocm(mi300(1))
    (tool.folder / "usage").write_text(
        f'[{{"gpu": 0, "usage": {{"gfx_activity": {garbage}}}, "mem_usage": {{"total_vram": {garbage}, "used_vram": {garbage}}}}}]'
        if kind == "amd"
        else f'{{"card0": {{"GPU use (%)": {garbage}, "VRAM Total Memory (B)": {garbage}}}, "card1": {garbage}}}',
        "utf-8",
    )
    found = driver.usage().devices[0]
    assert (found.total, found.used, found.utilization, found.processes) == (None, None, None, ())


@pytest.mark.parametrize("kind", ["amd", "rocm"])
def test_more_memory_in_use_than_a_gpu_has_is_ignored(tool: Tool, kind: str) -> None:
    machine = replace(mi300(1).changing("g0", used=1 << 50, busy=65535), processes={7: {"g0": 1 << 51}})
    reading = checked((tool.amd(machine) if kind == "amd" else tool.rocm(machine)).usage())
    found = reading.devices[0]
    assert (found.used, found.utilization, found.processes) == (None, None, (ProcessUsage(7),))
    assert "bytes of memory in use are reported" in reading.problems[0]
