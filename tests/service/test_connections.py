"""Calls over real connections: however the bytes of a request arrive, it is answered once and in order."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.net.http.server import Limits, Server, listen
from linkwise.serve.app import application
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod
from linkwise.testing.recorder import Recorder
from linkwise.wire.kubernetes.to_objects import pod_object
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FILTER = {"Pod": pod_object(device_pod("p", 2)), "NodeNames": ["a"]}
MANY = {**FILTER, "NodeNames": ["a", *(f"unknown-{number:039d}" for number in range(10_000))]}
BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}
STOPPED = "Linkwise stopped before it could answer; try again"
PLAIN = ("Content-Type: application/json",)


HASTY = Limits(head_seconds=0.2, body_seconds=0.6)


class Asking:
    """A connection to a server of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Server) -> None:
        self.reader, self.writer, self.server = reader, writer, server

    async def send(self, *pieces: bytes) -> None:
        """Piece by piece, each after the one before has arrived."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.01)

    async def answer(self) -> tuple[int, str, Any]:
        """Status, the header that tells whether the connection ends, and the body."""
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
            body = await self.reader.readexactly(int(fields["content-length"]))
        content = json.loads(body) if fields["content-type"] == "application/json" else body.decode()
        return int(head.split()[1]), fields.get("connection", ""), content

    async def offered(self) -> None:
        """Ask for nodes, so that a bind may follow."""
        await self.send(request("/filter", FILTER))
        await self.answer()

    async def is_ended(self) -> bool:
        """Whether the server hangs up."""
        async with asyncio.timeout(30):
            return not await self.reader.read(1)


def request(path: str, document: object, *headers: str) -> bytes:
    body = json.dumps(document).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *(headers or PLAIN)]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def asked(
    recorder: Recorder | None = None,
    counting: Counting | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Asking]:
    service = Service(broker_of(FakeNode("a")), recorder or Recorder(), counting or Counting(), clock=lambda: 100.0)
    service.start()
    door = listen("127.0.0.1", 0)
    server = Server(application(service, dict), limits or Limits())
    serving = asyncio.create_task(server.serve(door))
    reader, writer = await asyncio.open_connection(*door.getsockname())
    try:
        yield Asking(reader, writer, server)
    finally:
        writer.transport.abort()
        server.stop()
        await serving
        door.close()


def test_many_long_requests_on_one_connection_are_all_answered() -> None:
    async def scenario() -> None:
        async with asked() as asking:
            assert len(request("/filter", MANY)) > Limits().max_head
            for _ in range(5):
                await asking.send(request("/filter", MANY))
                status, ending, content = await asking.answer()
                assert (status, ending, content["NodeNames"]) == (200, "", ["a"])

    run_idle(scenario())


def test_a_body_may_come_in_pieces_and_between_heads() -> None:
    whole = request("/filter", FILTER)

    async def scenario() -> None:
        async with asked() as asking:
            await asking.send(whole[:20], whole[20:200], whole[200:-1], whole[-1:] + whole[:30])
            assert (await asking.answer())[2]["NodeNames"] == ["a"]
            await asking.send(whole[30:])
            assert (await asking.answer())[2]["NodeNames"] == ["a"]

    run_idle(scenario())


def test_who_asks_again_before_a_bind_is_over_is_answered_in_order() -> None:
    recorder = Recorder(gate=asyncio.Event())

    async def scenario() -> None:
        async with asked(recorder) as asking:
            await asking.offered()
            await asking.send(
                request("/bind", BIND) + request("/filter", FILTER) + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            await asyncio.sleep(1)
            recorder.release()
            answers = [await asking.answer() for _ in range(3)]
            assert [status for status, *_ in answers] == [200, 200, 200]
            assert (answers[0][2], answers[1][2]["NodeNames"], answers[2][2]) == ({}, ["a"], "ok\n")

    run_idle(scenario())


@pytest.mark.parametrize(
    "unusual",
    [
        ("Content-Type: application/json; charset=utf-8",),
        (*PLAIN, "Connection: close"),
        (*PLAIN, "X-Other: 1"),
        ("Accept: */*",),
    ],
)
def test_what_is_unusual_about_a_request_does_not_change_its_answer(unusual: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with asked() as asking:
            await asking.send(request("/filter", FILTER, *unusual))
            status, _, content = await asking.answer()
            assert (status, content["NodeNames"]) == (200, ["a"])

    run_idle(scenario())


def test_a_body_in_chunks_is_read_as_well() -> None:
    body = json.dumps(FILTER).encode()
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario() -> None:
        async with asked() as asking:
            await asking.send(head, b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
            assert (await asking.answer())[2]["NodeNames"] == ["a"]

    run_idle(scenario())


def test_a_client_that_expects_100_continue_gets_it() -> None:
    whole = request("/filter", FILTER, *PLAIN, "Expect: 100-continue")
    head, _, body = whole.partition(b"\r\n\r\n")

    async def scenario() -> None:
        async with asked() as asking:
            await asking.send(head + b"\r\n\r\n")
            assert b" 100 " in await asking.reader.readuntil(b"\r\n\r\n")
            await asking.send(body)
            assert (await asking.answer())[2]["NodeNames"] == ["a"]

    run_idle(scenario())


def test_a_body_that_drips_is_given_up_in_time_and_hung_up_on() -> None:
    whole = request("/filter", FILTER)

    async def scenario() -> None:
        async with asked(limits=HASTY) as asking:
            begun = asyncio.get_running_loop().time()
            await asking.send(whole[:-50])
            for place in range(-50, -46):
                await asyncio.sleep(0.1)
                asking.writer.write(whole[place : place + 1])
            status, ending, content = await asking.answer()
            assert (status, ending, content) == (408, "close", "the request body did not arrive within 0.6 s\n")
            assert asyncio.get_running_loop().time() - begun < 1.2
            assert await asking.is_ended()

    run_idle(scenario())


@pytest.mark.parametrize("place", [len(request("/filter", FILTER)), 150, -1])
def test_a_connection_that_was_answered_is_ended_when_nothing_more_is_asked_for_long(place: int) -> None:
    whole = request("/filter", FILTER)

    async def scenario() -> None:
        async with asked(limits=replace(HASTY, keep_alive=1.0)) as asking:
            await asking.send(whole[:place], whole[place:])
            await asking.answer()
            answered = asyncio.get_running_loop().time()
            assert await asking.is_ended()
            assert asyncio.get_running_loop().time() - answered == pytest.approx(1.0, abs=0.3)

    run_idle(scenario())


def test_who_hangs_up_before_all_is_said_is_counted() -> None:
    counting = Counting()

    async def scenario() -> None:
        async with asked(counting=counting) as asking:
            await asking.send(request("/filter", FILTER)[:-20])
            asking.writer.transport.abort()
            await asyncio.sleep(0.1)

    run_idle(scenario())
    assert counting.registry.get_sample_value("linkwise_requests_total", {"verb": "filter", "code": "499"}) == 1


def test_a_bind_behind_an_answered_request_may_take_its_time() -> None:
    recorder = Recorder(gate=asyncio.Event())

    async def scenario() -> None:
        async with asked(recorder, limits=Limits(keep_alive=0.3)) as asking:
            await asking.send(request("/filter", FILTER) + request("/bind", BIND))
            assert (await asking.answer())[2]["NodeNames"] == ["a"]
            await asyncio.sleep(0.8)
            recorder.release()
            assert await asking.answer() == (200, "", {})

    run_idle(scenario())


@pytest.mark.parametrize("half", [False, True])
def test_a_server_that_stops_leaves_no_request_unanswered(half: bool) -> None:  # noqa: FBT001 - a parameter of the test
    recorder = Recorder(gate=asyncio.Event())

    async def scenario() -> None:
        async with asked(recorder) as asking:
            await asking.offered()
            await asking.send(request("/filter", FILTER)[:-20] if half else request("/bind", BIND))
            asking.server.stop()
            if not half:
                status, ending, content = await asking.answer()
                assert (status, ending, content["Error"]) == (200, "close", STOPPED)
            assert await asking.is_ended()

    run_idle(scenario())


def test_what_is_asked_behind_the_last_answer_is_not_done() -> None:
    recorder, whole = Recorder(), request("/filter", FILTER)

    async def scenario() -> None:
        async with asked(recorder) as asking:
            await asking.send(whole[:-20])
            asking.server.stop()
            await asyncio.sleep(0.5)
            await asking.send(whole[-20:] + request("/bind", BIND))
            assert (await asking.answer())[:2] == (200, "close")
            assert await asking.is_ended()

    run_idle(scenario())
    assert recorder.binds == []


def test_a_bind_is_answered_although_the_server_is_stopped_meanwhile() -> None:
    recorder = Recorder(gate=asyncio.Event())

    async def scenario() -> None:
        async with asked(recorder) as asking:
            await asking.offered()
            await asking.send(request("/bind", BIND))
            asking.server.stop()
            await asyncio.sleep(0.5)
            recorder.release()
            assert await asking.answer() == (200, "close", {})
            assert await asking.is_ended()

    run_idle(scenario())


def test_who_hangs_up_before_a_bind_is_over_undoes_nothing() -> None:
    recorder = Recorder(gate=asyncio.Event())

    async def scenario() -> None:
        async with asked(recorder) as asking:
            await asking.offered()
            await asking.send(request("/bind", BIND))
            asking.writer.transport.abort()
            await asyncio.sleep(0.1)
            recorder.release()
            await asyncio.sleep(0.1)

    run_idle(scenario())
    assert [bind.node for bind in recorder.binds] == ["a"]
