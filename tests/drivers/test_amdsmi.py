"""AMD SMI as a library: what it and the kernel report is the machine, and a GPU that fails is out of use until it works."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.amd.driver import AmdSmiLibraryDriver
from linkwise.errors import DriverError
from linkwise.model.link import Pcie
from linkwise.model.usage import DeviceUsage, ProcessUsage, UsageReading
from linkwise.node.usage import checked
from support.amdsmi_stub.machine import NOT_SUPPORTED, StubAmd, cpx, mi100_four, mi300
from support.amdsmi_stub.stub import AmdSmiStub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Opened = Callable[[StubAmd], AmdSmiLibraryDriver]

MIB = 1 << 20
GIB = 1 << 30
UUID = "12ff74a1-0000-1000-80bd-5ee800000000"


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AmdSmiStub:
    made = AmdSmiStub(tmp_path)
    monkeypatch.setenv("AMDSMI_STUB", made.environment["AMDSMI_STUB"])
    return made


@pytest.fixture
def amdsmi(stub: AmdSmiStub, tmp_path: Path) -> Iterator[Opened]:
    """A function that opens the driver on a machine; /sys and /opt are folders of the test."""
    drivers: list[AmdSmiLibraryDriver] = []

    def opened(machine: StubAmd) -> AmdSmiLibraryDriver:
        stub.write(machine)
        drivers.append(AmdSmiLibraryDriver(str(stub.library), host=tmp_path))
        return drivers[-1]

    yield opened
    for driver in drivers:
        driver.close()


@pytest.mark.rule("002.detect", "002.vendors")
def test_gpus_have_their_uuids_and_the_device_nodes_of_the_kernel(amdsmi: Opened) -> None:
    found = amdsmi(mi300()).discover()
    assert (found.vendor, len(found.devices), found.faults, found.problems) == ("amd", 8, {}, ())
    third = found.devices[2]
    assert (third.id, third.index, third.bus_id) == (UUID, 2, "0000:2c:00.0")
    assert (third.minor, third.nodes, found.devices[7].numa) == (130, ("/dev/dri/card3",), 1)
    assert (third.model, third.memory, third.bytes) == ("AMD Instinct MI300X", 196592, 196592 << 20)


def test_versions_are_those_of_driver_rocm_and_firmware(amdsmi: Opened) -> None:
    assert amdsmi(mi300()).discover().facts == {
        "driver": "6.12.12",
        "rocm": "6.4.1",
        "firmware": "113-M3000100-103",
        "model": "AMD Instinct MI300X",
    }


@pytest.mark.parametrize("options", [(), ("-DLONG_TEXTS",), ("-DOLD_ROCM",)])
def test_structures_of_old_and_new_releases_are_read(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = AmdSmiStub(tmp_path, *options)
    monkeypatch.setenv("AMDSMI_STUB", str(stub.config))
    stub.write(mi300(2).changing("g1", ecc=(9, 1)))
    found = AmdSmiLibraryDriver(str(stub.library), host=tmp_path).discover()
    assert (found.facts["model"], found.facts["driver"]) == ("AMD Instinct MI300X", "6.12.12")
    assert [device.healthy for device in found.devices] == [True, False]


def test_xgmi_joins_each_with_each(amdsmi: Opened) -> None:
    topology = amdsmi(mi300()).discover().topology
    assert topology is not None
    assert {link for row in topology.links for link in row} == {"X", "XGMI"}


def test_pcie_paths_are_graded_by_weight(amdsmi: Opened) -> None:
    topology = amdsmi(mi100_four()).discover().topology
    assert topology is not None
    assert (topology.links[0][2].pcie, topology.links[0][1].pcie) == (Pcie.PHB, Pcie.SYS)


def test_links_that_are_not_reported_are_unknown(amdsmi: Opened) -> None:
    topology = amdsmi(replace(mi300(3), links={})).discover().topology
    assert topology is not None
    assert topology.links == ()


def test_the_partitions_of_a_divided_gpu_are_devices_of_their_own(amdsmi: Opened) -> None:
    found = amdsmi(cpx()).discover()
    assert [device.id[-2:] for device in found.devices] == [f"-{number}" for number in range(8)]
    assert [(device.minor, device.nodes) for device in found.devices[:2]] == [
        (128, ("/dev/dri/card1",)),
        (129, ("/dev/dri/card2",)),
    ]
    assert (found.facts["partition"], found.devices[7].numa) == ("CPX/NPS4", 0)


def test_a_gpu_that_is_divided_while_the_agent_runs_is_replaced_by_its_partitions(
    amdsmi: Opened, stub: AmdSmiStub
) -> None:
    driver = amdsmi(mi300(1))
    assert len(driver.discover().devices) == 1
    stub.write(cpx())
    found = driver.discover()
    assert [device.healthy for device in found.devices] == [True] * 8
    assert "was replaced by" in found.problems[0]


def test_uncorrectable_errors_take_a_gpu_out_of_use_until_it_is_reset(amdsmi: Opened, stub: AmdSmiStub) -> None:
    driver = amdsmi(mi300().changing("g2", ecc=(7, 3)))
    found = driver.discover()
    assert [device.id for device in found.devices if not device.healthy] == [UUID]
    assert found.faults[UUID] == (
        "device 2 is unhealthy: its driver counts 3 uncorrectable memory errors; reset the GPU"
    )
    stub.write(mi300())
    assert driver.discover().faults == {}


def test_correctable_errors_and_a_few_retired_pages_do_not(amdsmi: Opened) -> None:
    found = amdsmi(mi300().changing("g2", ecc=(1000, 0), pages=3)).discover()
    assert all(device.healthy for device in found.devices)
    assert found.faults[UUID] == "device 2: works, but 3 bad pages of its memory are retired"


def test_as_many_retired_pages_as_the_driver_allows_do(amdsmi: Opened) -> None:
    found = amdsmi(mi300().changing("g2", pages=128)).discover()
    assert "128 bad pages of its memory are retired, and 128 is the limit" in found.faults[UUID]


def test_a_gpu_that_falls_off_the_bus_is_unhealthy_and_keeps_its_index_and_links(
    amdsmi: Opened, stub: AmdSmiStub
) -> None:
    driver = amdsmi(mi300())
    driver.discover()
    stub.write(mi300().without("g2"))
    for _ in range(3):
        found = driver.discover()
        assert [device.index for device in found.devices] == list(range(8))
        assert [device.id for device in found.devices if not device.healthy] == [UUID]
        assert found.topology is not None
        assert found.topology.links[2][3] == "XGMI"
    stub.write(mi300())
    assert all(device.healthy for device in driver.discover().devices)


@pytest.mark.parametrize("symbol", ["amdsmi_get_gpu_total_ecc_count", "amdsmi_get_gpu_memory_total"])
def test_a_gpu_that_answers_with_an_io_error_is_unhealthy(symbol: str, amdsmi: Opened) -> None:
    found = amdsmi(mi300().failing(symbol, "g2", 12)).discover()
    assert [device.id for device in found.devices if not device.healthy] == [UUID]
    assert "I/O error, error 12" in found.faults[UUID]


def test_what_the_hardware_does_not_support_is_no_fault(amdsmi: Opened) -> None:
    machine = mi300(2)
    for key in ("g0", "g1"):
        nothing = dict.fromkeys(
            ("model", "driver", "vram", "numa", "compute", "memory_mode", "ecc", "pages", "threshold")
        )
        machine = machine.changing(key, **nothing)
    found = amdsmi(machine).discover()
    assert (found.faults, [device.healthy for device in found.devices]) == ({}, [True, True])


def test_gpus_without_a_serial_number_are_distinguished_by_address(amdsmi: Opened) -> None:
    machine = mi300(2)
    for key in ("g0", "g1"):
        machine = machine.changing(key, uuid="00ff1586-0000-1000-8000-000000000000")
    ids = [device.id for device in amdsmi(machine).discover().devices]
    assert ids == [f"00ff1586-0000-1000-8000-000000000000-0000-{bus}-00.0" for bus in ("0c", "1c")]


def test_two_gpus_with_one_uuid_are_one_device_and_a_problem(amdsmi: Opened) -> None:
    found = amdsmi(mi300(2).changing("g1", uuid=mi300().gpus[0].uuid)).discover()
    assert (len(found.devices), "has the UUID of device 0" in found.problems[0]) == (1, True)


def test_a_gpu_without_a_render_node_can_be_given_to_no_container(amdsmi: Opened) -> None:
    found = amdsmi(mi300().changing("g2", render=None)).discover()
    assert (found.devices[2].minor, "no container can be given it" in found.faults[UUID]) == (None, True)


def test_garbage_in_every_text_is_cleaned_or_left_out(amdsmi: Opened) -> None:
    machine = mi300(2).changing("g0", model="\x07MI\x1b[0m", driver="\x01", compute="\x02", vram=1 << 63)
    found = amdsmi(machine.changing("g1", uuid="#7")).discover()
    assert [(device.model, device.memory) for device in found.devices] == [("MI[0m", 0)]
    assert "its UUID '#7' is invalid" in found.problems[0]


def test_other_processors_are_not_gpus(amdsmi: Opened, stub: AmdSmiStub) -> None:
    driver = amdsmi(mi300(2))
    stub.config.write_text(f"{mi300(2).text()}gpu 3 cpu\ntype cpu 2\nuuid cpu x\n", "ascii")
    assert len(driver.discover().devices) == 2


def test_without_its_kernel_module_the_driver_says_what_to_check(stub: AmdSmiStub, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"the driver is not loaded, error 34\); check that the amdgpu kernel module"):
        AmdSmiLibraryDriver(str(stub.library), host=tmp_path)


def test_a_driver_that_is_unloaded_is_found_again(amdsmi: Opened, stub: AmdSmiStub) -> None:
    driver = amdsmi(mi300())
    driver.discover()
    stub.remove()
    with pytest.raises(DriverError, match="amdsmi"):
        driver.discover()
    stub.write(mi300())
    assert len(driver.discover().devices) == 8


def test_a_library_that_lists_no_gpus_finds_none(amdsmi: Opened) -> None:
    found = amdsmi(StubAmd(())).discover()
    assert (found.vendor, found.devices) == ("", ())


def test_calls_that_fail_for_all_gpus_leave_none(amdsmi: Opened) -> None:
    found = amdsmi(mi300(2).failing("amdsmi_get_gpu_device_uuid", code=NOT_SUPPORTED)).discover()
    assert (found.devices, "AMD SMI can't read its UUID" in found.problems[0]) == ((), True)


def test_a_library_that_can_not_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"amdsmi: .*/libamd_smi.so can't be loaded"):
        AmdSmiLibraryDriver(str(tmp_path / "libamd_smi.so"))


@pytest.mark.rule("002.usage")
def test_memory_and_utilization_are_those_of_amd_smi_and_processes_those_of_the_kernel(amdsmi: Opened) -> None:
    busy = mi300(3).changing("g2", used=5 * GIB, busy=61)
    driver = amdsmi(replace(busy, processes={4242: {"g2": 4 * GIB, "g0": 0}, 4243: {"g2": GIB}}))
    driver.discover()
    first, _, third = driver.usage().devices
    assert third == DeviceUsage(UUID, 196592 * MIB, 5 * GIB, 61, (ProcessUsage(4242, 4 * GIB), ProcessUsage(4243, GIB)))
    assert (first.used, first.utilization, first.processes) == (283 * MIB, 0, ())


def test_processes_are_unknown_where_the_kernel_lists_none(amdsmi: Opened) -> None:
    driver = amdsmi(replace(mi300(1), processes=None))
    driver.discover()
    assert driver.usage().devices[0].processes is None


def test_usage_that_the_hardware_does_not_report_is_unknown(amdsmi: Opened) -> None:
    machine = mi300(2).changing("g0", used=None, busy=None, vram=None).changing("g1", used=1 << 63, busy=65535)
    driver = amdsmi(replace(machine, processes={7: {"g0": "N/A"}, 8: {"g1": "9" * 30}}))
    driver.discover()
    first, second = driver.usage().devices
    assert first == DeviceUsage(first.id, processes=(ProcessUsage(7),))
    assert (second.used, second.utilization, second.processes) == (None, None, (ProcessUsage(8),))


def test_more_memory_in_use_than_a_gpu_has_is_ignored(amdsmi: Opened) -> None:
    driver = amdsmi(replace(mi300(1).changing("g0", used=200 * GIB), processes={7: {"g0": 201 * GIB}}))
    driver.discover()
    reading = checked(driver.usage())
    assert (reading.devices[0].used, reading.devices[0].processes) == (None, (ProcessUsage(7),))
    assert "bytes of memory in use are reported" in reading.problems[0]


@pytest.mark.parametrize("code", [1, 2, 9, 10, 40, 0xFFFFFFFE])
def test_an_error_hides_one_value_of_one_gpu(code: int, amdsmi: Opened) -> None:
    machine = mi300(2).changing("g0", busy=5).failing("amdsmi_get_gpu_memory_usage", "g0", code)
    driver = amdsmi(machine.failing("amdsmi_get_gpu_activity", "g1", code))
    driver.discover()
    found = driver.usage()
    assert [(one.used, one.utilization) for one in found.devices] == [(None, 5), (283 * MIB, None)]
    assert found.problems == ()


def test_a_lost_gpu_has_no_usage_and_the_other_one_has(amdsmi: Opened) -> None:
    driver = amdsmi(mi300(2).failing("amdsmi_get_gpu_memory_usage", "g0", 31))
    driver.discover()
    found = driver.usage()
    assert [one.id[:2] for one in found.devices] == ["11"]
    assert found.problems == ("device 0: its usage can't be read (the device was not found, error 31)",)


def test_a_partition_uses_what_its_processes_have(amdsmi: Opened) -> None:
    machine = cpx().changing("p0", used=90 * GIB, busy=70)
    driver = amdsmi(replace(machine, processes={7: {"p0": GIB, "p1": 2 * GIB}, 8: {"p1": GIB}, 9: {"p2": "?"}}))
    driver.discover()
    first, second, third = driver.usage().devices[:3]
    assert (first.total, first.used, first.utilization) == (24574 * MIB, GIB, None)
    assert (second.used, second.processes) == (3 * GIB, (ProcessUsage(7, 2 * GIB), ProcessUsage(8, GIB)))
    assert third.used is None


def test_there_is_no_usage_before_the_first_discovery_and_after_the_last(amdsmi: Opened, stub: AmdSmiStub) -> None:
    driver = amdsmi(mi300(2))
    assert driver.usage() == UsageReading()
    driver.discover()
    assert len(driver.usage().devices) == 2
    stub.remove()
    with pytest.raises(DriverError, match="amdsmi"):
        driver.discover()
    assert driver.usage() == UsageReading()


def test_usage_of_old_and_new_releases_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("-DLONG_TEXTS", "-DOLD_ROCM"):
        stub = AmdSmiStub(tmp_path, option)
        monkeypatch.setenv("AMDSMI_STUB", str(stub.config))
        stub.write(mi300(1).changing("g0", used=GIB, busy=9))
        driver = AmdSmiLibraryDriver(str(stub.library), host=tmp_path)
        driver.discover()
        assert [(one.used, one.utilization) for one in driver.usage().devices] == [(GIB, 9)]
