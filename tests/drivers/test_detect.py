"""The driver of a node is found without a setting, or selected by name."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from linkwise.drivers.detect import DRIVERS, DriverOptions, open_driver
from linkwise.errors import DriverError, InputError
from support.amdsmi_stub.machine import mi300
from support.amdsmi_stub.stub import AmdSmiStub
from support.dcmi_stub.machine import atlas_800
from support.dcmi_stub.stub import DcmiStub
from support.environment import surroundings
from support.nvml_stub.machine import StubMachine, dgx1_v100
from support.nvml_stub.stub import Stub

if TYPE_CHECKING:
    from pathlib import Path

# A process of its own, because a library that is loaded once stays: reads a line, discovers, prints what it found.
WATCH = """
import json, sys
from linkwise.drivers.detect import open_driver
driver = open_driver("auto", node="gpu-7", host_root=sys.argv[1])
for line in sys.stdin:
    found = driver.discover()
    shown = {"name": driver.name, "vendor": found.vendor, "count": len(found.devices), "problems": found.problems}
    print(json.dumps(shown), flush=True)
driver.close()
"""


class Watched:
    """A process that detects once for every question."""

    def __init__(self, environment: dict[str, str], host_root: str = "/") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WATCH, host_root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=surroundings() | environment,
        )

    def discover(self) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without NVIDIA's library and tools."""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library", "ascii")
    return {"LD_LIBRARY_PATH": str(tmp_path), "PATH": str(tmp_path)}


@pytest.mark.rule("002.detect")
def test_hardware_is_detected_without_any_setting(tmp_path: Path) -> None:
    stub = Stub(tmp_path)
    stub.write(dgx1_v100())
    with Watched(stub.environment) as watched:
        assert watched.discover() == {"name": "nvml", "vendor": "nvidia", "count": 8, "problems": []}


@pytest.mark.rule("002.detect")
def test_npus_are_detected_where_there_are_no_gpus(tmp_path: Path) -> None:
    stub = DcmiStub(tmp_path)
    stub.write(atlas_800())
    with Watched(stub.environment | {"PATH": str(tmp_path)}) as watched:
        assert watched.discover() == {"name": "dcmi", "vendor": "ascend", "count": 8, "problems": []}


@pytest.mark.rule("002.detect")
def test_amd_gpus_are_detected_where_rocm_installs_its_library(tmp_path: Path, bare: dict[str, str]) -> None:
    stub = AmdSmiStub(tmp_path / "host")
    stub.write(mi300())
    folder = tmp_path / "host/opt/rocm/lib"
    folder.mkdir(parents=True)
    (folder / "libamd_smi.so.25").symlink_to(stub.library)
    with Watched(stub.environment | bare, str(tmp_path / "host")) as watched:
        assert watched.discover() == {"name": "amdsmi", "vendor": "amd", "count": 8, "problems": []}


@pytest.mark.rule("002.detect")
def test_beside_gpus_of_nvidia_an_integrated_amd_gpu_is_not_used(tmp_path: Path) -> None:
    nvidia, amd = Stub(tmp_path), AmdSmiStub(tmp_path / "amd")
    nvidia.write(dgx1_v100())
    amd.write(mi300(1))
    folders = f"{nvidia.library.parent}:{amd.library.parent}"
    with Watched(amd.environment | nvidia.environment | {"LD_LIBRARY_PATH": folders}) as watched:
        assert (watched.discover()["name"], watched.discover()["count"]) == ("nvml", 8)


@pytest.mark.rule("002.detect")
def test_a_machine_without_devices_says_what_was_tried(bare: dict[str, str]) -> None:
    with Watched(bare) as watched:
        found = watched.discover()
    assert (found["name"], found["vendor"], found["count"]) == ("auto", "", 0)
    (problem,) = found["problems"]
    assert problem.startswith("no devices were found. Tried: nvml: libnvidia-ml.so.1 can't be loaded")
    assert "nvidia-smi: nvidia-smi can't be run" in problem
    assert "dcmi: libdcmi.so was not found" in problem
    assert "npu-smi: npu-smi can't be run" in problem
    assert "amdsmi: libamd_smi.so was not found" in problem
    assert "rocm-smi: rocm-smi can't be run" in problem


def test_a_driver_that_is_loaded_later_is_found_without_a_restart(tmp_path: Path) -> None:
    stub = Stub(tmp_path)
    with Watched(stub.environment | {"PATH": str(tmp_path)}) as watched:
        assert watched.discover()["count"] == 0
        stub.write(StubMachine(()))
        assert "nvml: there are no devices" in watched.discover()["problems"][0]
        stub.write(dgx1_v100())
        assert watched.discover()["name"] == "nvml"
        stub.write(dgx1_v100().losing(2))
        assert watched.discover()["count"] == 8


def test_the_library_is_found_in_the_file_system_of_the_host(tmp_path: Path, bare: dict[str, str]) -> None:
    stub = Stub(tmp_path)
    stub.write(dgx1_v100())
    folder = tmp_path / "host/usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.1").symlink_to(stub.library)
    with Watched(stub.environment | bare, str(tmp_path / "host")) as watched:
        assert watched.discover()["name"] == "nvml"


def test_huaweis_library_is_found_where_its_driver_installs_it(tmp_path: Path, bare: dict[str, str]) -> None:
    stub = DcmiStub(tmp_path)
    stub.write(atlas_800())
    folder = tmp_path / "host/usr/local/dcmi"
    folder.mkdir(parents=True)
    (folder / "libdcmi.so").symlink_to(stub.library)
    with Watched(stub.environment | bare, str(tmp_path / "host")) as watched:
        assert watched.discover()["name"] == "dcmi"


def test_a_driver_can_be_selected_by_name() -> None:
    driver = open_driver("simulated", node="gpu-7", source="atlas-800")
    assert (driver.name, driver.discover().vendor) == ("simulated", "ascend")
    driver.close()


def test_devices_of_a_simulation_fail_by_a_file(tmp_path: Path) -> None:
    driver = open_driver("simulated", node="gpu-7", source=f"dgx1-v100:{tmp_path / 'unhealthy'}")
    assert driver.discover().faults == {}
    (tmp_path / "unhealthy").write_text("3\n", "ascii")
    assert list(driver.discover().faults) == ["nvidia-gpu-7-3"]


def test_measured_bandwidth_can_be_added_to_any_driver(tmp_path: Path) -> None:
    file = str(tmp_path / "no-such-file")
    driver = open_driver("simulated", node="gpu-7", source="dgx1-v100", bandwidth=file)
    assert file in driver.discover().problems[0]


@pytest.mark.parametrize(
    ("name", "source", "problem"),
    [
        (
            "cuda",
            "",
            "unknown driver 'cuda'; use one of auto, nvml, nvidia-smi, dcmi, npu-smi, amdsmi, amd-smi, rocm-smi, recorded, simulated",
        ),
        ("auto", "dgx1-v100", "source 'dgx1-v100' needs a driver"),
        ("recorded", "", "needs a source: the folder"),
        ("simulated", "", "needs a source: the name of a machine profile"),
        ("simulated", "dgx9", "unknown machine profile 'dgx9'"),
    ],
)
def test_an_invalid_choice_is_refused_with_what_to_do(name: str, source: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        open_driver(name, node="gpu-7", source=source)
    assert problem in str(raised.value)


def test_a_selected_library_that_can_not_be_loaded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="can't be loaded"):
        open_driver("nvml", node="gpu-7", source=str(tmp_path / "no-such-file"))


def test_every_driver_is_opened_by_its_own_name(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.write(dgx1_v100())
    npus = DcmiStub(tmp_path)
    npus.write(atlas_800())
    monkeypatch.setenv("DCMI_STUB", str(npus.config))
    amd = AmdSmiStub(tmp_path / "amd")
    amd.write(mi300())
    monkeypatch.setenv("AMDSMI_STUB", str(amd.config))
    (tmp_path / "list").write_text("index, uuid\n0, GPU-a\n", "utf-8")
    sources = {
        "nvml": str(stub.library),
        "nvidia-smi": "",
        "dcmi": str(npus.library),
        "npu-smi": "",
        "amdsmi": str(amd.library),
        "amd-smi": "",
        "rocm-smi": "",
        "recorded": str(tmp_path),
        "simulated": "dgx1-v100",
    }
    for name, opener in DRIVERS.items():
        driver = opener(DriverOptions("gpu-7", sources[name]))
        assert driver.name == name
        driver.close()
