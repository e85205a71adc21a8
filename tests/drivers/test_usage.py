"""Usage as drivers read it: what the hardware reports, and nothing made of what it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.dcmi import DcmiDriver
from linkwise.drivers.detect import open_driver
from linkwise.errors import DriverError
from linkwise.model.usage import DeviceUsage, ProcessUsage
from support.dcmi_stub.machine import atlas_800, duo
from support.dcmi_stub.stub import DcmiStub
from support.nvml_stub.machine import GPU_IS_LOST, MIB, NOT_SUPPORTED, two_pcie
from support.nvml_stub.stub import Stub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from drivers.conftest import OpenNvml
    from linkwise.model.usage import UsageReading
    from support.dcmi_stub.machine import StubNpus

GIB = 1 << 30
UUIDS = [gpu.uuid or "" for gpu in two_pcie().gpus]


@pytest.mark.rule("002.usage")
def test_memory_utilization_and_processes_of_a_gpu_are_those_of_nvml(stub: Stub, nvml: OpenNvml) -> None:
    processes, samples = ((101, 3 * GIB), (102, GIB)), ((101, 30, 5), (101, 50, 6), (102, 7, 6))
    stub.write(two_pcie().changing(0, used=5 * GIB, utilization=(42, 3), processes=processes, samples=samples))
    first, second = nvml().usage().devices
    assert (first.id, first.total, first.used, first.utilization) == (UUIDS[0], 16160 * MIB, 5 * GIB, 42)
    assert first.processes == (ProcessUsage(101, 3 * GIB, 40), ProcessUsage(102, GIB, 7))
    assert second == DeviceUsage(UUIDS[1], 16160 * MIB, 0, 0, ())


def test_samples_of_utilization_count_once(stub: Stub, nvml: OpenNvml) -> None:
    busy = two_pcie().changing(0, processes=((101, GIB),), samples=((101, 80, 5),))
    stub.write(busy)
    driver = nvml()
    assert [one.utilization for one in driver.usage().devices[0].processes or ()] == [80]
    assert [one.utilization for one in driver.usage().devices[0].processes or ()] == [0]
    stub.write(busy.changing(0, samples=((101, 80, 5), (101, 20, 9))))
    assert [one.utilization for one in driver.usage().devices[0].processes or ()] == [20]


def test_a_process_that_draws_is_listed_as_well(stub: Stub, nvml: OpenNvml) -> None:
    stub.write(two_pcie().changing(0, processes=((101, GIB),), drawing=((101, GIB), (103, MIB))))
    assert [one.pid for one in nvml().usage().devices[0].processes or ()] == [101, 101, 103]


def test_values_that_a_gpu_does_not_have_are_unknown(stub: Stub, nvml: OpenNvml) -> None:
    machine = two_pcie().changing(0, memory=None, utilization=None, processes=((101, -1),))
    stub.write(machine.failing("nvmlDeviceGetProcessUtilization", 0, NOT_SUPPORTED))
    found = nvml().usage().devices[0]
    assert found == DeviceUsage(UUIDS[0], None, None, None, (ProcessUsage(101),))


@pytest.mark.parametrize("symbol", ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetUtilizationRates"])
def test_one_call_that_fails_leaves_the_other_values(symbol: str, stub: Stub, nvml: OpenNvml) -> None:
    stub.write(two_pcie().changing(0, used=GIB).failing(symbol, 0))
    assert nvml().usage().devices[0].used == GIB


def test_a_lost_gpu_has_no_usage_and_the_other_one_has(stub: Stub, nvml: OpenNvml) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    stub.write(two_pcie().failing("nvmlDeviceGetMemoryInfo", 0, GPU_IS_LOST))
    found = driver.usage()
    assert [device.id for device in found.devices] == UUIDS[1:]
    assert found.problems == ("device 0: its usage can't be read (GPU is lost)",)


def test_usage_is_an_error_while_the_driver_is_unloaded_and_back_after_it(stub: Stub, nvml: OpenNvml) -> None:
    stub.write(two_pcie())
    driver = nvml()
    stub.remove()
    with pytest.raises(DriverError, match="does not answer"):
        driver.usage()
    with pytest.raises(DriverError):
        driver.discover()
    assert driver.usage().problems != ()
    stub.write(two_pcie())
    driver.discover()
    assert len(driver.usage().devices) == 2


def test_processes_of_older_nvidia_drivers_are_read(tmp_path: Path) -> None:
    older = Stub(tmp_path, old_driver=True)
    older.write(two_pcie().changing(0, processes=((101, GIB),)))
    code = "from linkwise.drivers.nvml.driver import NvmlDriver; print(NvmlDriver().usage().devices[0].processes)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | older.environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == str((ProcessUsage(101, GIB, 0),))


SMI = """\
#!/bin/sh
case "$1" in
  --query-gpu=uuid*) cat <<'END'
GPU-a, 15360, 3021, 37
Unable to determine the device handle for GPU0000:3D:00.0: Unknown Error
GPU-b, 15360, [N/A], [Not Supported]
END
;;
  --query-compute-apps*) printf 'GPU-a, 4242, 3000\\nGPU-a, 4243, [N/A]\\nGPU-a, oops, 1\\n' ;;
esac
"""


@pytest.mark.rule("002.usage")
def test_nvidia_smi_reports_devices_and_processes(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI, "utf-8")
    tool.chmod(0o755)
    found = open_driver("nvidia-smi", node="n", source=str(tool)).usage()
    assert found.devices == (
        DeviceUsage("GPU-a", 15360 * MIB, 3021 * MIB, 37, (ProcessUsage(4242, 3000 * MIB), ProcessUsage(4243))),
        DeviceUsage("GPU-b", 15360 * MIB, None, None, ()),
    )


@pytest.fixture
def dcmi_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[StubNpus], UsageReading]:
    stub = DcmiStub(tmp_path)
    monkeypatch.setenv("DCMI_STUB", stub.environment["DCMI_STUB"])

    def read(machine: StubNpus) -> UsageReading:
        stub.write(machine)
        driver = DcmiDriver(str(stub.library), host=tmp_path)
        driver.discover()
        return driver.usage()

    return read


@pytest.mark.rule("002.usage")
def test_dcmi_reports_memory_cores_and_processes_of_a_chip(dcmi_usage: Callable[[StubNpus], UsageReading]) -> None:
    machine = atlas_800().changing(3, hbm_used=1024, busy=61, processes=((4242, 900 * MIB), (4243, 100 * MIB)))
    found = {one.id: one for one in dcmi_usage(machine).devices}
    assert found["Ascend910-3"] == DeviceUsage(
        "Ascend910-3", 32768 * MIB, 1024 * MIB, 61, (ProcessUsage(4242, 900 * MIB), ProcessUsage(4243, 100 * MIB))
    )
    assert len(found) == 8


def test_a_chip_without_hbm_reports_its_other_memory(dcmi_usage: Callable[[StubNpus], UsageReading]) -> None:
    found = dcmi_usage(duo().changing(0, memory_percent=25)).devices[0]
    assert (found.total, found.used, found.utilization, found.processes) == (44280 * MIB, 11070 * MIB, None, None)


@pytest.mark.parametrize("driver", ["simulated", "recorded"])
def test_machines_that_are_not_real_report_memory_to_be_made_up(driver: str, tmp_path: Path) -> None:
    (tmp_path / "query").write_text(
        "index, uuid, memory.total [MiB]\n0, GPU-a, 15360 MiB\n1, GPU-b, 15360 MiB\n", "utf-8"
    )
    source = "v100-pcie" if driver == "simulated" else str(tmp_path)
    found = open_driver(driver, node="n", source=source).usage()
    assert found.simulated
    assert found.devices
    assert all(one.total and one.used is None for one in found.devices)
