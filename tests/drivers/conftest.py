"""NVML for tests of drivers: the stub is loaded into this process, and each test has its own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.nvml.driver import NvmlDriver
from support.nvml_stub.stub import Stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """The stub; nothing is loaded until a machine is written."""
    made = Stub(tmp_path)
    monkeypatch.setenv("NVML_STUB", made.environment["NVML_STUB"])
    return made


class OpenNvml:
    """Opens drivers that read the stub, and closes them."""

    def __init__(self, stub: Stub, host: Path) -> None:
        self._stub = stub
        self._host = host
        self._opened: list[NvmlDriver] = []

    def __call__(self) -> NvmlDriver:
        driver = NvmlDriver(str(self._stub.library), host=self._host)
        self._opened.append(driver)
        return driver

    def close(self) -> None:
        for driver in self._opened:
            driver.close()


@pytest.fixture
def nvml(stub: Stub, tmp_path: Path) -> Iterator[OpenNvml]:
    """A function that opens the driver; /sys is a folder of the test."""
    opened = OpenNvml(stub, tmp_path)
    yield opened
    opened.close()
