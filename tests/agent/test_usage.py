"""Usage monitor: what it publishes and how often, and what failures of the hardware cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.agent.usage import FAILURES, REFRESH, NodePods, SerialDriver, UsageMonitor
from linkwise.config.settings import UsageSettings
from linkwise.errors import DriverError
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.usage import DeviceUsage, Holding, ProcessUsage, UsageReading
from linkwise.net.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.broker.effects import Event

GIB = 1 << 30
UID = "3f0a51c4-9d2b-4d0e-a2a4-5d5a1b2c3d4e"
BOX = "0123456789abcdef" * 4


@dataclass(slots=True)
class Hardware(Driver):
    """Driver whose usage a test sets."""

    name: str = "test"
    used: int = GIB
    busy: int = 10
    processes: tuple[ProcessUsage, ...] = ()
    error: Exception | None = None

    def discover(self) -> Discovery:
        return Discovery("")

    def usage(self) -> UsageReading:
        if self.error:
            raise self.error
        return UsageReading((DeviceUsage("GPU-0", 16 * GIB, self.used, self.busy, self.processes),))

    def close(self) -> None:
        """Nothing."""


@dataclass(slots=True)
class Bench:
    """A monitor with its clock."""

    proc: Path
    share: int | None = None
    hardware: Any = field(default_factory=Hardware)
    settings: UsageSettings = field(default_factory=UsageSettings)
    seconds: float = 1000.0
    events: list[Event] = field(default_factory=list)
    published: list[Mapping[str, object] | None] = field(default_factory=list)
    monitor: UsageMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.monitor = UsageMonitor(
            "n",
            SerialDriver(self.hardware),
            self.settings,
            Timing(clock=lambda: self.seconds, now=lambda: 1_800_000_000.0 + self.seconds),
            pods=lambda: NodePods({UID: ("team", "p")}, (Holding(UID, "team", "p", "GPU-0", self.share),)),
            changed=lambda: self.published.append(self.monitor.summary),
            tell=self.events.extend,
            proc=self.proc,
        )

    def read(self, after: float = 10.0) -> None:
        self.seconds += after
        asyncio.run(self.monitor.read())

    def process(self, pid: int, path: str) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "cgroup").write_text(f"0::{path}\n", "ascii")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.rule("002.usage")
def test_processes_are_charged_to_the_pod_of_their_cgroup(bench: Bench) -> None:
    bench.share = 4 * GIB
    bench.process(7, f"/kubepods/pod{UID}/{BOX}")
    bench.process(8, "/system.slice/xorg.service")
    bench.hardware.processes = (ProcessUsage(7, 3 * GIB, 20), ProcessUsage(8, GIB, 1), ProcessUsage(9, GIB, 1))
    bench.read()
    (pod,) = bench.monitor.latest.pods
    assert (pod.used, pod.utilization, pod.share) == (3 * GIB, 20, 4 * GIB)
    assert bench.monitor.problem == ""


def test_a_container_without_the_pids_of_the_host_says_so(bench: Bench) -> None:
    bench.hardware.processes = (ProcessUsage(7, 3 * GIB, 20),)
    bench.read()
    assert "hostPID: true" in bench.monitor.problem
    assert bench.monitor.latest.pods[0].used == GIB  # by its allocation


@pytest.mark.rule("002.usage")
def test_a_summary_is_written_seldom_and_only_if_it_differs(bench: Bench) -> None:
    bench.read()
    assert len(bench.published) == 1
    for step in range(1, 30):  # a value that moves by a little, every ten seconds
        bench.hardware.busy = 10 + step % 3
        bench.read()
    assert len(bench.published) == 1
    bench.hardware.used = 9 * GIB
    for _ in range(12):
        bench.read()
    assert len(bench.published) == 2
    summary: Any = bench.published[-1]
    assert summary["devices"] == [{"uuid": "GPU-0", "memoryTotal": 16384, "memoryUsed": 9216, "utilization": 12}]


def test_a_burst_of_changes_is_one_write_per_interval(bench: Bench) -> None:
    for step in range(300):
        bench.hardware.used = step % 16 * GIB
        bench.read(after=1.0)
    assert len(bench.published) == 10


def test_an_unchanged_summary_is_refreshed(bench: Bench) -> None:
    bench.read()
    bench.read(after=REFRESH)
    first, second = bench.published
    assert first is not None
    assert second is not None
    assert first["time"] != second["time"]


def test_publishing_can_be_turned_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path, settings=UsageSettings(publish_interval=0))
    bench.read()
    assert (bench.published, len(bench.monitor.latest.devices)) == ([], 1)


@pytest.mark.parametrize("error", [DriverError("nvml: the driver does not answer"), ZeroDivisionError()])
def test_readings_that_fail_leave_no_old_values_behind(bench: Bench, error: Exception) -> None:
    bench.read()
    bench.hardware.error = error
    bench.read()
    assert bench.monitor.latest.devices == ()
    assert bench.monitor.summary is not None  # one failure is not worth a write
    for _ in range(FAILURES):
        bench.read()
    assert bench.published[-1] is None
    assert bench.monitor.problem
    bench.hardware.error = None
    bench.read()
    assert (bench.monitor.problem, bench.published[-1] is None) == ("", False)


@pytest.mark.rule("002.usage")
def test_a_pod_above_its_share_is_reported_once(bench: Bench) -> None:
    bench.share = 2 * GIB
    bench.process(7, f"/kubepods/pod{UID}/{BOX}")
    bench.hardware.processes = (ProcessUsage(7, 3 * GIB, 20),)
    for _ in range(20):
        bench.read()
    assert [(event.name, event.reason) for event in bench.events] == [("p", "DeviceMemoryOverShare")]


def test_a_clock_that_is_set_back_does_not_stop_publishing(bench: Bench) -> None:
    bench.read()
    bench.monitor._timing = Timing(clock=lambda: bench.seconds, now=lambda: 5.0)  # noqa: SLF001 - the machine's clock
    bench.hardware.used = 9 * GIB
    bench.read(after=30)
    summary = bench.monitor.summary
    assert summary is not None
    assert summary["time"] == "1970-01-01T00:00:05Z"


def test_a_driver_that_reports_no_usage_is_named(tmp_path: Path) -> None:
    class Plain(Driver):
        name = "plain"

        def discover(self) -> Discovery:
            return Discovery("")

        def close(self) -> None:
            """Nothing."""

    bench = Bench(tmp_path, hardware=Plain())
    bench.read()
    assert bench.monitor.problem == "the driver plain does not report usage"
    assert bench.published == []
