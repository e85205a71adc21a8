"""What a list of 50,000 pods costs in processor time, and the most of it that was used before others got their turn.

The API server is a process of its own that sends pages made before; what is measured is the reflector alone, or with a
broker behind it that takes everything in.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, cast

import uvloop

from clusters import pod_json
from linkwise.broker.broker import Broker
from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.kube.watch.kinds import PODS
from linkwise.kube.watch.reflector import Reflector
from linkwise.net.http.client import Http, Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.watch_events import WatchEvent

PAGE = 500
FILLING = "x" * 2_600  # fields that every pod has and Linkwise does not read: managed fields, status, volumes


def pages(count: int) -> list[bytes]:
    """The list, page by page."""
    pods = [_pod(number) for number in range(count)]
    found = []
    for start in range(0, count, PAGE):
        rest = f'"continue":"{start + PAGE}",' if start + PAGE < count else ""
        items = ",".join(pods[start : start + PAGE])
        found.append(f'{{"metadata":{{{rest}"resourceVersion":"9"}},"items":[{items}]}}'.encode())
    return found


def _pod(number: int) -> str:
    filling = {"status": {"phase": "Pending", "message": FILLING}}
    return json.dumps(pod_json(number, {"nvidia.com/gpu": str(1 + number % 4)}) | filling)


class Server(asyncio.Protocol):
    """Sends pages as they are asked for, and nothing on a watch."""

    made: tuple[bytes, ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A request, which is small enough to come at once."""
        if b"watch=1" in data:
            self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            return
        start = int(data.partition(b"continue=")[2].split(b" ")[0] or 0)
        body = self.made[start // PAGE]
        self.transport.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def serve(count: int) -> None:
    """Serve as the API server; the first line of output is the port."""
    Server.made = tuple(pages(count))
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def measure(port: int, sink: Callable[[list[WatchEvent]], object]) -> tuple[float, float, float]:
    """Processor time, time on the wall and the longest stall of one list, in seconds."""
    connection = Connection(Http(Origin("127.0.0.1", port)), Credentials(None, "bench"), "bench")
    reflector = Reflector(
        connection=connection, source=PODS, sink=lambda sights: _drop(sink(sights)), path="/api/v1/pods"
    )
    stall, begin, used = 0.0, time.perf_counter(), time.process_time()
    task, last = asyncio.create_task(reflector.run()), time.process_time()
    while not reflector.stats.synced:
        await asyncio.sleep(0.001)
        now = time.process_time()
        stall, last = max(stall, now - last), now
    took = time.process_time() - used, time.perf_counter() - begin, stall
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await connection.close()
    return took


def _drop(_: object) -> None:
    return


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.pods))
        return
    command = [sys.executable, __file__, "--serve", "--pods", str(given.pods)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ourselves
        port = int(server.stdout.readline()) if server.stdout else 0
        for name, sink in (("reflector", _drop), ("with a broker", _observed())):
            used, took, stall = uvloop.run(measure(port, sink))
            print(
                f"{name}: {given.pods} pods, {used:.2f} s of processor time ({used / given.pods * 1e6:.0f} us a pod),"
                f" {took:.2f} s on the wall, longest stall {stall * 1e3:.1f} ms"
            )
        server.terminate()


def _observed() -> Callable[[list[WatchEvent]], object]:
    broker = Broker()
    return lambda sights: broker.observe(sights, 0.0)


if __name__ == "__main__":
    main()
