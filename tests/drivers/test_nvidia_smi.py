"""nvidia-smi as a program: what it prints is the machine, and what it fails to do is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from linkwise.drivers.smi import NvidiaSmiDriver
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from pathlib import Path

# Answers by the first argument: the file of that name, with the exit code in <name>.code; unknown fields are refused.
PROGRAM: Final = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1" in --query-gpu*) name=query-gpu ;; "") name=banner ;; *) name=$1 ;; esac
echo $name >> runs
case "$1" in *mig*) [ ! -e old ] || { echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2; } ;; esac
[ ! -e $name.hangs ] || exec sleep 60
cat $name
exit $(cat $name.code 2>/dev/null || echo 0)
"""
LIST: Final = """\
index, uuid, name, pci.bus_id, memory.total [MiB], driver_version
0, GPU-a, Tesla T4, 00000000:3B:00.0, 15360 MiB, 550.54.15
1, GPU-b, Tesla T4, 00000000:3C:00.0, 15360 MiB, 550.54.15
"""
TOPO: Final = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\t0-7\t0
GPU1\tPHB\t X \t0-7\t0
"""
BANNER: Final = "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    program = tmp_path / "nvidia-smi"
    program.write_text(PROGRAM, "utf-8")
    program.chmod(0o755)
    for name, text in (("query-gpu", LIST), ("topo", TOPO), ("banner", BANNER)):
        (tmp_path / name).write_text(text, "utf-8")
    return program


@pytest.fixture
def driver(tool: Path) -> NvidiaSmiDriver:
    return NvidiaSmiDriver(str(tool), node="gpu-7", host=tool.parent)


@pytest.mark.rule("002.detect")
def test_the_list_and_the_links_are_one_machine(driver: NvidiaSmiDriver) -> None:
    found = driver.discover()
    assert (found.vendor, found.faults, found.problems) == ("nvidia", {}, ())
    assert [(device.id, device.memory, device.numa) for device in found.devices] == [
        ("GPU-a", 15360, 0),
        ("GPU-b", 15360, 0),
    ]
    assert found.facts == {"driver": "550.54.15", "model": "Tesla T4", "cuda": "12.4"}
    assert found.topology is not None
    assert found.topology.links == (("X", "PHB"), ("PHB", "X"))


def test_minor_numbers_and_numa_nodes_come_from_the_kernel(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    for folder, name, text in (
        ("proc/driver/nvidia/gpus/0000:3c:00.0", "information", "Device Minor: \t 0\n"),
        ("sys/bus/pci/devices/0000:3c:00.0", "numa_node", "1\n"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(text, "ascii")
    first, second = driver.discover().devices
    assert (first.minor, first.numa) == (None, 0)
    assert (second.minor, second.numa) == (0, 1)


def test_a_driver_that_does_not_know_mig_is_asked_without_it(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    assert len(driver.discover().devices) == 2


def test_a_gpu_that_the_tool_loses_stays_as_an_unhealthy_device(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    before = driver.discover()
    lost = "Unable to determine the device handle for GPU0: 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    listed = LIST.splitlines(keepends=True)
    (tmp_path / "query-gpu").write_text("".join([listed[0], lost, listed[2]]), "utf-8")
    (tmp_path / "query-gpu.code").write_text("15", "ascii")
    (tmp_path / "topo.code").write_text("15", "ascii")
    found = driver.discover()
    assert [(device.id, device.healthy) for device in found.devices] == [("GPU-a", False), ("GPU-b", True)]
    assert found.topology == before.topology
    assert any("GPU is lost" in problem for problem in found.problems)
    assert any("topo -m failed with exit code 15" in problem for problem in found.problems)


def test_links_that_take_too_long_are_missing_and_the_devices_are_there(tool: Path) -> None:
    (tool.parent / "topo.hangs").touch()
    found = NvidiaSmiDriver(str(tool), host=tool.parent, timeout=2).discover()
    assert len(found.devices) == 2
    assert "did not end within 2 s" in found.problems[0]
    assert found.topology is not None
    assert found.topology.links == ()


def test_a_list_that_takes_too_long_is_an_error(tool: Path) -> None:
    (tool.parent / "query-gpu.hangs").touch()
    with pytest.raises(DriverError, match=r"did not end within 0.5 s; a GPU may hang"):
        NvidiaSmiDriver(str(tool), timeout=0.5).discover()


def test_a_tool_that_fails_is_an_error_with_its_message(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    (tmp_path / "query-gpu").write_text(message, "utf-8")
    (tmp_path / "query-gpu.code").write_text("9", "ascii")
    (tmp_path / "topo").write_text(message, "utf-8")
    with pytest.raises(DriverError, match=r"^nvidia-smi: NVIDIA-SMI has failed because .*\(exit code 9\)"):
        driver.discover()


def test_a_tool_that_finds_no_devices_is_an_empty_machine(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    for name in ("query-gpu", "topo"):
        (tmp_path / name).write_text("No devices were found\n", "utf-8")
    found = driver.discover()
    assert (found.vendor, found.devices) == ("", ())


def test_a_missing_tool_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"can't be run \(No such file or directory\); install the NVIDIA driver"):
        NvidiaSmiDriver(str(tmp_path / "nowhere")).discover()


def test_the_cuda_version_is_read_once(driver: NvidiaSmiDriver, tmp_path: Path) -> None:
    driver.discover()
    assert driver.discover().facts["cuda"] == "12.4"
    assert (tmp_path / "runs").read_text("utf-8").split() == ["query-gpu", "topo", "banner", "query-gpu", "topo"]
