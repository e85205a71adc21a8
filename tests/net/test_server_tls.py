"""A TLS server knows its clients by their certificates, and survives those that speak no TLS; on both event loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvloop

from linkwise.errors import ClusterError, InputError
from linkwise.net.certificates import Certificate, self_signed
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.messages import text
from linkwise.net.http.routes import Route, Routes
from linkwise.net.http.server import Limits, Server, listen
from linkwise.net.server_tls import BAD_CERTIFICATE, PROTOCOL, UNTRUSTED_SERVER, ServerTls
from support.tls_client import chain, client, trusting
from support.virtual_clock import IdleLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from linkwise.net.certificates import ServingChain
    from linkwise.net.http.messages import Request, Response

LOOPS = [IdleLoop, uvloop.new_event_loop]
PATIENCE = 100.0  # seconds until a test counts as hung


def who(request: Request, variables: Mapping[str, str]) -> Response:
    del variables
    return text("known" if request.certified else "stranger")


@dataclass(slots=True)
class TlsServer:
    """A TLS server whose answer says whether it knows the client."""

    made: ServingChain
    tls: ServerTls
    http: Server
    port: int
    failures: Counter[str]
    details: list[str] = field(default_factory=list)

    async def ask(self, certificate: Certificate | None = None, authorities: str = "") -> str:
        """The answer on a new connection; raises ClusterError if there is none."""
        http = Http(Origin("127.0.0.1", self.port, tls=trusting(authorities or self.made.authorities, certificate)))
        try:
            return (await http.call("GET", "/", wait=PATIENCE)).body.decode().strip()
        finally:
            await http.close()

    async def refused(self, certificate: Certificate | None = None) -> bool:
        """Whether a client gets no answer."""
        try:
            await self.ask(certificate)
        except ClusterError:
            return True
        return False

    async def raw(self, data: bytes) -> bytes:
        """What comes back for these bytes until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()


@asynccontextmanager
async def served(limits: Limits | None = None) -> AsyncIterator[TlsServer]:
    made, failures, details, listener = chain(), Counter[str](), list[str](), listen("127.0.0.1", 0)

    def failed(reason: str, detail: str) -> None:
        failures[reason] += 1
        details.append(detail)

    tls = ServerTls(failed)
    tls.replace(made.serving, made.authorities)
    server = Server(Routes([Route("GET", "/", who)]), limits or Limits(), tls.context)
    await server.start(listener)
    try:
        yield TlsServer(made, tls, server, listener.getsockname()[1], failures, details)
    finally:
        await server.close()


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs a story with a server; an exception that reaches the event loop fails the test."""

    def run(story: Callable[[TlsServer], Awaitable[None]], limits: Limits | None = None) -> None:
        unhandled: list[object] = []

        async def scenario() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            async with served(limits) as server:
                await story(server)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario())
        assert unhandled == []

    return run


def test_a_client_is_known_by_a_certificate_of_the_authority_and_a_stranger_without_one(
    play: Callable[..., None],
) -> None:
    async def story(server: TlsServer) -> None:
        assert await server.ask(client(server.made)) == "known"
        assert await server.ask() == "stranger"
        assert not server.failures

    play(story)


def test_a_certificate_that_is_foreign_expired_early_or_not_for_clients_ends_the_handshake(
    play: Callable[..., None],
) -> None:
    async def story(server: TlsServer) -> None:
        wrong = [
            client(chain()),
            client(server.made, days_ago=31),
            client(server.made, days_ago=-2),
            server.made.serving,
        ]
        assert [await server.refused(one) for one in [*wrong, self_signed(["x"])]] == [True] * 5
        assert server.failures == {BAD_CERTIFICATE: 5}
        assert "certificate has expired" in server.details
        assert await server.ask(client(server.made)) == "known"

    play(story)


def test_a_client_that_does_not_trust_the_server_is_reported(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        def connect() -> None:
            """As Go does, this client sends an alert before it closes the connection; those of asyncio do not."""
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as plain:
                trusting(chain().authorities).wrap_socket(plain, server_hostname="localhost")

        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(connect)
        async with asyncio.timeout(PATIENCE):
            while not server.failures:  # noqa: ASYNC110 - the alert is on its way
                await asyncio.sleep(0.001)
        assert server.failures == {UNTRUSTED_SERVER: 1}

    play(story)


@pytest.mark.parametrize(
    "data",
    [b"POST /bind HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"\xff" * 600, b"\0" * 64, b"SSH-2.0\r\n"],
)
def test_what_is_not_tls_gets_at_most_an_alert(play: Callable[..., None], data: bytes) -> None:
    async def story(server: TlsServer) -> None:
        assert len(await server.raw(data)) <= 7
        assert server.failures == {PROTOCOL: 1}
        assert await server.ask() == "stranger"

    play(story)


def test_a_handshake_that_never_ends_is_closed(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        silent = [server.raw(b""), server.raw(b"\x16\x03\x01")]
        assert await asyncio.gather(*silent) == [b"", b""]
        while await server.refused():  # on a slow machine this handshake may be too slow as well
            pass

    play(story, Limits(head_seconds=0.05))


def test_a_server_stops_while_handshakes_hang(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        wires = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        assert await server.ask() == "stranger"
        await server.http.close()
        for _, writer in wires:
            writer.transport.abort()

    play(story)


def test_fifty_handshakes_at_once_are_answered_each_as_it_is(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        known = client(server.made)
        answers = await asyncio.gather(*(server.ask(known if number % 2 else None) for number in range(50)))
        assert Counter(answers) == {"known": 25, "stranger": 25}

    play(story)


def test_replaced_certificates_hold_for_new_connections_and_open_ones_stay(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        old, newer = client(server.made), chain()
        kept = Http(Origin("127.0.0.1", server.port, tls=trusting(server.made.authorities, old)))
        assert (await kept.call("GET", "/")).body == b"known\n"
        server.tls.replace(newer.serving, newer.authorities)
        assert (await kept.call("GET", "/")).body == b"known\n"
        await kept.close()
        assert await server.ask(client(newer), newer.authorities) == "known"
        with pytest.raises(ClusterError):
            await server.ask(old, newer.authorities)
        assert server.failures == {BAD_CERTIFICATE: 1}

    play(story)


def test_certificates_that_can_t_be_used_leave_the_old_ones(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        good, other = server.made.serving, chain().serving
        unusable = [(Certificate("", ""), ""), (Certificate(good.text, other.key), ""), (good, "no certificate")]
        for pair, authorities in unusable:
            with pytest.raises(InputError, match="can't be used"):
                server.tls.replace(pair, authorities)
        assert await server.ask(client(server.made)) == "known"

    play(story)


def test_without_authorities_no_client_is_known(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        server.tls.replace(server.made.serving)
        assert await server.ask(client(server.made)) == "stranger"

    play(story)


def test_before_the_first_certificate_no_client_trusts_the_server() -> None:
    async def scenario() -> None:
        listener = listen("127.0.0.1", 0)
        server = Server(Routes([Route("GET", "/", who)]), tls=ServerTls().context)
        await server.start(listener)
        port = listener.getsockname()[1]
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        for tls, works in ((trusting(chain().authorities), False), (unverified, True)):
            http = Http(Origin("127.0.0.1", port, tls=tls))
            try:
                assert (await http.call("GET", "/")).body == b"stranger\n"
                assert works
            except ClusterError:
                assert not works
            await http.close()
        await server.close()

    asyncio.run(scenario())


def test_connections_can_t_be_resumed(play: Callable[..., None]) -> None:
    async def story(server: TlsServer) -> None:
        trust = trusting(server.made.authorities, client(server.made))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust, server_hostname="localhost")
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"known" in await reader.read()
        secured = writer.get_extra_info("ssl_object")
        assert secured.version() == "TLSv1.3"
        assert not (secured.session and secured.session.has_ticket)
        writer.close()

    play(story)
