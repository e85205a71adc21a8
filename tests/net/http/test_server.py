"""The HTTP server: HTTP/1.1 as clients may send it, and what attackers send instead."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.net.certificates import self_signed
from linkwise.net.http.messages import CLIENT_CLOSED, HangUpError, Request, Response, text
from linkwise.net.http.server import Limits, Server, listen
from support.profile import examples
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable

BIG = bytes(8 << 20)
END = b"\r\n\r\n"
HOST = b"Host: x\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + HOST


class Echo:
    """Answers by path; notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.refused: list[int] = []
        self.chunks = 0
        self.ended = asyncio.Event()
        self.release = asyncio.Event()

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        self.asked.append((request.method, request.path))
        match request.path:
            case "/later":
                return self._later()
            case "/stream":
                return Response(stream=self._stream())
            case "/big":
                return Response(BIG)
            case "/bug":
                raise ValueError("a bug")
            case "/hang-up":
                raise HangUpError
            case "/body-type":
                return text(type(request.body).__name__)
        return text(f"{request.method} {request.path} {request.body.decode('latin-1')}")

    def admit(self, request: Request) -> None:
        del request

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        del request
        self.refused.append(status)
        return text(sentence, status)

    async def _later(self) -> Response:
        await self.release.wait()
        return text("later")

    async def _stream(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            while True:
                yield bytes(1 << 16)
                self.chunks += 1
                await asyncio.sleep(0.001)
        finally:
            self.ended.set()


class Wire:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.001)

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(30):
            head = await self.reader.readuntil(END)
            fields = dict(line.split(b": ", 1) for line in head.lower().splitlines()[1:] if line)
            return int(head.split()[1]), await self.reader.readexactly(int(fields[b"content-length"]))

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(300):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


class ServerUnderTest:
    """A server, and connections to it."""

    def __init__(self, application: Echo, http: Server, port: int, trust: ssl.SSLContext | None) -> None:
        self.application, self.http, self._port, self._trust = application, http, port, trust
        self._open: list[Wire] = []

    async def connect(self) -> Wire:
        name = "localhost" if self._trust else None
        opened = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust, server_hostname=name)
        self._open.append(Wire(*opened))
        return self._open[-1]

    async def answer_to(self, *pieces: bytes) -> bytes:
        """Everything that comes back on a new connection until the server closes it."""
        wire = await self.connect()
        with suppress(ConnectionError):  # it may close before all is sent
            await wire.send(*pieces)
        return await wire.rest()

    async def well(self) -> None:
        """A plain request is answered."""
        wire = await self.connect()
        await wire.send(POST + b"Content-Length: 2" + END + b"hi")
        assert await wire.answer() == (200, b"POST /echo hi\n")

    def close(self) -> None:
        for wire in self._open:
            wire.writer.transport.abort()


@asynccontextmanager
async def served(limits: Limits | None = None, *, tls: bool = False) -> AsyncIterator[ServerUnderTest]:
    certificate = self_signed(["localhost", "127.0.0.1"]) if tls else None
    trust = ssl.create_default_context(cadata=certificate.text) if certificate else None
    application, listener = Echo(), listen("127.0.0.1", 0)
    http = Server(application, limits or Limits(), certificate.context() if certificate else None)
    await http.start(listener)
    server = ServerUnderTest(application, http, listener.getsockname()[1], trust)
    try:
        yield server
    finally:
        server.close()
        await http.close()


def test_head_has_the_head_of_get_and_no_body() -> None:
    async def scenario() -> None:
        async with served() as server:
            got = await server.answer_to(b"HEAD /echo HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
            assert got.endswith(b"content-length: 12\r\nconnection: close" + END)

    run_idle(scenario())


def test_a_chunked_body_with_trailers_is_read_whole_and_the_trailers_are_no_headers() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(POST + b"Transfer-Encoding: chunked" + END, b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nHost: y", END)
            assert await wire.answer() == (200, b"POST /echo abc\n")
            await wire.send(POST + b"Content-Length: 1" + END + b"d")
            assert await wire.answer() == (200, b"POST /echo d\n")

    run_idle(scenario())


def test_a_body_is_bytes_however_many_parts_it_arrives_in() -> None:
    async def scenario() -> None:
        async with served() as server:
            for parts in ((b"abc",), (b"a", b"bc"), (b"a", b"b", b"c")):
                wire = await server.connect()
                await wire.send(b"POST /body-type HTTP/1.1\r\n" + HOST + b"Content-Length: 3" + END)
                for part in parts:
                    await wire.send(part)
                assert await wire.answer() == (200, b"bytes\n")

    run_idle(scenario())


def test_path_and_query_are_decoded_apart() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(b"GET /a%2Fb%20c?d=%26 HTTP/1.1\r\n" + HOST + b"\r\n")
            assert await wire.answer() == (200, b"GET /a/b c \n")

    run_idle(scenario())


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_old_clients_and_those_that_say_so_are_answered_once(version: bytes) -> None:
    request = b"GET /echo HTTP/" + version + b"\r\nConnection: close\r\n" + HOST + b"\r\n"

    async def scenario() -> None:
        async with served() as server:
            got = await server.answer_to(2 * request)
            assert got.count(b"200 OK") == 1
            assert len(server.application.asked) == 1

    run_idle(scenario())


def test_an_upgrade_is_answered_as_http_1() -> None:
    request = b"GET /echo HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + HOST + b"\r\n"

    async def scenario() -> None:
        async with served() as server:
            got = await server.answer_to(request, b"\x81\x00 anything")
            assert got.count(b"200 OK") == 1
            await server.well()

    run_idle(scenario())


def test_a_stream_ends_when_its_client_vanishes() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(b"GET /stream HTTP/1.1\r\n" + HOST + b"\r\n")
            await wire.reader.readuntil(b"first")
            wire.writer.transport.abort()
            async with asyncio.timeout(10):
                await server.application.ended.wait()

    run_idle(scenario())


def test_a_stream_waits_for_a_client_that_does_not_read() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(b"GET /stream HTTP/1.1\r\n" + HOST + b"\r\n")
            await asyncio.sleep(0.5)  # hundreds of chunks, if nothing stopped it
            assert not server.application.ended.is_set()
            sent = server.application.chunks
            await asyncio.sleep(0.1)
            assert server.application.chunks == sent

    run_idle(scenario())


def test_a_client_that_vanishes_in_the_middle_of_an_answer_harms_no_other() -> None:
    async def scenario() -> None:
        async with served() as server:
            for _ in range(20):
                wire = await server.connect()
                await wire.send(b"GET /big HTTP/1.1\r\n" + HOST + b"\r\n")
                await wire.reader.read(1000)
                wire.writer.transport.abort()
            await server.well()
            await asyncio.sleep(0.1)
            assert len(server.http.connections) == 1

    run_idle(scenario())


def test_a_client_that_asks_and_never_reads_is_closed() -> None:
    async def scenario() -> None:
        async with served(Limits(keep_alive=0.5)) as server:
            wire = await server.connect()
            wire.writer.write(50 * (b"GET /big HTTP/1.1\r\n" + HOST + b"\r\n"))
            await asyncio.sleep(0.2)
            assert 0 < len(server.application.asked) < 10
            await asyncio.sleep(0.6)
            assert not server.http.connections

    run_idle(scenario())


def test_fifty_connections_at_once_are_all_answered() -> None:
    async def scenario() -> None:
        async with served() as server:
            await asyncio.gather(*(server.well() for _ in range(50)))

    run_idle(scenario())


def test_slow_heads_on_many_connections_are_closed_and_delay_no_other() -> None:
    async def drip(server: ServerUnderTest) -> bytes:
        wire = await server.connect()
        await wire.send(*(bytes([letter]) for letter in b"POST /echo HTTP/1.1\r\nX: "))
        return await wire.rest()

    async def scenario() -> None:
        async with served(Limits(head_seconds=0.5)) as server:
            dripping = [asyncio.create_task(drip(server)) for _ in range(50)]
            await server.well()
            assert set(await asyncio.gather(*dripping)) == {b""}

    run_idle(scenario())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /echo HTTP/1.1" + END,
        b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + HOST + b"\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n" + HOST + b"\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n",
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\nzz\r\n",
        b"GET /echo HTTP/1.1\r\nHost : x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 100,
    ],
)
def test_what_is_not_http_gets_400_with_a_sentence_and_is_not_handled(head: bytes) -> None:
    async def scenario() -> None:
        async with served() as server:
            got = await server.answer_to(head)
            assert got.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert b"\r\n\r\ninvalid HTTP request: " in got
            assert server.application.asked == []
            await server.well()

    run_idle(scenario())


def test_an_error_behind_a_request_in_flight_is_answered_after_it() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(b"GET /later HTTP/1.1\r\n" + HOST + b"\r\nnonsense\r\n\r\n")
            server.application.release.set()
            assert await wire.answer() == (200, b"later\n")
            assert (await wire.rest()).startswith(b"HTTP/1.1 400 ")

    run_idle(scenario())


def test_a_client_that_still_sends_a_body_that_is_too_large_reads_why() -> None:
    async def scenario() -> None:
        async with served(Limits(max_body=1000)) as server:
            got = await server.answer_to(POST + b"Content-Length: 1000000" + END, *[bytes(10_000)] * 50)
            assert got.startswith(b"HTTP/1.1 413 ")
            assert got.endswith(b"the request body has 1000000 bytes; the limit is 1000\n")
            assert (server.application.asked, server.application.refused) == ([], [413])

    run_idle(scenario())


def test_trailers_without_end_are_not_kept() -> None:
    async def scenario() -> None:
        async with served() as server:
            head = POST + b"Transfer-Encoding: chunked" + END + b"1\r\na\r\n0\r\nX: "
            assert await server.answer_to(head, *[b"a" * (64 << 10)] * 8) == b""
            assert server.application.asked == []

    run_idle(scenario())


def test_a_bug_in_a_handler_is_answered_with_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(b"GET /bug HTTP/1.1\r\n" + HOST + b"\r\n")
            assert await wire.answer() == (500, b"internal error; see the log of the Linkwise service\n")

    run_idle(scenario())
    assert "GET /bug failed" in caplog.text


def test_a_handler_may_hang_up() -> None:
    async def scenario() -> None:
        async with served() as server:
            assert await server.answer_to(b"GET /hang-up HTTP/1.1\r\n" + HOST + b"\r\n") == b""

    run_idle(scenario())


def test_half_a_request_whose_client_vanishes_is_reported_once() -> None:
    async def scenario() -> None:
        async with served() as server:
            wire = await server.connect()
            await wire.send(POST + b"Content-Length: 9" + END + b"ab")
            wire.writer.transport.abort()
            await asyncio.sleep(0.05)
            assert (server.application.asked, server.application.refused) == ([], [CLIENT_CLOSED])

    run_idle(scenario())


def test_over_tls_too() -> None:
    async def scenario() -> None:
        async with served(tls=True) as server:
            await asyncio.gather(*(server.well() for _ in range(5)))
            assert (await server.answer_to(b"nonsense" + END)).startswith(b"HTTP/1.1 400 ")

    asyncio.run(scenario())


def test_a_client_that_begins_no_tls_handshake_delays_no_other() -> None:
    async def scenario() -> None:
        async with served(tls=True) as server:
            silent = [await asyncio.open_connection("127.0.0.1", server._port) for _ in range(10)]  # noqa: SLF001 - the server's own
            await server.well()
            for _, writer in silent:
                writer.transport.abort()

    asyncio.run(scenario())


WHOLE = POST + b"Content-Length: 2" + END + b"hi"
PIECES = st.sampled_from([WHOLE, WHOLE[:20], WHOLE[20:], b"\r\n", b"GET / HTTP/1.1\r\n", HOST, END, b"0\r\n", b":"])


@given(st.lists(PIECES | st.binary(max_size=40), max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_after_any_bytes_the_server_answers_the_next_client(pieces: list[bytes]) -> None:
    async def scenario() -> None:
        async with served(Limits(keep_alive=0.02, head_seconds=0.02, body_seconds=0.02)) as server:
            await server.answer_to(*pieces)
            server.close()
            await server.well()
            await asyncio.sleep(0.05)
            assert not server.http.connections

    run_idle(scenario())
