"""The assembled agent: what it waits for before it serves the kubelet."""

from __future__ import annotations

import asyncio
import fcntl
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from linkwise.agent.measuring.driver import state_folder
from linkwise.agent.measuring.holds import measuring_lock
from linkwise.assembly.agent import AgentProcess
from linkwise.config.settings import AgentSettings, ServeSettings
from linkwise.drivers.simulated import SimulatedDriver
from linkwise.net.http.server import listen


def test_an_agent_serves_only_after_a_test_that_an_earlier_one_allowed_has_ended() -> None:
    async def play(folder: Path) -> None:
        state = state_folder(str(folder))
        state.mkdir(parents=True)
        settings = ServeSettings(agent=replace(AgentSettings(), kubelet=str(folder), cdi="never", interval=0.1))
        process = AgentProcess(settings, "n", SimulatedDriver("dgx1-v100", "n"), None)
        with measuring_lock(state).open("w") as lock, closing(listen("127.0.0.1", 0, "")) as listener:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running = asyncio.create_task(process.run(listener))
            await asyncio.sleep(0.3)
            assert process.agent.discoverer.rounds == 0
            fcntl.flock(lock, fcntl.LOCK_UN)
            async with asyncio.timeout(120):
                while not process.agent.discoverer.rounds:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.02)
            process.stop()
            await running

    with TemporaryDirectory(prefix="lw") as short:  # unix sockets need short paths
        asyncio.run(play(Path(short)))
