"""A dead, lost or odd GPU degrades itself, and nothing else of the node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from linkwise.drivers.nvml.driver import NvmlDriver
from linkwise.model.topology import MAX_DEVICES
from linkwise.vendors.nvidia.xid import harmless_xids
from support.nvml_stub.machine import (
    GPU_IS_LOST,
    NVLINK_SWITCH,
    UNKNOWN,
    StubLink,
    StubMachine,
    dgx1_v100,
    nvswitch_a100,
    two_pcie,
)
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.model.inventory import Discovery
    from support.nvml_stub.stub import Stub

    Open = Callable[[], NvmlDriver]

FALLEN = "the driver reported Xid 79 (the GPU has fallen off the bus; restart the node)"
DEVICE_SYMBOLS = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceRegisterEvents",
)
SYSTEM_SYMBOLS = (
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlEventSetCreate",
    "nvmlEventSetWait_v2",
)


def unhealthy(found: Discovery) -> list[int]:
    return [device.index for device in found.devices if not device.healthy]


def links_of(found: Discovery) -> list[list[str]]:
    assert found.topology is not None
    return [[str(link) for link in row] for row in found.topology.links]


@pytest.mark.rule("002.detect")
def test_a_lost_gpu_stays_as_an_unhealthy_device_with_all_that_is_known_of_it(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    before = driver.discover()
    stub.write(dgx1_v100().losing(3))
    after = driver.discover()
    assert after.devices == tuple(replace(device, healthy=device.index != 3) for device in before.devices)
    assert links_of(after) == links_of(before)
    assert after.faults == {before.devices[3].id: "device 3 is lost: NVML can't open it (GPU is lost)"}
    assert after.problems == ()


def test_a_gpu_that_was_never_read_is_left_out_with_a_sentence(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100().losing(3))
    found = nvml().discover()
    assert [device.index for device in found.devices] == [0, 1, 2, 4, 5, 6, 7]
    assert found.problems == ("device 3 is left out: NVML can't open it (GPU is lost)",)
    assert unhealthy(found) == []


def test_a_lost_gpu_recovers_when_it_is_read_again(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    first = driver.discover()
    stub.write(dgx1_v100().losing(0).losing(7))
    assert unhealthy(driver.discover()) == [0, 7]
    stub.write(dgx1_v100())
    assert driver.discover() == first


def test_a_gpu_that_the_driver_no_longer_lists_keeps_its_index_and_moves_no_other(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    before = driver.discover()
    stub.write(dgx1_v100().without(3))
    after = driver.discover()
    assert [(device.id, device.index) for device in after.devices] == [
        (device.id, device.index) for device in before.devices
    ]
    assert unhealthy(after) == [3]
    assert after.faults == {before.devices[3].id: "device 3 is lost: the driver no longer reports it"}
    assert links_of(after) == links_of(before)


def test_another_gpu_in_the_same_slot_replaces_the_one_before(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    old = driver.discover().devices[1].id
    stub.write(two_pcie().changing(1, uuid="GPU-new"))
    found = driver.discover()
    assert [(device.id, device.index) for device in found.devices][1:] == [("GPU-new", 1)]
    assert found.problems == (f"device {old} at 0000:0b:00.0 was replaced by GPU-new",)


def test_a_gpu_whose_uuid_can_no_longer_be_read_is_known_by_its_bus_id(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    driver.discover()
    stub.write(dgx1_v100().failing("nvmlDeviceGetUUID", 5, GPU_IS_LOST))
    found = driver.discover()
    assert unhealthy(found) == [5]
    assert found.faults[found.devices[5].id] == "device 5 is lost: NVML can't read its UUID (GPU is lost)"


def test_a_gpu_that_answers_half_is_unhealthy_and_keeps_its_facts(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    before = driver.discover()
    dying = dgx1_v100().failing("nvmlDeviceGetMemoryInfo", 2, GPU_IS_LOST)
    stub.write(dying.failing("nvmlDeviceGetNvLinkState", 2, GPU_IS_LOST))
    after = driver.discover()
    assert after.devices[2] == replace(before.devices[2], healthy=False)
    assert (links_of(after), after.problems) == (links_of(before), ())


@pytest.mark.parametrize("symbol", DEVICE_SYMBOLS)
@pytest.mark.parametrize("code", [UNKNOWN, GPU_IS_LOST, 3, 4, 13], ids=lambda code: f"code{code}")
def test_any_error_of_one_gpu_leaves_the_others_as_they_are(stub: Stub, nvml: Open, symbol: str, code: int) -> None:
    stub.write(dgx1_v100().failing(symbol, 6, code))
    found = nvml().discover()
    others = [device for device in found.devices if device.index != 6]
    assert [device.index for device in others] == [0, 1, 2, 3, 4, 5, 7]
    assert all(device.healthy and device.memory == 16160 and device.minor == device.index for device in others)
    rows = [device.id for device in found.devices]
    assert found.topology is not None
    assert found.topology.links[rows.index(others[0].id)][rows.index(others[3].id)] == "NV2+PHB"


@pytest.mark.parametrize("symbol", SYSTEM_SYMBOLS)
def test_a_missing_fact_of_the_machine_is_missing_and_no_more(stub: Stub, nvml: Open, symbol: str) -> None:
    stub.write(two_pcie().failing(symbol, None, 13))
    found = nvml().discover()
    assert (len(found.devices), found.faults, found.problems) == (2, {}, ())


def test_a_link_that_only_one_end_reports_does_not_count_and_is_named(stub: Stub, nvml: Open) -> None:
    machine = dgx1_v100()
    down = tuple(replace(link, active=link.remote != machine.gpus[3].bus) for link in machine.gpus[0].links)
    stub.write(machine.changing(0, links=down))
    found = nvml().discover()
    assert links_of(found)[0][3] == links_of(found)[3][0] == "PHB"
    assert found.problems == (
        "the two ends report different numbers of NVLinks between devices 0 and 3 (0 and 2); the smaller one is used",
    )
    assert unhealthy(found) == []


@pytest.mark.rule("000.nvswitch")
def test_a_gpu_with_fewer_switch_links_limits_its_pairs(stub: Stub, nvml: Open) -> None:
    machine = nvswitch_a100()
    stub.write(machine.changing(5, links=machine.gpus[5].links[:10]))
    found = nvml().discover()
    assert links_of(found)[5][0] == "NV10+SYS"
    assert links_of(found)[0][1] == "NV12+PXB"
    assert found.topology is not None
    assert found.topology.warnings == ("GPU5 has NV10 where the others have NV12: the fabric may be degraded",)


def test_links_of_a_gpu_to_a_cpu_are_not_switch_links(stub: Stub, nvml: Open) -> None:
    to_cpu = tuple(StubLink(number, f"00000006:{number:02X}:00.0", type=1) for number in range(3))
    stub.write(two_pcie().changing(0, links=to_cpu).changing(1, links=to_cpu))
    assert links_of(nvml().discover())[0][1] == "PHB"


def test_links_to_a_gpu_that_was_never_read_are_not_switch_links(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100().losing(3).failing("nvmlDeviceGetNvLinkRemoteDeviceType", None, 13))
    assert links_of(nvml().discover())[0][:3] == ["X", "NV1+PIX", "NV1+PHB"]


def test_remote_ends_outside_the_machine_are_switches_for_drivers_that_do_not_tell(stub: Stub, nvml: Open) -> None:
    stub.write(nvswitch_a100().failing("nvmlDeviceGetNvLinkRemoteDeviceType", None, 13))
    assert links_of(nvml().discover())[0][1] == "NV12+PXB"


def test_an_unknown_path_is_an_unknown_link_and_no_error(stub: Stub, nvml: Open) -> None:
    stub.write(replace(two_pcie(), paths={(0, 1): 77}))
    assert links_of(nvml().discover()) == [["X", "?"], ["?", "X"]]


def test_the_second_gpu_of_a_uuid_is_left_out(stub: Stub, nvml: Open) -> None:
    uuid = two_pcie().gpus[0].uuid
    stub.write(two_pcie().changing(1, uuid=uuid))
    found = nvml().discover()
    assert [device.index for device in found.devices] == [0]
    assert found.problems == (f"device 1 is left out: it has the UUID of device 0, {uuid}",)


@pytest.mark.parametrize("uuid", ["", "GPU-" + "a" * 60, "#1", " \t", "GPU-\x07a"])
def test_an_invalid_uuid_is_refused(stub: Stub, nvml: Open, uuid: str) -> None:
    stub.write(two_pcie().changing(1, uuid=uuid))
    found = nvml().discover()
    assert [device.index for device in found.devices] == [0]
    assert len(found.problems) == 1
    assert found.problems[0].startswith("device 1 is left out: its UUID '")


def test_names_are_cleaned(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().changing(0, name=b"Tesla\x1b[31m V100\x07 ").changing(1, name=b"\xff\xfe\xfd"))
    devices = nvml().discover().devices
    assert [device.model for device in devices] == ["Tesla[31m V100", ""]
    assert all(device.healthy for device in devices)


@pytest.mark.parametrize("memory", [2**64 - 1, 2**60])
def test_an_impossible_memory_size_is_not_believed(stub: Stub, nvml: Open, memory: int) -> None:
    stub.write(two_pcie().changing(1, memory=memory))
    found = nvml().discover()
    assert (found.devices[1].memory, found.devices[1].bytes, found.devices[1].healthy) == (0, 0, True)
    assert "memory is unknown" in found.faults[found.devices[1].id]


def test_more_gpus_than_there_can_be_are_not_read(stub: Stub, nvml: Open) -> None:
    stub.write(replace(two_pcie(), count=4_000_000))
    found = nvml().discover()
    assert [device.index for device in found.devices] == [0, 1]
    assert found.problems[0] == f"NVML reports 4000000 devices; the first {MAX_DEVICES} are read"


def test_a_critical_xid_makes_a_device_unhealthy_in_the_next_discovery(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    driver.discover()
    stub.write(dgx1_v100().with_xid(4, 79))
    found = driver.discover()
    assert found.faults == {found.devices[4].id: f"device 4 is unhealthy: {FALLEN}"}
    assert unhealthy(found) == [4]
    assert unhealthy(driver.discover()) == []


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_an_xid_of_an_application_is_no_fault_of_the_device(stub: Stub, nvml: Open, xid: int) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    stub.write(two_pcie().with_xid(1, xid))
    assert driver.wait(0.05) == {}
    assert driver.discover().faults == {}


def test_an_xid_event_ends_the_wait_for_it_at_once(stub: Stub, nvml: Open) -> None:
    stub.write(dgx1_v100())
    driver = nvml()
    found = driver.discover()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(driver.wait, 60.0)
        stub.write(dgx1_v100().with_xid(4, 79))
        assert waiting.result(timeout=10) == {found.devices[4].id: FALLEN}
    assert unhealthy(driver.discover()) == [4]


def test_a_gpu_reports_further_xids_after_the_first_one(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    for count, machine in enumerate((two_pcie().with_xid(1, 79), two_pcie().with_xid(1, 79).with_xid(1, 48)), 1):
        stub.write(machine)
        assert len(driver.wait(0.05) or {}) == 1, count
        assert unhealthy(driver.discover()) == [1]


def test_without_events_there_is_nothing_to_wait_for(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie().failing("nvmlEventSetCreate", None, 3))
    driver = nvml()
    driver.discover()
    assert driver.wait(60.0) is None


def test_a_driver_that_is_unloaded_ends_the_wait(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    stub.write(two_pcie().failing("nvmlEventSetWait_v2", None, 1))
    driver.wait(0.02)  # the stub notices that its machine changed
    assert driver.wait(60.0) is None


def test_the_driver_can_be_closed_while_a_thread_waits(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(driver.wait, 0.3)
        driver.close()
        assert waiting.result(timeout=10) in ({}, None)


def test_settings_decide_which_xids_are_fatal(stub: Stub, tmp_path: Path) -> None:
    stub.write(two_pcie())
    driver = NvmlDriver(str(stub.library), host=tmp_path, harmless=harmless_xids(ignored=[79], fatal=[31]))
    driver.discover()
    stub.write(two_pcie().with_xid(0, 79).with_xid(1, 31))
    assert unhealthy(driver.discover()) == [1]
    driver.close()


def test_an_xid_without_a_device_is_a_problem_of_the_machine(stub: Stub, nvml: Open) -> None:
    stub.write(two_pcie())
    driver = nvml()
    driver.discover()
    stub.write(two_pcie().with_xid(-1, 119))
    found = driver.discover()
    assert (unhealthy(found), found.problems) == (
        [],
        ("the driver reported Xid 119 (no answer of the GSP firmware; reset the device) without naming a device",),
    )


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00"), max_size=90)
GARBAGE = st.builds(
    StubMachine.changing,
    st.just(two_pcie()),
    st.integers(0, 1),
    uuid=st.none() | WORDS,
    name=st.binary(max_size=60).map(lambda raw: raw.translate(None, b"\n\r\x00")),
    bus=WORDS,
    memory=st.none() | st.integers(0, 2**64 - 1),
    minor=st.none() | st.integers(-5, 2**31 - 1),
    numa=st.none() | st.integers(-5, 2**31 - 1),
    compute=st.none() | st.tuples(st.integers(-9, 99), st.integers(-9, 99)),
    links=st.lists(
        st.builds(
            StubLink, st.integers(0, 40), st.just("00000000:0B:00.0"), st.sampled_from([0, 1, NVLINK_SWITCH, 255])
        ),
        max_size=20,
    ).map(tuple),
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(machines=st.lists(GARBAGE, min_size=1, max_size=4))
def test_garbage_never_breaks_a_discovery(stub: Stub, nvml: Open, machines: list[StubMachine]) -> None:
    stub.write(two_pcie())
    driver = nvml()
    for machine in machines:
        stub.write(machine)
        found = driver.discover()
        ids, indices = [device.id for device in found.devices], [device.index for device in found.devices]
        assert len(set(ids)) == len(ids)
        assert indices == sorted(set(indices))
        assert all(0 < len(id_) <= 63 and id_.isprintable() for id_ in ids)
        assert all(device.memory >= 0 and device.model.isprintable() for device in found.devices)
        assert {device.id for device in found.devices if not device.healthy} <= found.faults.keys() <= set(ids)
        assert found.topology is not None
        assert found.topology.devices == tuple(ids)
    driver.close()
