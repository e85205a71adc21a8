"""Connections on which nothing sensible is asked."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from linkwise.errors import InputError
from linkwise.net.http.routes import Routes
from linkwise.net.http.server import Limits, Server, listen
from support.virtual_clock import run_idle

HASTY = Limits(head_seconds=0.05)
PATIENT = Limits(head_seconds=60.0)


def answered(*pieces: bytes, limits: Limits = HASTY) -> bytes:
    """All that comes back on a connection until it is ended."""

    async def scenario() -> bytes:
        door = listen("127.0.0.1", 0)
        server = Server(Routes([]), limits)
        serving = asyncio.create_task(server.serve(door))
        reader, writer = await asyncio.open_connection(*door.getsockname())
        got = b""
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if piece.endswith(b"\r\n\r\n"):
                    got += await reader.read(1000)
            async with asyncio.timeout(5):
                while more := await reader.read(1000):
                    got += more
        except ConnectionError:
            pass
        writer.transport.abort()
        server.stop()
        await serving
        door.close()
        return got

    return run_idle(scenario())


def test_a_connection_whose_request_head_never_ends_is_closed() -> None:
    assert answered(b"POST /filter HTTP/1.1\r\nHost:") == b""


def test_a_head_without_end_is_not_kept() -> None:
    head = (b"POST /filter HTTP/1.1\r\n", b"X: " + b"a" * (2 * PATIENT.max_head))
    assert answered(*head, limits=PATIENT) == b""


def test_a_second_head_on_a_connection_must_end_as_well() -> None:
    got = answered(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /y HT")
    assert got.count(b"404 Not Found") == 1


@pytest.mark.parametrize("host", ["a..b", "no-host." * 40])  # neither is asked for in a network
def test_an_invalid_host_is_reported(host: str) -> None:
    with pytest.raises(InputError, match=r"http.host: .* is not an address of this machine: \S"):
        listen(host, 0)


def test_an_address_of_another_machine_is_reported_with_the_flag_that_sets_it() -> None:
    with pytest.raises(InputError, match=r"192\.0\.2\.1:0: .*; choose another with --host"):
        listen("192.0.2.1", 0)


def test_a_port_that_is_taken_is_reported_with_the_flag_that_sets_it() -> None:
    with closing(listen("127.0.0.1", 0)) as door, pytest.raises(InputError, match="choose another with --port"):
        listen("127.0.0.1", door.getsockname()[1])
