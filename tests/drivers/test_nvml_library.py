"""The library is initialised once, again after the driver was reloaded, and read only by discoveries."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.errors import DriverError
from support.environment import surroundings
from support.nvml_stub.machine import dgx1_v100, nvswitch_a100, two_pcie
from support.nvml_stub.stub import Stub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.drivers.nvml.driver import NvmlDriver

    Open = Callable[[], NvmlDriver]

DISCOVER = """
import json
from linkwise.drivers.nvml.driver import NvmlDriver
found = NvmlDriver().discover()
links = [list(row) for row in found.topology.links]
print(json.dumps({"facts": found.facts, "links": links, "problems": found.problems, "faults": found.faults}))
"""


def in_child(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=surroundings() | environment, check=False, capture_output=True, text=True)


@pytest.mark.rule("002.detect")
def test_a_process_finds_the_library_as_it_finds_nvidias(tmp_path: Path) -> None:
    stub = Stub(tmp_path)
    stub.write(dgx1_v100())
    found = json.loads(in_child(DISCOVER, stub.environment).stdout)
    assert found["links"][0] == ["X", "NV1+PIX", "NV1+PHB", "NV2+PHB", "NV2+SYS", "SYS", "SYS", "SYS"]


def test_functions_that_an_old_driver_lacks_cost_their_facts_only(tmp_path: Path) -> None:
    stub = Stub(tmp_path, old_driver=True)
    stub.write(nvswitch_a100())
    found = json.loads(in_child(DISCOVER, stub.environment).stdout)
    assert found["links"][0][:3] == ["X", "NV12+PXB", "NV12+NODE"]
    assert "mig" not in found["facts"]
    assert (found["facts"]["cuda"], found["faults"], found["problems"]) == ("12.4", {}, [])


def test_a_missing_library_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library", "ascii")  # found before a real one
    shown = in_child(DISCOVER, {"LD_LIBRARY_PATH": str(tmp_path)}).stderr
    assert "DriverError: nvml: libnvidia-ml.so.1 can't be loaded; install the NVIDIA driver" in shown


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (4, "run the agent as root in a privileged container"),
        (9, "the NVIDIA kernel driver is not loaded"),
        (18, "library and kernel driver are of different versions"),
        (999, "NVML can't be initialised (Unknown Error); check that `nvidia-smi` works on the node"),
    ],
)
def test_a_library_that_can_not_be_initialised_says_what_to_check(
    stub: Stub, nvml: Open, code: int, advice: str
) -> None:
    stub.write(two_pcie().failing("nvmlInitWithFlags", None, code))
    with pytest.raises(DriverError, match=r"^nvml: ") as raised:
        nvml()
    assert advice in str(raised.value)


def test_a_path_that_is_not_a_library_is_named(tmp_path: Path) -> None:
    from linkwise.drivers.nvml.driver import NvmlDriver  # noqa: PLC0415 - also used as a type above

    with pytest.raises(DriverError, match="no-such-file can't be loaded"):
        NvmlDriver(str(tmp_path / "no-such-file"))


def test_the_library_is_initialised_again_after_the_driver_was_reloaded(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    before = driver.discover()
    stub.remove()
    with pytest.raises(DriverError, match="the NVIDIA kernel driver is not loaded"):
        driver.discover()
    stub.write(two_pcie())
    assert driver.discover() == before


def test_a_driver_that_can_not_count_its_devices_is_an_error(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().failing("nvmlDeviceGetCount_v2"))
    with pytest.raises(DriverError, match=r"does not answer; .* \(NVML can't count the GPUs: Unknown Error\)"):
        nvml().discover()


def test_no_discovery_means_no_call(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    driver.discover()
    calls = stub.calls()
    driver.close()
    assert stub.calls() - calls == {"nvmlEventSetFree": 1, "nvmlShutdown": 1}
    assert calls["nvmlInitWithFlags"] == 1


def test_paths_between_devices_are_read_once(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    driver.discover()
    first = stub.calls()["nvmlDeviceGetTopologyCommonAncestor"]
    driver.discover()
    stub.write(dgx1_v100().losing(1))
    driver.discover()
    assert (first, stub.calls()["nvmlDeviceGetTopologyCommonAncestor"]) == (28, 28)
    assert stub.calls()["nvmlDeviceGetCount_v2"] == 3


def test_a_closed_driver_can_be_closed_again(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.close()
    driver.close()
    assert stub.calls()["nvmlShutdown"] == 1
