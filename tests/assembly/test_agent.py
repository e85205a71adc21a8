"""The assembled agent: what it waits for before it serves the kubelet."""

from __future__ import annotations

import asyncio
import fcntl
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from linkwise.agent.holds import measuring_lock
from linkwise.agent.measured_driver import state_folder
from linkwise.assembly.agent import LAST_BINDS_SECONDS, AgentProcess
from linkwise.config.settings import AgentSettings, ServeSettings
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.kube.client.api import connect
from linkwise.net.http.server import listen
from linkwise.net.timing import Timing
from support.fakes.kubelet import PATIENCE, FakeKubelet

if TYPE_CHECKING:
    from linkwise.model.inventory import Discovery


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - the parts of an agent have no event in common
            await asyncio.sleep(0.02)


def test_an_agent_serves_only_after_a_test_that_an_earlier_one_allowed_has_ended() -> None:
    async def play(folder: Path) -> None:
        state = state_folder(str(folder))
        state.mkdir(parents=True)
        settings = ServeSettings(agent=replace(AgentSettings(), kubelet=str(folder), cdi="never", interval=0.1))
        process = AgentProcess(settings, "n", SimulatedDriver("dgx1-v100", "n"), None)
        with measuring_lock(state).open("w") as lock, closing(listen("127.0.0.1", 0, "")) as listener:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running = asyncio.create_task(process.run(listener))
            await until(lambda: process.agent.discoverer.rounds == 1)
            await asyncio.sleep(0.3)
            assert (process.agent.discoverer.rounds, process.agent.served) == (1, None)
            assert "a measurement of bandwidth uses the devices" in process.agent.standby
            fcntl.flock(lock, fcntl.LOCK_UN)
            await until(lambda: process.agent.served is not None)
            assert process.agent.standby == ""
            process.stop()
            await running

    with TemporaryDirectory(prefix="lw") as short:  # unix sockets need short paths
        asyncio.run(play(Path(short)))


class StuckDriver(SimulatedDriver):
    """Driver whose library does not return until it is `free`."""

    def __init__(self) -> None:
        super().__init__("dgx1-v100", "n")
        self.stuck, self.free = threading.Event(), threading.Event()

    def discover(self) -> Discovery:
        self.stuck.set()
        self.free.wait()
        return super().discover()


def test_an_agent_ends_though_its_driver_is_stuck() -> None:
    driver = StuckDriver()

    async def play(folder: Path) -> None:
        settings = ServeSettings(agent=replace(AgentSettings(), kubelet=str(folder), cdi="never"))
        process = AgentProcess(settings, "n", driver, None)
        with closing(listen("127.0.0.1", 0, "")) as listener:
            running = asyncio.create_task(process.run(listener))
            await until(driver.stuck.is_set)
            process.stop()
            await running

    with TemporaryDirectory(prefix="lw") as short:
        agent = threading.Thread(target=asyncio.run, args=(play(Path(short)),))
        agent.start()
        agent.join(PATIENCE)
        try:
            assert not agent.is_alive()
        finally:
            driver.free.set()
            agent.join()


def test_the_next_agent_is_ready_before_the_last_one_ends_and_serves_at_once_then() -> None:
    async def play(folder: Path) -> None:
        kubelet = FakeKubelet(folder)
        await kubelet.start()
        settings = ServeSettings(agent=replace(AgentSettings(), kubelet=str(folder), cdi="never"))
        last, following = (AgentProcess(settings, "n", SimulatedDriver("dgx1-v100", "n"), None) for _ in range(2))
        with closing(listen("127.0.0.1", 0, "")) as one, closing(listen("127.0.0.1", 0, "")) as two:
            first = asyncio.create_task(last.run(one))
            await kubelet.capacity("nvidia.com/gpu", 8)
            second = asyncio.create_task(following.run(two))
            await until(lambda: bool(following.agent.discoverer.rounds and following.agent.standby))
            assert following.agent.not_ready() == {}
            assert following.agent.problems() == ("another agent runs on this node: waiting for it to end",)
            assert following.agent.registrar.status.state == "waiting"
            last.stop()
            await first
            await kubelet.until(lambda: kubelet.registrations == ["nvidia.com/gpu"] * 2)
            await kubelet.capacity("nvidia.com/gpu", 8)
            following.stop()
            await second
        await kubelet.stop()

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(play(Path(short)))


Process = Callable[[Timing], AgentProcess]


def beside_an_api_server(story: Callable[[EmbeddedApi, FakeKubelet, Process], Coroutine[object, object, None]]) -> None:
    async def play(folder: Path) -> None:
        kubelet = FakeKubelet(folder)
        await kubelet.start()
        settings = ServeSettings(agent=replace(AgentSettings(), kubelet=str(folder), cdi="never", mode="whole"))
        async with EmbeddedApi(tls=False) as api:
            api.store.create("nodes", {"metadata": {"name": "n"}})
            file = folder / "kubeconfig"
            file.write_text(api.kubeconfig(), encoding="utf-8")

            def process(timing: Timing) -> AgentProcess:
                driver = SimulatedDriver("dgx1-v100", "n")
                return AgentProcess(settings, "n", driver, connect(file, environ={}), timing)

            await story(api, kubelet, process)
        await kubelet.stop()

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(play(Path(short)))


def inventory(api: EmbeddedApi) -> dict[str, Any]:
    found = api.store.find("deviceinventories.linkwise.dev", "n")
    return found.read() if found else {}


def registered(api: EmbeddedApi) -> tuple[str, str] | None:
    conditions = inventory(api).get("status", {}).get("conditions", ())
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "PluginRegistered"), None)


def test_an_agent_that_is_stopped_says_so_while_it_still_serves() -> None:
    async def story(api: EmbeddedApi, _: FakeKubelet, process: Process) -> None:
        last: list[tuple[str, str] | None] = []
        served: list[bool] = []

        async def sleep(seconds: float) -> None:
            if seconds == LAST_BINDS_SECONDS:
                last.append(registered(api))
                served.append(agent.agent.registrar.status.enforced)
            await asyncio.sleep(min(seconds, 0.05))

        agent = process(Timing(sleep=sleep))
        with closing(listen("127.0.0.1", 0, "")) as one:
            running = asyncio.create_task(agent.run(one))
            await until(lambda: registered(api) == ("True", "Registered"))
            agent.stop()
            await running
        assert (last, served) == ([("False", "AgentStopped")], [True])
        assert len(inventory(api)["spec"]["holds"]) == 8
        with closing(listen("127.0.0.1", 0, "")) as two:
            following = process(Timing())
            running = asyncio.create_task(following.run(two))
            await until(lambda: registered(api) == ("True", "Registered"))
            assert "holds" not in inventory(api)["spec"]
            following.stop()
            await running

    beside_an_api_server(story)


def test_an_agent_whose_successor_stands_by_ends_at_once() -> None:
    async def story(api: EmbeddedApi, kubelet: FakeKubelet, process: Process) -> None:
        last, following = process(Timing()), process(Timing())
        with closing(listen("127.0.0.1", 0, "")) as one, closing(listen("127.0.0.1", 0, "")) as two:
            first = asyncio.create_task(last.run(one))
            await until(lambda: registered(api) == ("True", "Registered"))
            second = asyncio.create_task(following.run(two))
            await until(lambda: bool(following.agent.standby))
            last.stop()
            await first
            assert not last.agent.stopping
            await until(lambda: following.agent.registrar.status.enforced)  # a moment after the kubelet noted it
            assert kubelet.registrations == ["nvidia.com/gpu"] * 2
            following.stop()
            await second
            assert following.agent.stopping

    beside_an_api_server(story)
