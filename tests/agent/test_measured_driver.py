"""The agent reads measured bandwidth at start and when the file changes, and reports a file that it can't read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.agent.measured_driver import LARGEST, MeasuredBandwidthDriver
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.model.inventory import Measurement
from linkwise.wire.measurement import encode_measurements

if TYPE_CHECKING:
    from pathlib import Path

IDS = tuple(f"nvidia-n-{index}" for index in range(8))


def stored(value: float) -> bytes:
    rows = tuple(tuple(0.0 if a == b else value for b in IDS) for a in IDS)
    return encode_measurements([Measurement("nvbandwidth", 0.0, IDS, rows)])


def driver(tmp_path: Path) -> tuple[MeasuredBandwidthDriver, Path]:
    file = tmp_path / "bandwidth.json"
    return MeasuredBandwidthDriver(SimulatedDriver("dgx1-v100", "n"), file), file


def first(found: MeasuredBandwidthDriver) -> float:
    topology = found.discover().topology
    return topology.bandwidth[0][1] if topology and topology.bandwidth else 0.0


def test_a_file_is_read_at_start_and_when_it_has_changed(tmp_path: Path) -> None:
    measured, file = driver(tmp_path)
    before = first(measured)
    file.write_bytes(stored(41.5))
    assert (first(measured), first(measured)) == (41.5, 41.5)
    replacement = tmp_path / "new"
    replacement.write_bytes(stored(17.5))
    replacement.replace(file)
    assert first(measured) == 17.5
    file.unlink()
    assert first(measured) == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"x" * (LARGEST + 1)])
def test_a_file_that_cant_be_read_is_a_problem_and_the_devices_stay(tmp_path: Path, content: bytes) -> None:
    measured, file = driver(tmp_path)
    file.write_bytes(content)
    found = measured.discover()
    assert len(found.devices) == 8
    assert found.problems[0].startswith(str(file))
    assert found.problems[0].endswith("measured bandwidth is not used")
