"""What NVML reports is what the machine is: devices, facts, and the links that nvidia-smi prints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.model.link import Link
from linkwise.vendors.machines import PROFILES
from linkwise.vendors.readers import parse_topology
from support.builders.tool_texts import GPU_STYLES, Machine
from support.nvml_stub.machine import MIB, StubMachine, dgx1_v100, nvswitch_a100, of_profile, two_pcie

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.drivers.nvml.driver import NvmlDriver
    from linkwise.model.topology import Topology
    from linkwise.vendors.machine import MachineProfile
    from support.nvml_stub.stub import Stub

    Open = Callable[[], NvmlDriver]

LINKED = [machine for machine in PROFILES.values() if machine.vendor == "nvidia" and machine.topology.links]


def printed(topology: Topology) -> tuple[tuple[Link, ...], ...]:
    """The links as `nvidia-smi topo -m` prints them: NVLinks hide the PCIe path."""
    return tuple(tuple(Link(link.partition("+")[0]) for link in row) for row in topology.links)


@pytest.mark.rule("002.detect")
@pytest.mark.parametrize("machine", LINKED, ids=lambda machine: machine.name)
def test_the_links_of_a_known_machine_are_read(stub: Stub, nvml: Open, machine: MachineProfile) -> None:
    stub.write(of_profile(machine))
    found = nvml().discover()
    assert found.topology is not None
    assert found.topology.links == machine.topology.links
    assert found.topology.devices == tuple(device.id for device in found.devices)
    assert [(device.model, device.memory) for device in found.devices] == [
        (machine.model, machine.memory)
    ] * machine.devices
    assert (found.faults, found.problems, found.topology.warnings) == ({}, (), ())


@pytest.mark.rule("000.nvswitch")
@pytest.mark.parametrize("machine", [dgx1_v100(), nvswitch_a100(), two_pcie()], ids=["mesh", "switch", "pcie"])
def test_links_are_those_that_nvidia_smi_prints(stub: Stub, nvml: Open, machine: StubMachine) -> None:
    stub.write(machine)
    found = nvml().discover().topology
    assert found is not None
    names = tuple(f"GPU{index}" for index in range(len(found.devices)))
    text = GPU_STYLES["tabs"](Machine(names, printed(found), ("0-7",) * len(names), ("0",) * len(names)))
    assert parse_topology(text).links == printed(found)


def test_a_device_has_all_facts(stub: Stub, nvml: Open) -> None:
    machine = two_pcie().changing(1, minor=5, memory=40960 * MIB + 7, name="NVIDIA A100-SXM4-40GB")
    stub.write(machine)
    device = nvml().discover().devices[1]
    assert (device.id, device.index, device.minor) == (machine.gpus[1].uuid, 1, 5)
    assert (device.bus_id, device.model) == (machine.gpus[1].bus, "NVIDIA A100-SXM4-40GB")
    assert (device.memory, device.bytes, device.healthy) == (40960, 40960 * MIB + 7, True)


def test_versions_and_shared_facts_are_facts_of_the_machine(stub: Stub, nvml: Open) -> None:
    stub.write(nvswitch_a100())
    assert nvml().discover().facts == {
        "driver": "550.54.15",
        "nvml": "12.550.54.15",
        "cuda": "12.4",
        "compute": "8.0",
        "mig": "disabled",
        "model": "NVIDIA A100-SXM4-40GB",
    }


def test_facts_that_differ_between_devices_are_no_facts_of_the_machine(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().changing(1, name="Tesla T4", compute=(7, 5)))
    facts = nvml().discover().facts
    assert not {"model", "compute"} & facts.keys()


@pytest.mark.parametrize(("version", "shown"), [(12040, "12.4"), (11080, "11.8"), (13000, "13.0"), (9020, "9.2")])
def test_the_cuda_version_is_written_as_people_do(stub: Stub, nvml: Open, version: int, shown: str) -> None:
    stub.write(replace(two_pcie(), cuda=version))
    assert nvml().discover().facts["cuda"] == shown


def test_the_numa_node_is_that_of_the_nearest_cpus(stub: Stub, nvml: Open, tmp_path: Path) -> None:
    for name, node in (("0000:07:00.0", "1\n"), ("0000:0b:00.0", "-1\n")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(node, "ascii")
    stub.write(two_pcie().changing(0, numa=9))
    assert [device.numa for device in nvml().discover().devices] == [1, None]


def test_without_kernel_files_the_numa_node_is_the_one_that_nvml_reports(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().changing(0, numa=8).changing(1, numa=-1))
    assert [device.numa for device in nvml().discover().devices] == [8, None]


def test_two_gpus_of_one_board_are_closer_than_any_switch(stub: Stub, nvml: Open) -> None:
    stub.write(replace(two_pcie(), paths={(0, 1): 0}))
    topology = nvml().discover().topology
    assert topology is not None
    assert topology.links[0][1] == Link("BOARD")


def test_a_single_gpu_has_a_topology_of_one(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().without(1))
    topology = nvml().discover().topology
    assert topology is not None
    assert topology.links == (("X",),)


def test_a_driver_without_gpus_is_an_empty_machine(stub: Stub, nvml: Open) -> None:
    stub.write(StubMachine(()))
    found = nvml().discover()
    assert (found.vendor, found.devices, found.topology, found.problems) == ("", (), None, ())


def test_gpus_in_mig_mode_are_left_to_their_own_device_plugin(stub: Stub, nvml: Open) -> None:
    stub.write(nvswitch_a100().changing(2, mig=True))
    found = nvml().discover()
    assert [device.index for device in found.devices if not device.healthy] == [2]
    assert "MIG mode" in found.faults[found.devices[2].id]
    assert found.facts["mig"] == "mixed"


@pytest.mark.rule("002.versions")
def test_facts_that_differ_between_devices_are_facts_of_the_devices(stub: Stub, nvml: Open) -> None:
    machine = two_pcie().changing(0, brand=2, vbios="88.00.4F.00.09")
    stub.write(machine.changing(1, compute=(9, 0), brand=2, vbios="96.00.61.00.01"))
    found = nvml().discover()
    assert [dict(device.facts) for device in found.devices] == [
        {"compute": "7.0", "firmware": "88.00.4F.00.09"},
        {"compute": "9.0", "firmware": "96.00.61.00.01"},
    ]
    assert found.facts["brand"] == "tesla"


def test_a_brand_that_nvml_does_not_name_is_unknown(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().changing(0, brand=99).changing(1, brand=99))
    assert "brand" not in nvml().discover().facts
