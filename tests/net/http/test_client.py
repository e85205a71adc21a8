"""The HTTP client: connections are kept, and what fails says whether it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from linkwise.net.certificates import new_chain
from linkwise.net.http.client import CutError, Http, NotSentError, Origin, Proxy, SlowError
from support.fakes.scripted_api import Reply, ScriptedApi, play, until
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection


def test_a_connection_is_used_again() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("GET /version", Reply(200, {}))
        for _ in range(3):
            await connection.call("GET", "/version")
        return api.connections

    assert play(scenario) == 1


def test_calls_at_the_same_time_have_connections_of_their_own() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[int, list[bytes]]:
        for name in "abc":
            api.script(f"GET /{name}", Reply(200, name.encode()))
        answers = await asyncio.gather(*(connection.call("GET", f"/{name}") for name in "abc"))
        return api.connections, [answer.body for answer in answers]

    assert play(scenario) == (3, [b"a", b"b", b"c"])


def test_an_answer_in_pieces_is_put_together() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> bytes:
        api.script("GET /version", Reply(pieces=(b"ab", b"cd")))
        return (await connection.call("GET", "/version")).body

    assert play(scenario) == b"abcd"


def test_an_answer_that_breaks_off_is_no_answer() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /version", Reply(pieces=(b"ab",), ending="cut"))
        await connection.call("GET", "/version")

    with pytest.raises(CutError):
        play(scenario)


def test_a_read_on_a_connection_that_the_server_just_ended_is_repeated() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("GET /version", Reply(200, {}), Reply(ending="reset"), Reply(200, {}))
        await connection.call("GET", "/version")
        return (await connection.call("GET", "/version")).status

    assert play(scenario) == 200


def test_a_write_is_never_repeated_by_the_client() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("POST /thing", Reply(201, {}), Reply(ending="reset"), Reply(201, {}))
        await connection.call("POST", "/thing", b"{}")
        with pytest.raises(CutError):
            await connection.call("POST", "/thing", b"{}")
        return len(api.requests)

    assert play(scenario) == 2


def test_a_connection_that_was_ended_meanwhile_is_not_used() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("POST /thing", Reply(201, {}))
        await connection.call("POST", "/thing", b"{}")
        api.cut_all()
        await until(lambda: not connection.http.idle)
        return (await connection.call("POST", "/thing", b"{}")).status

    assert play(scenario) == 201


def test_a_server_that_says_nothing_is_slow() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /version", Reply(ending="silence"))
        await connection.call("GET", "/version", wait=0.05)

    with pytest.raises(SlowError, match=r"did not answer GET /version within 0.05 s"):
        play(scenario)


def test_a_stream_whose_beginning_does_not_come_is_slow() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("WATCH /things", Reply(ending="silence"))
        async with connection.stream("/things?watch=1", wait=0.05):
            pass

    with pytest.raises(SlowError):
        play(scenario)


def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    async def scenario(_: ScriptedApi, connection: Connection) -> None:
        connection.http.origin = replace(connection.http.origin, port=0)
        await connection.call("POST", "/thing", b"{}")

    with pytest.raises(NotSentError, match=r"127.0.0.1:0 can't be reached"):
        play(scenario)


def test_a_server_that_never_finishes_its_greeting_was_sent_nothing() -> None:
    async def scenario() -> None:
        ended = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                await reader.read()
            writer.transport.abort()
            ended.set()

        silent = await asyncio.start_server(listen, "127.0.0.1", 0)
        origin = Origin("127.0.0.1", silent.sockets[0].getsockname()[1], tls=ssl.create_default_context())
        try:
            await Http(origin).call("POST", "/thing", body=b"{}", wait=0.5)
        finally:
            await ended.wait()
            silent.close()

    with pytest.raises(NotSentError, match=r"can't be reached within 0.4 s"):
        run_idle(scenario())


def test_bytes_that_are_not_http_are_reported() -> None:
    async def scenario() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"SSH-2.0-OpenSSH\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        http = Http(Origin("127.0.0.1", server.sockets[0].getsockname()[1]))
        try:
            await http.call("GET", "/version")
        finally:
            await http.close()
            server.close()

    with pytest.raises(CutError, match="its response is not HTTP"):
        run_idle(scenario())


def tunnelled(status: int) -> int:
    """A call through a proxy that answers so."""

    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("GET /version", Reply(200, {}))

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode())
            if status == 200:
                there, back = await asyncio.open_connection("127.0.0.1", api.port)
                back.write(await reader.read(4096))
                writer.write(await there.read(4096))
                back.close()
            writer.close()

        proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        connection.http.origin = replace(connection.http.origin, proxy=Proxy("127.0.0.1", port))
        try:
            return (await connection.call("GET", "/version")).status
        finally:
            proxy.close()

    return play(scenario)


def test_a_proxy_is_asked_for_a_way_through() -> None:
    assert tunnelled(200) == 200


def test_a_proxy_that_refuses_is_reported() -> None:
    with pytest.raises(NotSentError, match=r"can't be reached through 127.0.0.1: the proxy answered 407"):
        tunnelled(407)


def test_a_request_that_its_guard_refuses_is_not_sent() -> None:
    def refuse() -> None:
        raise NotSentError("not now")

    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        with pytest.raises(NotSentError, match="not now"):
            await connection.call("POST", "/version", b"{}", guard=refuse)
        return len(api.requests)

    assert play(scenario) == 0


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("secure", [False, True])
def test_a_request_is_passed_to_the_kernel_before_anything_else_runs(
    factory: Callable[[], Any], *, secure: bool
) -> None:
    """A process that is suspended after its guard, and before it sends, would send when it is resumed."""
    received = threading.Event()
    chain = new_chain(["127.0.0.1"], datetime.now(UTC), 3600.0)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            accepted, _ = listener.accept()
        with chain.serving.context().wrap_socket(accepted, server_side=True) if secure else accepted as peer:
            if peer.recv(1):
                received.set()
            while peer.recv(1000):
                pass

    async def story() -> bool:
        trust = ssl.create_default_context(cadata=chain.authorities) if secure else None
        http = Http(Origin("127.0.0.1", listener.getsockname()[1], tls=trust))
        exchange = await http._open()  # noqa: SLF001 - no answer is read
        exchange._send(b"GET / HTTP/1.1\r\n\r\n")  # noqa: SLF001 - same
        seen = received.wait(100.0)  # blocks the loop: only what has been sent already can arrive
        exchange.abort()
        await http.close()
        return seen

    thread = threading.Thread(target=serve)
    thread.start()
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(story())
    thread.join(100.0)
