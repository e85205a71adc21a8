"""Cost of HTTP in filter: CPU of the service beside a server of the same stack that returns a constant answer.

Both run in their own processes on one core, with the client on another, and are called in turns of a few calls. The CPU
time that the kernel counts is compared turn by turn, because cores of virtual machines change their speed independently of
each other: a ratio across cores or moments would be meaningless.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from itertools import count
from operator import truediv
from pathlib import Path
from statistics import median

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from clusters import decode_all, node_names, observed, pod_json, request, whole_cluster
from linkwise.net.http.routes import Endpoint, Route, Routes
from linkwise.net.http.server import Server, listen
from linkwise.serve.app import application
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.recorder import Recorder
from linkwise.wire.extender import FilterResult, encode
from linkwise.wire.kubernetes.objects import decode_pod

NODES, CALLS, ROUNDS = 5_000, 10, 100
WARM = 20
"""warm-up rounds, in which requests fill the tables"""
BAR = 2.0


def constant(names: list[str]) -> Server:
    """Decodes requests into types and returns a constant answer."""
    reply = encode(FilterResult(names[:16]))

    def answer(body: bytes) -> bytes:
        decode_all(body)
        return reply

    endpoint = Endpoint("filter", answer, lambda _: None, Counting())
    return Server(Routes([Route("POST", "/filter", endpoint.handle, endpoint.refuse)]))


def pod(number: int) -> dict[str, object]:
    """A server to call."""
    return pod_json(number, {"nvidia.com/gpu": str((1, 2, 4)[number % 3])})


def ours(names: list[str]) -> Server:
    """The service, with a cluster half of whose devices are taken; about eight pods are on their way at any time.

    It has seen those that ask, as a watch shows them before they do.
    """
    time = count(1.0, 0.25)
    shown = [decode_pod(msgspec.json.encode(pod(number))) for number in range(ROUNDS * CALLS)]
    broker = observed([*whole_cluster(names, random.Random(1)), *shown])
    service = Service(broker, Recorder(), Counting(), clock=time.__next__)
    service.start()
    return Server(application(service, dict))


def stay_on(core: int) -> None:
    """Pin this process to one of its cores."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})


async def serve(kind: str) -> None:
    """Serve, and print the port."""
    names = node_names(NODES, int(sys.argv[3]))
    server = ours(names) if kind == "ours" else constant(names)
    stay_on(-1)
    door = listen("127.0.0.1", 0)
    print(door.getsockname()[1], flush=True)
    await server.serve(door)


class Asked:
    """A server in its own process, called over one persistent connection."""

    def __init__(self, kind: str, length: int) -> None:
        command = [sys.executable, __file__, "--serve", kind, str(length)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        port = int(self.process.stdout.readline())
        self._wire = socket.create_connection(("127.0.0.1", port))

    def cpu(self, bodies: list[bytes]) -> float:
        """Microseconds of the server's CPU per call."""
        before = self._spent()
        for body in bodies:
            self._ask(body)
        return (self._spent() - before) / len(bodies) * 1e6

    def _ask(self, body: bytes) -> None:
        head = (
            f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._wire.sendall(head.encode() + body)
        answer = self._more()
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        headers, _, got = answer.partition(b"\r\n\r\n")
        length = int(
            next(line.split(b":")[1] for line in headers.lower().split(b"\r\n") if line.startswith(b"content-l"))
        )
        while len(got) < length:
            got += self._more()
        if b" 200 " not in headers or b'"Error"' in got:
            raise AssertionError(answer[:500])

    def _more(self) -> bytes:
        if not (got := self._wire.recv(1 << 20)):
            raise AssertionError("the server hung up")
        return got

    def _spent(self) -> float:
        """Nanoseconds from schedstat, which is finer than clock ticks."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1e9

    def end(self) -> None:
        """Stop the server."""
        self._wire.close()
        self.process.kill()
        self.process.wait()


def measure(length: int) -> tuple[float, float, float]:
    """Medians of the service and of the constant server in microseconds per call, and of their ratio per round."""
    names = node_names(NODES, length)
    servers = {kind: Asked(kind, length) for kind in ("ours", "constant")}
    spent: dict[str, list[float]] = {kind: [] for kind in servers}
    cores = os.sched_getaffinity(0)
    stay_on(0)
    try:
        for turn in range(ROUNDS):
            bodies = [request(pod(turn * CALLS + number), names) for number in range(CALLS)]
            for kind, server in servers.items():
                spent[kind].append(server.cpu(bodies))
    finally:
        os.sched_setaffinity(0, cores)
        for server in servers.values():
            server.end()
    ours, constant = (spent[kind][WARM:] for kind in servers)
    return median(ours), median(constant), median(map(truediv, ours, constant))


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    if len(sys.argv) > 2 and sys.argv[1] == "--serve":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(sys.argv[2]))
        return
    table = Table(
        "names of",
        "ours, us",
        "constant, us",
        "ratio",
        "bar",
        "",
        title=f"HTTP filter over {NODES:,} names, server CPU a call",
    )
    missed = False
    for length in (13, 42):
        high, low, ratio = measure(length)
        passed = ratio <= BAR
        missed = missed or not passed
        table.add_row(
            f"{length} characters",
            f"{high:.0f}",
            f"{low:.0f}",
            f"{ratio:.2f}x",
            f"{BAR:g}x",
            "passed" if passed else "MISSED",
        )
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
