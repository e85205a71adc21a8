"""A fault that the driver reports is passed on at once, however long the next discovery is away."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkwise.agent.discovering import Discoverer
from linkwise.model.device import Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.node.health import Recovery
from support.virtual_clock import loop_timing, run_idle

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = Discovery("nvidia", tuple(Device(f"GPU-{index}", index) for index in range(2)))
XID = "the driver reported Xid 79"


@dataclass(slots=True)
class Notified(Driver):
    """Driver that is notified of faults; while it is `stuck`, a discovery does not return."""

    found: Discovery = GOOD
    name: str = "test"
    discoveries: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    came: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.free.set()

    def discover(self) -> Discovery:
        self.free.wait(30)
        self.discoveries += 1
        return self.found

    def wait(self, seconds: float) -> dict[str, str]:
        self.came.wait(seconds)
        return dict(self.faults)

    def close(self) -> None:
        """Nothing."""

    def report(self, device: str) -> None:
        self.faults = {device: XID}
        self.came.set()


def play(driver: Notified, act: Callable[[list[Discovery]], bool], interval: float = 3600.0) -> list[Discovery]:
    """What was passed on until `act`, which is called again and again, returns true."""

    async def run() -> list[Discovery]:
        seen: list[Discovery] = []
        loop = asyncio.create_task(Discoverer(driver, interval, loop_timing(), Recovery(3600), seen.append).run())
        async with asyncio.timeout(120):
            while not act(seen):  # noqa: ASYNC110 - the driver has no event of its own
                await asyncio.sleep(0.01)
        driver.free.set()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        return seen

    return run_idle(run())


def test_a_reported_fault_is_passed_on_before_the_discovery_that_confirms_it() -> None:
    driver = Notified()

    def act(seen: list[Discovery]) -> bool:
        if seen and not driver.faults:
            driver.free.clear()  # the library hangs, as it may when a device falls off the bus
            driver.report("GPU-1")
        return len(seen) > 1

    seen = play(driver, act)
    assert [device.healthy for device in seen[-1].devices] == [True, False]
    assert seen[-1].faults == {"GPU-1": f"device 1 is unhealthy: {XID}"}
    assert driver.discoveries <= 2


def test_a_reported_fault_is_followed_by_a_discovery() -> None:
    driver = Notified()

    def act(seen: list[Discovery]) -> bool:
        if seen and not driver.faults:
            driver.found = replace(GOOD, problems=("seen",))
            driver.report("GPU-1")
        return seen[-1:] != [] and seen[-1].problems == ("seen",)

    assert not play(driver, act)[-1].devices[1].healthy


def test_a_storm_of_faults_of_one_device_does_not_cause_a_storm_of_discoveries() -> None:
    driver, calls = Notified(), []
    dead = replace(GOOD, devices=(GOOD.devices[0], replace(GOOD.devices[1], healthy=False)), faults={"GPU-1": XID})

    def act(seen: list[Discovery]) -> bool:
        if seen and not driver.faults:
            driver.found = dead
            driver.report("GPU-1")  # and it is never taken back
        calls.append(1)
        return len(calls) > 100

    play(driver, act)
    assert driver.discoveries <= 3


def test_a_device_that_reports_without_end_is_listened_to_twice_a_second() -> None:
    seconds, waits = [0.0], [0.0]

    class Noisy(Notified):
        def wait(self, _: float) -> dict[str, str]:
            waits.append(seconds[0])
            seconds[0] += 0.01
            return {"GPU-1": XID}

    async def sleep(time: float) -> None:
        seconds[0] += time

    async def run() -> None:
        driver = Noisy(
            replace(GOOD, devices=(replace(GOOD.devices[0], id="GPU-1", healthy=False),), faults={"GPU-1": XID})
        )
        timing = replace(loop_timing(), clock=lambda: seconds[0], sleep=sleep)
        loop = asyncio.create_task(Discoverer(driver, 10.0, timing, Recovery(3600), lambda _: None).run())
        while driver.discoveries < 2:  # noqa: ASYNC110 - the driver has no event of its own
            await asyncio.sleep(0.01)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    run_idle(run())
    listened = [time for time in waits if time < 10.0]
    assert 15 <= len(listened) <= 21


def test_a_fault_of_an_unknown_device_changes_nothing() -> None:
    driver, calls = Notified(), []

    def act(seen: list[Discovery]) -> bool:
        if seen and not driver.faults:
            driver.report("")
        calls.append(1)
        return len(calls) > 50

    assert play(driver, act) == [GOOD]
    assert driver.discoveries == 1
