"""Facts that the kernel has about a PCI device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.host_files import minor_number, numa_node, pci_address

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("3b:00.0", ""),
        ("../../etc", ""),
        ("", ""),
    ],
)
def test_a_bus_id_is_written_as_the_kernel_does(bus_id: str, address: str) -> None:
    assert pci_address(bus_id) == address


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0", 0), ("-1\n", None), ("", None), ("x", None)])
def test_a_numa_node_is_known_or_none(tmp_path: Path, text: str, node: int | None) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text, "ascii")
    assert numa_node("00000000:3B:00.0", tmp_path) == node


def test_the_minor_number_is_in_the_information_of_the_kernel_module(tmp_path: Path) -> None:
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t Tesla T4\nDevice Minor: \t 3\nGPU Excluded:\t No\n", "ascii")
    assert minor_number("00000000:3B:00.0", tmp_path) == 3
    assert minor_number("00000000:3C:00.0", tmp_path) is None
