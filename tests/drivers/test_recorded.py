"""A folder of recorded outputs is the machine that they describe, whatever the files are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.without_hardware import RecordedDriver
from linkwise.errors import InputError
from linkwise.model.link import Link
from linkwise.vendors.machines import profile
from support.amdsmi_stub.machine import mi300
from support.builders.amd_smi_json import amd_smi_json
from support.builders.tool_texts import GPU_STYLES, Machine, npu_text, p2p_text, rocm_smi_text

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.inventory import Discovery

MEASURED = profile("dgx1-v100-measured").topology.bandwidth
NPUS = """\
| NPU   Name      | Health | Power(W) Temp(C) Hugepages-Usage(page) |
| Chip            | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |
| 2     910B2     | OK     | 90.0 40 0 / 0 |
| 0               | 0000:5A:00.0 | 0 0 / 0 30001/ 65536 |
| 3     910B2     | Warning | 90.0 40 0 / 0 |
| 0               | 0000:5B:00.0 | 0 0 / 0 30001/ 65536 |
| 6     910B2     | Alarm  | 90.0 40 0 / 0 |
| 0               | 0000:5C:00.0 | 0 0 / 0 30001/ 65536 |
"""


def topo(count: int = 8) -> str:
    """The output of `nvidia-smi topo -m` of a DGX-1."""
    names = tuple(f"GPU{index}" for index in range(count))
    links = profile("dgx1-v100").topology.links
    rows = tuple(tuple(Link(link.partition("+")[0]) for link in row[:count]) for row in links[:count])
    return GPU_STYLES["tabs"](Machine(names, rows, ("0-19",) * count, ("1",) * count))


def query(*lines: str) -> str:
    return "\n".join(("index, uuid, name, memory.total [MiB], driver_version", *lines, ""))


def row(index: int) -> str:
    return f"{index}, GPU-{index}, Tesla V100-SXM2-16GB, 16160 MiB, 550.54.15"


def recorded(folder: Path, **files: str) -> Discovery:
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return RecordedDriver(folder, "gpu-7").discover()


def test_outputs_of_several_tools_are_one_machine(tmp_path: Path) -> None:
    found = recorded(
        tmp_path,
        a=p2p_text({"Unidirectional P2P=Enabled (P2P Writes)": MEASURED}),
        b=query(*map(row, range(8))),
        c=topo(),
    )
    assert (found.vendor, found.problems, found.faults) == ("nvidia", (), {})
    assert [device.id for device in found.devices] == [f"GPU-{index}" for index in range(8)]
    assert {(device.memory, device.bytes, device.numa) for device in found.devices} == {(16160, 16160 << 20, 1)}
    assert found.facts == {"driver": "550.54.15", "model": "Tesla V100-SXM2-16GB"}
    assert found.topology is not None
    assert (found.topology.links[0][3], found.topology.bandwidth) == ("NV2", MEASURED)


def test_devices_without_uuids_get_ids_of_their_node(tmp_path: Path) -> None:
    found = recorded(tmp_path, topo=topo())
    assert [device.id for device in found.devices][:2] == ["nvidia-gpu-7-0", "nvidia-gpu-7-1"]
    assert found.topology is not None
    assert found.topology.devices == tuple(device.id for device in found.devices)


def test_a_device_that_the_tool_does_not_list_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    found = recorded(tmp_path, topo=topo(3), query=query(row(0), row(2)))
    assert [device.index for device in found.devices] == [0, 2]
    assert found.problems == ("device 1 is left out: the tool reports no UUID for it",)
    assert found.topology is not None
    assert found.topology.links == (("X", "NV1"), ("NV1", "X"))


def test_files_that_change_are_read_again_and_lost_devices_stay(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(query(row(0), row(1)), "utf-8")
    driver = RecordedDriver(tmp_path, "gpu-7")
    driver.discover()
    (tmp_path / "list").write_text(query(row(1)), "utf-8")
    assert [(device.id, device.healthy) for device in driver.discover().devices] == [("GPU-0", False), ("GPU-1", True)]
    driver.close()


def test_ascend_devices_have_gaps_rings_and_health(tmp_path: Path) -> None:
    names = ("NPU2", "NPU3", "NPU6")
    links = (("X", "HCCS", "SYS"), ("HCCS", "X", "SYS"), ("SYS", "SYS", "X"))
    rows = tuple(tuple(map(Link, row)) for row in links)
    found = recorded(tmp_path, topo=npu_text(Machine(names, rows, ("0-7",) * 3, ("",) * 3)), info=NPUS)
    assert (found.vendor, found.problems) == ("ascend", ())
    assert [(device.id, device.healthy) for device in found.devices] == [
        ("ascend-gpu-7-2", True),
        ("ascend-gpu-7-3", True),
        ("ascend-gpu-7-6", False),
    ]
    assert found.faults == {
        "ascend-gpu-7-3": "device 3 works, but its health is Warning",
        "ascend-gpu-7-6": "device 6 is unhealthy: its health is Alarm",
    }
    assert found.topology is not None
    assert found.topology.rings == ((0, 1),)


def test_amd_devices_are_read(tmp_path: Path) -> None:
    found = recorded(tmp_path, topo=rocm_smi_text({"Link Type": [["0", "XGMI"], ["XGMI", "0"]]}, numa=[0, 1]))
    assert (found.vendor, [device.numa for device in found.devices]) == ("amd", [0, 1])
    assert found.topology is not None
    assert found.topology.links[0][1] == "XGMI"


def test_amd_devices_that_one_tool_names_by_bus_id_are_those_that_another_numbers(tmp_path: Path) -> None:
    machine = mi300(2)
    buses = [f"0000:{gpu.bus:02x}:00.0" for gpu in machine.gpus]
    table = f"LINK TYPE TABLE:\n             {' '.join(buses)}\n{buses[0]} SELF XGMI\n{buses[1]} XGMI SELF\n"
    found = recorded(tmp_path, links=table, list=amd_smi_json(machine, "list"), static=amd_smi_json(machine, "static"))
    assert [(device.id, device.memory) for device in found.devices] == [(gpu.uuid, 196592) for gpu in machine.gpus]
    assert found.topology is not None
    assert (found.topology.links[0][1], found.problems) == ("XGMI", ())


def test_devices_in_mig_mode_are_not_offered_as_a_whole(tmp_path: Path) -> None:
    text = "index, uuid, mig.mode.current\n0, GPU-a, Disabled\n1, GPU-b, Enabled\n"
    found = recorded(tmp_path, list=text)
    assert [(device.id, device.healthy) for device in found.devices] == [("GPU-a", True), ("GPU-b", False)]
    assert (found.facts["mig"], "MIG mode" in found.faults["GPU-b"]) == ("mixed", True)


def test_a_cut_file_and_a_foreign_file_are_problems(tmp_path: Path) -> None:
    cut = topo(4).splitlines(keepends=True)
    found = recorded(tmp_path, topo="".join(cut[:4]), notes="to do: buy milk\n", query=query(*map(row, range(4))))
    assert len(found.devices) == 4
    assert "notes is not the output of a known tool; it is ignored" in found.problems
    assert any(problem.startswith("topo: row GPU3 is missing") for problem in found.problems)


def test_outputs_of_two_vendors_are_not_mixed(tmp_path: Path) -> None:
    found = recorded(tmp_path, topo=topo(2), zinfo=NPUS)
    assert (found.vendor, len(found.devices)) == ("nvidia", 2)
    assert found.problems == ("zinfo lists devices of another vendor than nvidia; it is ignored",)


@pytest.mark.parametrize("uuid", ["GPU-0", "GPU-" + "0" * 70])
def test_a_second_device_with_an_invalid_or_known_uuid_is_left_out(tmp_path: Path, uuid: str) -> None:
    found = recorded(tmp_path, list=query(row(0), row(1).replace("GPU-1", uuid)))
    assert [device.id for device in found.devices] == ["GPU-0"]
    assert len(found.problems) == 1


@pytest.mark.parametrize("files", [{}, {"notes": "to do: buy milk"}])
def test_a_folder_without_outputs_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(InputError, match="has no output of a known tool"):
        recorded(tmp_path, **files)


def test_a_path_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        RecordedDriver(tmp_path / "nothing", "gpu-7")
