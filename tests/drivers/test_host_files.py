"""Facts that the kernel has about a PCI device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.host_files import minor_number, near_nics, numa_node, pci_address

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


def test_nics_below_the_same_port_of_the_host_bridge_are_near(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    switch = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    places = {
        "0000:3d:00.0": f"{switch}/0000:3c:08.0/0000:3d:00.0",
        "mlx5_0": f"{switch}/0000:3c:10.0/0000:3e:00.0",
        "mlx5_1": "devices/pci0000:3a/0000:3a:01.0/0000:40:00.0",
        "mlx5_2": "devices/pci0000:ae/0000:ae:00.0/0000:b0:00.0",
        "mlx5_3": "devices/pci0000:3a/0000:3a:02.0",
    }
    for name, path in places.items():
        (sys / path).mkdir(parents=True)
        link = sys / (f"bus/pci/devices/{name}" if ":" in name else f"class/infiniband/{name}/device")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(sys / path)
    (sys / "class/infiniband/mlx5_9").mkdir()
    assert near_nics("00000000:3D:00.0", tmp_path) == ("mlx5_0",)
    assert near_nics("0000:99:00.0", tmp_path) == near_nics("../../etc", tmp_path) == ()
