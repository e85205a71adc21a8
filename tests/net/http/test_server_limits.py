"""Connections on which nothing sensible is asked."""

from __future__ import annotations

import asyncio
import ssl
import tracemalloc
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Self

import pytest
import uvloop

from linkwise.errors import InputError
from linkwise.net.certificates import self_signed
from linkwise.net.http.budget import Budget
from linkwise.net.http.messages import Request, Response, text
from linkwise.net.http.routes import Route, Routes
from linkwise.net.http.server import Limits, Server, listen
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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


def test_a_large_body_is_held_once() -> None:
    """It grows as it arrives: joining its parts at the end would hold the event loop, and take the memory twice."""
    size, piece = 16 << 20, bytes(1 << 16)

    async def scenario() -> tuple[bytes, int]:
        door = listen("127.0.0.1", 0)
        server = Server(Routes([Route("POST", "/", lambda request, _: text(f"{len(request.body)} bytes"))]))
        serving = asyncio.create_task(server.serve(door))
        reader, writer = await asyncio.open_connection(*door.getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
        tracemalloc.start()
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        answer = await reader.read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        writer.transport.abort()
        server.stop()
        await serving
        door.close()
        return answer, peak

    answer, peak = run_idle(scenario())
    assert answer.endswith(b"\r\n\r\n16777216 bytes\n")
    assert peak < 1.5 * size


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


# more than there is room for

MEGABYTE = bytes(1 << 20)


class Held:
    """Answers `/wait` when it is released, and everything else at once."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.waiting = 0
        self.refused: list[int] = []

    def admit(self, request: Request) -> None:
        del request

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        if request.path == "/large":
            return Response(bytes(32 << 20))
        return self._later() if request.path == "/wait" else text("ok")

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        del request
        self.refused.append(status)
        return text(sentence, status)

    async def _later(self) -> Response:
        self.waiting += 1
        await self.release.wait()
        return text("late")


class Caller:
    """A raw connection from an address of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def get(self, path: str = "/") -> bytes:
        """The body of an answer; empty if the server has closed the connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self.writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            async with asyncio.timeout(30):
                head = await self.reader.readuntil(b"\r\n\r\n")
                return await self.reader.readexactly(int(head.lower().split(b"content-length: ")[1].split()[0]))
        return b""

    async def send(self, megabytes: int) -> None:
        """Send so much, at the pace at which it is read."""
        for _ in range(megabytes):
            self.writer.write(MEGABYTE)
            await self.writer.drain()


class Listening:
    """A server, and the connections to it."""

    def __init__(self, limits: Limits, tls: ssl.SSLContext | None = None, budget: Budget | None = None) -> None:
        self.application = Held()
        self.server = Server(self.application, limits, tls, budget or Budget())
        self._listener = listen("127.0.0.1", 0)
        self._port: int = self._listener.getsockname()[1]
        self._callers: list[Caller] = []

    async def __aenter__(self) -> Self:
        await self.server.start(self._listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.writer.transport.abort()
        await self.server.close()

    async def connect(self, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Caller:
        name = "localhost" if tls else None
        opened = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(address, 0), ssl=tls, server_hostname=name
        )
        self._callers.append(Caller(*opened))
        return self._callers[-1]


def test_the_caller_with_the_most_connections_gives_one_up_for_another() -> None:
    async def scenario() -> None:
        async with Listening(Limits(max_connections=4)) as listening:
            first = await listening.connect("127.0.0.2")
            assert await first.get() == b"ok\n"
            greedy = []
            for _ in range(20):
                greedy.append(await listening.connect("127.0.0.9"))
                assert await greedy[-1].get() == b"ok\n"
            assert len(listening.server.connections) == 4
            assert await first.get() == b"ok\n"
            assert [bool(await caller.get()) for caller in greedy] == [False] * 17 + [True] * 3

    asyncio.run(scenario())


def test_a_request_in_flight_is_not_given_up_for_another_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Listening(Limits(max_connections=2)) as listening:
            answers = [asyncio.create_task((await listening.connect()).get("/wait")) for _ in range(2)]
            while listening.application.waiting < 2:  # noqa: ASYNC110 - the condition is the test's own
                await asyncio.sleep(0)
            assert await (await listening.connect()).get() == b""
            listening.application.release.set()
            assert await asyncio.gather(*answers) == [b"late\n"] * 2

    asyncio.run(scenario())
    assert "connection of 127.0.0.1 refused: all 2 are in use" in caplog.text


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_handshakes_that_do_not_end_keep_no_caller_out(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    certificate = self_signed(["localhost"])
    trust = ssl.create_default_context(cadata=certificate.text)

    async def scenario() -> None:
        async with Listening(Limits(max_connections=4), certificate.context()) as listening:
            silent = [await listening.connect("127.0.0.9") for _ in range(12)]
            assert await (await listening.connect("127.0.0.2", trust)).get() == b"ok\n"
            async with asyncio.timeout(30):
                assert await asyncio.gather(*(one.reader.read() for one in silent[:9])) == [b""] * 9

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


def test_what_a_refused_caller_goes_on_to_send_is_not_read_without_end() -> None:
    async def scenario() -> None:
        async with Listening(Limits(max_body=1000)) as listening:
            caller = await listening.connect()
            caller.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
            assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
            with pytest.raises(ConnectionError):
                await caller.send(1000)
            assert listening.server.budget.held == 0

    run_idle(scenario())


def test_bodies_of_all_connections_together_stay_within_the_budget() -> None:
    async def scenario() -> None:
        counted = Budget(8 << 20, 8 << 20)
        async with Listening(PATIENT, budget=counted) as listening:
            callers = [await listening.connect() for _ in range(20)]
            for caller in callers:
                caller.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
            for _ in range(4):
                for caller in callers:
                    with suppress(ConnectionError):
                        await caller.send(1)
                    assert counted.held <= counted.most
            while 503 not in listening.application.refused:
                await asyncio.sleep(0)
                assert counted.held <= counted.most
            assert await (await listening.connect()).get() == b"ok\n"
        await asyncio.sleep(0)
        assert counted.held == 0

    asyncio.run(scenario())


def test_responses_that_are_not_read_count_as_well() -> None:
    async def scenario() -> None:
        counted = Budget(64 << 20, 64 << 20)
        async with Listening(PATIENT, budget=counted) as listening:
            callers = [await listening.connect() for _ in range(10)]
            for caller in callers:
                caller.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001 - of the client
                caller.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            while len(listening.server.connections) > 2:  # noqa: ASYNC110 - the condition is the test's own
                await asyncio.sleep(0)
            assert 0 < counted.held <= counted.most
            assert await (await listening.connect()).get() == b"ok\n"

    asyncio.run(scenario())
