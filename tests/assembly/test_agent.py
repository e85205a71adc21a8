"""The assembled agent: what it waits for before it serves the kubelet."""

from __future__ import annotations

import asyncio
import fcntl
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from linkwise.agent.measuring.driver import state_folder
from linkwise.agent.measuring.holds import measuring_lock
from linkwise.assembly.agent import AgentProcess
from linkwise.config.settings import AgentSettings, ServeSettings
from linkwise.drivers.simulated import SimulatedDriver
from linkwise.net.http.server import listen
from support.fakes.kubelet import PATIENCE, FakeKubelet

if TYPE_CHECKING:
    from collections.abc import Callable


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
