"""DCMI as a library: what it reports is the machine, and a chip that fails is out of use until it works again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.drivers.dcmi import DcmiDriver
from linkwise.errors import DriverError
from support.dcmi_stub.machine import StubNpus, atlas_800, duo
from support.dcmi_stub.stub import DcmiStub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DcmiStub:
    made = DcmiStub(tmp_path)
    monkeypatch.setenv("DCMI_STUB", made.environment["DCMI_STUB"])
    return made


@pytest.fixture
def dcmi(stub: DcmiStub, tmp_path: Path) -> Callable[[StubNpus], DcmiDriver]:
    """A function that opens the driver on a machine; /sys and /etc are folders of the test."""

    def opened(machine: StubNpus) -> DcmiDriver:
        stub.write(machine)
        return DcmiDriver(str(stub.library), host=tmp_path)

    return opened


def unhealthy(driver: DcmiDriver) -> list[str]:
    return [device.id for device in driver.discover().devices if not device.healthy]


@pytest.mark.rule("002.detect")
def test_chips_have_the_names_and_numbers_of_huaweis_tools(dcmi: Callable[[StubNpus], DcmiDriver]) -> None:
    found = dcmi(atlas_800()).discover()
    assert (found.vendor, found.faults, found.problems) == ("ascend", {}, ())
    assert [(one.id, one.index, one.minor) for one in found.devices[:2]] == [
        ("Ascend910-0", 0, 0),
        ("Ascend910-1", 1, 1),
    ]
    first = found.devices[0]
    assert (first.model, first.memory, first.bus_id) == ("Ascend 910A", 32768, "0000:11:00.0")
    assert found.facts == {"driver": "23.0.3", "model": "Ascend 910A"}
    assert found.addresses["Ascend910-7"] == "192.168.100.108"


def test_hccs_links_form_two_rings(dcmi: Callable[[StubNpus], DcmiDriver]) -> None:
    topology = dcmi(atlas_800()).discover().topology
    assert topology is not None
    assert topology.rings == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert (topology.links[0][3], topology.links[0][4]) == ("HCCS", "SYS")


def test_hardware_that_reports_no_links_has_none(dcmi: Callable[[StubNpus], DcmiDriver]) -> None:
    topology = dcmi(StubNpus(atlas_800().chips)).discover().topology
    assert topology is not None
    assert (topology.links, topology.rings) == ((), ())


def test_the_number_is_the_physical_id_and_not_the_card(dcmi: Callable[[StubNpus], DcmiDriver]) -> None:
    found = dcmi(duo()).discover()
    assert [one.id for one in found.devices] == [f"Ascend310P-{number}" for number in range(4)]
    assert {one.memory for one in found.devices} == {44280}


@pytest.mark.rule("003.faulty")
def test_a_chip_with_a_critical_fault_is_unhealthy_until_it_reports_none(
    dcmi: Callable[[StubNpus], DcmiDriver], stub: DcmiStub
) -> None:
    driver = dcmi(atlas_800())
    assert unhealthy(driver) == []
    stub.write(atlas_800().faulty(5, 0x80E01801))
    found = driver.discover()
    assert found.faults == {"Ascend910-5": "device 5 is unhealthy: its health is Critical (error 0x80E01801)"}
    assert unhealthy(driver) == ["Ascend910-5"]
    stub.write(atlas_800())
    assert unhealthy(driver) == []


@pytest.mark.parametrize(("health", "usable"), [(1, True), (2, False), (3, False), (0xFFFFFFFF, False), (-8008, False)])
def test_a_warning_leaves_a_chip_in_use_and_worse_does_not(
    dcmi: Callable[[StubNpus], DcmiDriver], health: int, *, usable: bool
) -> None:
    found = dcmi(atlas_800().changing(2, health=health)).discover()
    assert found.devices[2].healthy is usable
    assert list(found.faults) == ["Ascend910-2"]


def test_a_chip_that_others_can_not_reach_stays_healthy(dcmi: Callable[[StubNpus], DcmiDriver]) -> None:
    found = dcmi(atlas_800().unreachable(6)).discover()
    assert found.devices[6].healthy
    assert found.network_faults == {"Ascend910-6": "the destination is unreachable"}


@pytest.mark.parametrize("lost", [atlas_800().without(3), atlas_800().failing("*", 3)])
def test_a_lost_chip_turns_unhealthy_and_the_others_keep_their_numbers(
    dcmi: Callable[[StubNpus], DcmiDriver], stub: DcmiStub, lost: StubNpus
) -> None:
    driver = dcmi(atlas_800())
    before = driver.discover()
    stub.write(lost)
    after = driver.discover()
    assert [one.index for one in after.devices] == list(range(8))
    assert [one.id for one in after.devices if not one.healthy] == ["Ascend910-3"]
    assert after.topology is not None
    assert before.topology is not None
    assert after.topology.links == before.topology.links
    stub.write(atlas_800())
    assert unhealthy(driver) == []


def test_addresses_come_from_the_hosts_file_where_dcmi_has_none(
    dcmi: Callable[[StubNpus], DcmiDriver], tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hccn.conf").write_text(
        "address_0=10.0.0.1\nnetmask_0=255.255.255.0\naddress_1=10.0.0.2\n", "ascii"
    )
    found = dcmi(atlas_800().changing(1, ip=None)).discover()
    assert (found.addresses["Ascend910-0"], found.addresses["Ascend910-1"]) == ("192.168.100.101", "10.0.0.2")


def test_a_driver_that_is_unloaded_is_an_error_until_it_is_loaded_again(
    dcmi: Callable[[StubNpus], DcmiDriver], stub: DcmiStub
) -> None:
    driver = dcmi(atlas_800())
    driver.discover()
    stub.remove()
    with pytest.raises(DriverError, match="the Ascend kernel driver is not loaded; check `lsmod"):
        driver.discover()
    stub.write(atlas_800())
    assert len(driver.discover().devices) == 8


def test_an_early_driver_without_newer_functions_is_read(tmp_path: Path, stub: DcmiStub) -> None:
    old = DcmiStub(tmp_path, old_driver=True)
    stub.write(atlas_800())
    found = DcmiDriver(str(old.library), host=tmp_path).discover()
    assert (len(found.devices), found.devices[0].model, found.faults) == (8, "Ascend 910A", {})


def test_a_library_that_can_not_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="can't be loaded"):
        DcmiDriver(str(tmp_path / "none.so"))
