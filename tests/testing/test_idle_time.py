"""What other tests wait with: time that passes only while nothing happens, and ports that no other test gets."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

import pytest

from linkwise.net.http.server import listen
from support.environment import reserve
from support.fakes.scripted_api import Reply
from support.virtual_clock import run_idle


def test_a_machine_that_pauses_causes_no_timeout() -> None:
    async def story() -> bytes:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            time.sleep(0.05)  # noqa: ASYNC251 - all stand still
            writer.write(b"here")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            async with asyncio.timeout(0.01):
                got = await reader.read()
            writer.close()
            return got

    assert run_idle(story()) == b"here"


def test_a_timeout_expires_after_its_set_time() -> None:
    async def story() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_idle(story()) == pytest.approx(0.01, abs=0.002)


def test_timeouts_of_a_busy_loop_expire_too() -> None:
    async def story() -> None:
        async with asyncio.timeout(0.01):
            while True:  # noqa: ASYNC110 - who never rests is the claim
                await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        run_idle(story())


def test_a_port_that_is_reserved_can_be_listened_on_again_and_again() -> None:
    with reserve() as held:
        port = held.getsockname()[1]
        for _ in range(2):
            with closing(listen("127.0.0.1", port)) as door:
                assert door.getsockname()[1] == port


def test_a_document_that_stays_open_is_no_answer_that_a_test_can_mean() -> None:
    with pytest.raises(ValueError, match="only a stream can be 'open'"):
        Reply(ending="open")
