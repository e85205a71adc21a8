"""Measured bandwidth is added to the devices it was measured between, or left out with a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.measured_bandwidth import MeasuredDriver, with_bandwidth
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.model.topology import Topology
from linkwise.vendors.machines import profile
from support.builders.tool_texts import nvbandwidth_text, p2p_text

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Unidirectional P2P=Enabled (P2P Writes)"
MATRIX = ((700.0, 40.5, 11.25), (40.25, 701.0, 12.5), (11.0, 12.0, 702.0))


def machine(*buses: str) -> Discovery:
    devices = tuple(Device(f"GPU-{index}", index, bus_id=bus) for index, bus in enumerate(buses))
    return Discovery("nvidia", devices, Topology(tuple(device.id for device in devices)))


def bandwidth(found: Discovery) -> object:
    return found.topology.bandwidth if found.topology else None


class Notified(SimulatedDriver):
    """Driver that is notified of a fault."""

    def wait(self, seconds: float) -> dict[str, str]:
        return {"GPU-0": f"within {seconds:g} s"}


def test_faults_of_the_measured_driver_are_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "none"
    assert MeasuredDriver(Notified("dgx1-v100", "n"), file).wait(2) == {"GPU-0": "within 2 s"}
    assert MeasuredDriver(SimulatedDriver("dgx1-v100", "n"), file).wait(2) is None


@pytest.mark.parametrize(
    "text", [p2p_text({TITLE: MATRIX}), nvbandwidth_text({"device_to_device_memcpy_write_ce": ("->", MATRIX)})]
)
def test_rows_belong_to_devices_by_index(text: str) -> None:
    found = with_bandwidth(machine("", "", ""), text, "test.txt")
    measured = bandwidth(found)
    assert isinstance(measured, tuple)
    assert [[measured[i][j] for j in range(3) if i != j] for i in range(3)] == [
        [40.5, 11.25],
        [40.25, 12.5],
        [11.0, 12.0],
    ]
    assert found.problems == ()


def test_rows_belong_to_devices_by_bus_id_where_the_test_prints_it() -> None:
    listed = "".join(
        f"Device: {number}, Tesla V100, pciBusID: {bus}, pciDeviceID: 0, pciDomainID:0\n"
        for number, bus in enumerate(("b", "7", "f"))
    )
    found = with_bandwidth(
        machine("00000000:07:00.0", "00000000:0B:00.0", "00000000:0F:00.0"), listed + p2p_text({TITLE: MATRIX}), "test"
    )
    measured = bandwidth(found)
    assert isinstance(measured, tuple)
    assert (measured[0][1], measured[1][0], measured[1][2]) == (40.25, 40.5, 11.25)


@pytest.mark.parametrize(
    ("devices", "text", "problem"),
    [
        (2, p2p_text({TITLE: MATRIX}), "it has 3 rows for 2 devices"),
        (3, p2p_text({TITLE: MATRIX}).rsplit("12.00", 1)[0], "measured bandwidth is not used"),
        (3, "nothing here", "has no complete matrix of bandwidth between devices"),
    ],
    ids=["other machine", "cut", "other text"],
)
def test_what_does_not_fit_is_a_problem_and_changes_nothing(devices: int, text: str, problem: str) -> None:
    before = machine(*("",) * devices)
    found = with_bandwidth(before, text, "test.txt")
    assert replace(found, problems=()) == before
    assert len(found.problems) == 1
    assert found.problems[0].startswith("test.txt")
    assert problem in found.problems[0]


def test_the_file_is_read_by_every_discovery(tmp_path: Path) -> None:
    file, rows = tmp_path / "bandwidth.txt", profile("dgx1-v100-measured").topology.bandwidth
    driver = MeasuredDriver(SimulatedDriver("dgx1-v100", "gpu-7"), file)
    assert driver.discover().problems == (f"bandwidth file {file}: No such file or directory",)
    file.write_text(p2p_text({TITLE: rows}), "utf-8")
    found = driver.discover()
    assert (found.problems, bandwidth(found)) == ((), rows)
    assert driver.name == "simulated"
    driver.close()


def test_unhealthy_devices_keep_their_rows(tmp_path: Path) -> None:
    file, rows = tmp_path / "bandwidth.txt", profile("dgx1-v100-measured").topology.bandwidth
    file.write_text(p2p_text({TITLE: rows}), "utf-8")
    driver = MeasuredDriver(SimulatedDriver("dgx1-v100", "gpu-7", unhealthy=[3]), file)
    assert bandwidth(driver.discover()) == rows
