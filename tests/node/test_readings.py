"""Usage of a node: readings of the hardware as they are charged to pods, whatever the hardware reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.aliyun import MEMORY
from linkwise.model.device import Device
from linkwise.model.usage import DeviceUsage, Holding, NodeUsage, PodUsage, ProcessUsage, UsageReading
from linkwise.model.views import ContainerView, PodView
from linkwise.node.allocation import Allocations
from linkwise.node.usage import (
    OVER_USE,
    REPEATED,
    OverUse,
    attributed,
    averaged,
    checked,
    differs,
    holdings_of,
    pids_of,
    simulated_usage,
)

GIB = 1 << 30
NAMES = {"u1": ("team", "one"), "u2": ("team", "two")}


def reading(*processes: ProcessUsage, used: int = 8 * GIB, busy: int | None = 60) -> UsageReading:
    return UsageReading((DeviceUsage("GPU-0", 16 * GIB, used, busy, processes),))


def held(uid: str, share: int | None = None) -> Holding:
    return Holding(uid, *NAMES[uid], "GPU-0", share)


def by_pod(usage: NodeUsage) -> dict[str, tuple[int | None, int | None]]:
    return {pod.name: (pod.used, pod.utilization) for pod in usage.pods}


@pytest.mark.rule("002.usage")
def test_pods_that_share_a_device_are_charged_with_their_processes() -> None:
    found = reading(ProcessUsage(7, 3 * GIB, 20), ProcessUsage(8, GIB, 5), ProcessUsage(9, 2 * GIB, 30))
    usage = attributed(found, [held("u1", 4 * GIB), held("u2", 4 * GIB)], {7: "u1", 8: "u1", 9: "u2"}, NAMES)
    assert by_pod(usage) == {"one": (4 * GIB, 25), "two": (2 * GIB, 30)}


def test_a_process_of_the_host_is_charged_to_no_pod() -> None:
    found = reading(ProcessUsage(7, 3 * GIB, 20), ProcessUsage(1, 2 * GIB, 9))
    assert by_pod(attributed(found, [held("u1")], {7: "u1", 1: ""}, NAMES)) == {"one": (3 * GIB, 60)}


@pytest.mark.rule("002.usage")
@pytest.mark.parametrize("processes", [None, (ProcessUsage(7, None),), (ProcessUsage(7, GIB), ProcessUsage(99, GIB))])
def test_a_pod_with_a_whole_device_is_charged_with_it_where_processes_are_not_known(
    processes: tuple[ProcessUsage, ...] | None,
) -> None:
    found = UsageReading((DeviceUsage("GPU-0", 16 * GIB, 8 * GIB, 60, processes),))
    assert by_pod(attributed(found, [held("u1")], {7: "u1"}, NAMES)) == {"one": (8 * GIB, 60)}


@pytest.mark.parametrize("processes", [None, (ProcessUsage(7, None),)])
def test_nothing_is_guessed_for_pods_that_share_a_device(processes: tuple[ProcessUsage, ...] | None) -> None:
    found = UsageReading((DeviceUsage("GPU-0", 16 * GIB, 8 * GIB, 60, processes),))
    assert by_pod(attributed(found, [held("u1", GIB)], {7: "u1"}, NAMES)) == {"one": (None, None)}


def test_a_pod_that_uses_a_device_without_an_allocation_is_listed() -> None:
    usage = attributed(reading(ProcessUsage(7, GIB, 1)), [], {7: "u2"}, NAMES)
    assert usage.pods == (PodUsage("u2", "team", "two", "GPU-0", GIB, 1),)


def test_a_pod_that_is_not_known_is_not_listed() -> None:
    assert attributed(reading(ProcessUsage(7, GIB)), [], {7: "u9"}, NAMES).pods == ()


def test_impossible_values_are_ignored_and_reported() -> None:
    wrong = DeviceUsage("GPU-0", 16 * GIB, 17 * GIB, 101, (ProcessUsage(7, 99 * GIB, 400), ProcessUsage(0, GIB)))
    found = checked(UsageReading((wrong,)))
    assert found.devices == (DeviceUsage("GPU-0", 16 * GIB, None, None, (ProcessUsage(7),)),)
    assert len(found.problems) == 1


def test_a_process_that_is_listed_twice_counts_once() -> None:
    found = checked(reading(ProcessUsage(7, GIB, 5), ProcessUsage(7, GIB, None)))
    assert found.devices[0].processes == (ProcessUsage(7, GIB, 5),)


def test_the_first_process_of_a_machine_counts() -> None:
    assert checked(reading(ProcessUsage(1, GIB))).devices[0].processes == (ProcessUsage(1, GIB),)


_NUMBERS = st.one_of(st.none(), st.integers(-5, 2**70))
_DEVICES = st.builds(
    DeviceUsage,
    st.sampled_from(["GPU-0", "GPU-1"]),
    _NUMBERS,
    _NUMBERS,
    _NUMBERS,
    st.one_of(st.none(), st.lists(st.builds(ProcessUsage, st.integers(-3, 12), _NUMBERS, _NUMBERS)).map(tuple)),
)


@given(st.lists(_DEVICES, max_size=3), st.dictionaries(st.integers(0, 12), st.sampled_from(["", "u1", "u2", "u9"])))
def test_no_reading_breaks_anything_and_no_pod_uses_more_than_a_device_has(
    devices: list[DeviceUsage], owners: dict[int, str]
) -> None:
    found = checked(UsageReading(tuple(devices)))
    usage = attributed(found, [held("u1"), replace(held("u2", GIB), device="GPU-1")], owners, NAMES)
    for device in usage.devices:
        assert device.used is None or device.used >= 0
        assert device.total is None or device.used is None or device.used <= device.total
        assert device.utilization is None or 0 <= device.utilization <= 100
    assert all(pod.used is None or pod.used >= 0 for pod in usage.pods)
    assert all(pod.utilization is None or 0 <= pod.utilization <= 100 for pod in usage.pods)
    assert OverUse().events(usage, "n", 0.0) == []
    assert not differs(averaged([usage]), averaged([usage]), 0)
    assert all(pid > 0 for pid in pids_of(found))


def over(used: int) -> NodeUsage:
    return NodeUsage(pods=(PodUsage("u1", "team", "one", "GPU-0", used, 1, 4 * GIB),))


@pytest.mark.rule("002.usage")
def test_a_pod_above_its_share_gets_one_event_per_hour() -> None:
    reports = OverUse()
    made = [reports.events(over(5 * GIB), "n", float(second)) for second in range(0, int(REPEATED), 10)]
    (event,) = [event for events in made for event in events]
    assert (event.kind, event.reason, event.name, event.uid) == ("Warning", OVER_USE, "one", "u1")
    assert "uses 5 GiB of the memory of device GPU-0, more than its share of 4 GiB" in event.sentence
    assert made[0] == []  # one reading is not enough
    assert len(reports.events(over(5 * GIB), "n", REPEATED + 10)) == 1


def test_a_pod_that_goes_up_and_down_is_not_reported_again_and_again() -> None:
    reports = OverUse()
    sizes = (5, 5, 3, 5, 5, 3, 5, 5)
    made = [event for second, size in enumerate(sizes) for event in reports.events(over(size * GIB), "n", second)]
    assert len(made) == 1


def test_a_pod_at_its_share_is_not_above_it() -> None:
    reports = OverUse()
    assert [event for second in range(5) for event in reports.events(over(4 * GIB), "n", second)] == []


def test_utilization_is_averaged_and_memory_is_the_last() -> None:
    readings = [
        NodeUsage((DeviceUsage("GPU-0", 16 * GIB, used, busy),), (PodUsage("u1", "t", "p", "GPU-0", used, busy),))
        for used, busy in ((GIB, 10), (2 * GIB, 20), (3 * GIB, 90))
    ]
    found = averaged(readings)
    assert (found.devices[0].used, found.devices[0].utilization, found.pods[0].utilization) == (3 * GIB, 40, 40)


@pytest.mark.parametrize(
    ("used", "busy", "expected"),
    [(8 * GIB, 60, False), (8 * GIB + 1, 62, False), (9 * GIB, 60, True), (8 * GIB, 65, True), (None, 60, True)],
)
def test_a_summary_differs_by_percent_of_the_device(used: int | None, busy: int, expected: bool) -> None:  # noqa: FBT001
    before = NodeUsage((DeviceUsage("GPU-0", 16 * GIB, 8 * GIB, 60),))
    after = NodeUsage((DeviceUsage("GPU-0", 16 * GIB, used, busy),))
    assert differs(before, after, 5) is expected


def pod(uid: str, annotations: dict[str, str] | None = None, **limits: str) -> PodView:
    container = ContainerView("main", limits=limits)
    return PodView("team", f"pod-{uid}", uid, (container,), annotations=annotations or {}, node="n")


def test_a_share_is_what_the_kubelet_allocated() -> None:
    devices = (Device("GPU-0", 0, memory=16384),)
    allocations = Allocations(MEMORY, shared=True, pick=lambda *_: ())
    allocations.devices = {"GPU-0": devices[0]}
    main = ContainerView("main", limits={MEMORY: "3"})
    record = {
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "16",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1",
    }
    one = PodView("team", "one", "u1", (main,), annotations=record, node="n")
    allocations.observe(one)
    assert holdings_of([one], allocations, devices, "GiB") == (Holding("u1", "team", "one", "GPU-0", 3 * GIB),)


def test_shares_in_percent_are_of_the_devices_memory_until_the_pod_has_finished() -> None:
    allocated = (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory-ratio":"25"}}]}'
    )
    one = pod(
        "u1", {"scheduling.koordinator.sh/device-allocated": allocated}, **{"koordinator.sh/gpu-memory-ratio": "25"}
    )
    devices = (Device("GPU-0", 0, memory=16384),)
    assert [(one.device, one.share) for one in holdings_of([one], None, devices, "MiB")] == [("GPU-0", 4 * GIB)]
    assert holdings_of([replace(one, phase="Succeeded")], None, devices, "MiB") == ()


def test_simulated_usage_stays_within_shares_and_is_the_same_every_time() -> None:
    devices = [DeviceUsage("GPU-0", 16 * GIB), DeviceUsage("GPU-1", 16 * GIB)]
    usage = simulated_usage(devices, [held("u1", 4 * GIB), held("u2", 4 * GIB)])
    assert usage == simulated_usage(devices, [held("u1", 4 * GIB), held("u2", 4 * GIB)])
    assert all(2 * GIB < (pod.used or 0) < 4 * GIB and 0 < (pod.utilization or 0) <= 25 for pod in usage.pods)
    assert usage.devices[0].used == sum(pod.used or 0 for pod in usage.pods)
    assert (usage.devices[1].used, usage.devices[1].utilization) == (0, 0)


def test_simulated_pods_use_between_55_and_95_percent_of_their_memory() -> None:
    pods = [Holding(f"u{number}", "team", f"p{number}", "GPU-0", 16 * GIB) for number in range(500)]
    used = [(pod.used or 0) / (16 * GIB) for pod in simulated_usage([DeviceUsage("GPU-0", 16 * GIB)], pods).pods]
    assert (round(min(used), 3), round(max(used), 3)) == (0.55, 0.95)
