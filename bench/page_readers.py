"""Latency of filter calls over HTTP while the page is open: the service with 1,000 nodes, 20 changes per second, and ten readers.

Service and readers run in processes of their own. Calls with and without readers alternate in one run, so that a busy machine
slows both. The median tells what readers cost all calls; the 99th percentile, those that meet a refresh.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from statistics import quantiles
from typing import TYPE_CHECKING, Final

import uvloop
from rich.console import Console
from rich.table import Table

from clusters import node_names, pod_json, request
from explain import cluster, gpu_pod
from linkwise.broker.broker import Broker
from linkwise.net.http.client import Http, Origin
from linkwise.net.http.server import Server, listen
from linkwise.serve.app import application
from linkwise.serve.explanations.access import Access
from linkwise.serve.metrics import Counting
from linkwise.serve.page.routes import Page
from linkwise.serve.service import Service
from linkwise.testing.recorder import Recorder

if TYPE_CHECKING:
    from linkwise.wire.kubernetes.reviews import Caller

NODES, PODS, READERS, CHANGES = 1_000, 4_000, 10, 20
ROUNDS, CALLS = 4, 150
PAUSE: Final = 0.01  # seconds between two calls, so that they meet refreshes as calls of kube-scheduler do
BARS: Final = (3.0, 20.0)
"""milliseconds that readers may add to the median and to the 99th percentile; a refresh keeps the loop for at most 20"""


class Nobody:
    """Reviews of the API server, of which callers on this machine need none."""

    async def authenticate(self, token: str) -> Caller | None:
        """The user of a token: unknown."""
        del token
        return None

    async def may(self, caller: Caller, verb: str, namespace: str, name: str = "", resource: str = "pods") -> bool:
        """Whether a user has a right: no."""
        del caller, verb, namespace, name, resource
        return False


async def serve() -> None:
    """Serve a cluster in which a pod ends 20 times per second, and print the port."""
    broker = Broker()
    broker.observe(cluster(NODES, PODS, 0), 0.0)
    service = Service(broker, Recorder(), Counting(), clock=time.monotonic)
    service.start()
    service.synced = True
    access = Access(Nobody(), local=True)
    server = Server(application(service, dict, access=access, page=Page(service, access)))
    door = listen("127.0.0.1", 0)
    print(door.getsockname()[1], flush=True)
    changes = asyncio.create_task(_change(service))
    await server.serve(door)
    changes.cancel()


async def _change(service: Service) -> None:
    for number in range(PODS):
        node = f"n{number * NODES // PODS:06d}"
        service.observe([replace(gpu_pod(f"old-{number}", 1), phase="Succeeded", node=node, version=2)])
        await asyncio.sleep(1 / CHANGES)


async def read(port: int) -> None:
    """Read ten streams to their end, and print a line once all have begun."""
    begun = asyncio.Semaphore(0)
    readers = [asyncio.create_task(_follow(port, begun)) for _ in range(READERS)]
    for _ in readers:
        await begun.acquire()
    print("all read", flush=True)
    await asyncio.gather(*readers)


async def _follow(port: int, begun: asyncio.Semaphore) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    writer.write(b"GET /v1/page/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    if b" 200 " not in await reader.readline():
        raise AssertionError("no stream")
    while line := await reader.readline():
        if line.startswith(b"event: cluster"):
            begun.release()


async def calls(port: int) -> list[float]:
    """Milliseconds of filter calls over one connection."""
    names, times = node_names(NODES, 7), list[float]()
    http = Http(Origin("127.0.0.1", port))
    try:
        for number in range(CALLS):
            body = request(pod_json(number, {"nvidia.com/gpu": str((1, 2, 4)[number % 3])}), names)
            began = time.perf_counter()
            answer = await http.call("POST", "/filter", b"Content-Type: application/json\r\n", body)
            times.append(1000 * (time.perf_counter() - began))
            if answer.status != 200:
                raise AssertionError(answer.body[:200])
            await asyncio.sleep(PAUSE)
    finally:
        await http.close()
    return times


def _started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves


def measure() -> dict[bool, list[float]]:
    """Milliseconds of the calls with readers and without."""
    times: dict[bool, list[float]] = {False: [], True: []}
    server = _started("serve")
    try:
        port = int((server.stdout or sys.stdin).readline())
        asyncio.run(calls(port))  # fills the tables
        for _ in range(ROUNDS):
            times[False] += asyncio.run(calls(port))
            readers = _started("read", str(port))
            try:
                if not (readers.stdout or sys.stdin).readline():
                    raise AssertionError("the readers failed")
                times[True] += asyncio.run(calls(port))
            finally:
                readers.kill()
                readers.wait()
    finally:
        server.kill()
        server.wait()
    return times


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    if len(sys.argv) > 1:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve() if sys.argv[1] == "serve" else read(int(sys.argv[2])))
        return
    parts = {readers: quantiles(times, n=100) for readers, times in measure().items()}
    table = Table(
        "readers", "p50, ms", "p99, ms", "", title=f"Filter over {NODES:,} nodes with {CHANGES} changes per second"
    )
    missed = any(parts[True][at] > parts[False][at] + bar for at, bar in zip((49, 98), BARS, strict=True))
    for readers, part in parts.items():
        verdict = "" if not readers else "MISSED" if missed else f"at most +{BARS[0]:g} and +{BARS[1]:g}: passed"
        table.add_row(str(READERS if readers else 0), f"{part[49]:.2f}", f"{part[98]:.2f}", verdict)
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
