"""Latency of the embedded cluster with 5,000 nodes: the longest turn of its loop during lists, watches and scheduling.

Everything but the readers runs on one loop, as `linkwise up` runs it: API server, scheduler, nodes, controllers, service.
The bar is on the CPU time between two turns of the loop, so that other programs do not count.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import uvloop
from rich.console import Console
from rich.table import Table

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.cluster import EmbeddedCluster
from linkwise.net.http.client import Origin
from support.blocking_http import BlockingHttp
from support.embedded.cluster import QUICK, ClusterUnderTest
from support.embedded.service import EmbeddedService

if TYPE_CHECKING:
    from collections.abc import Awaitable

NODES, PODS, PATCHES = 5_000, 100, 1_000
BAR = 50.0  # ms
START = "the service starts"
"""the service computes all nodes before it answers; elsewhere that is another process, so it has no bar here"""
PATHS = ("/api/v1/nodes", "/api/v1/nodes?limit=500", "/api/v1/nodes?watch=1&timeoutSeconds=8")


@dataclass(slots=True)
class Turns:
    """The longest turn of the loop, by activity."""

    doing: str = "start"
    longest: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    async def watch(self) -> None:
        """Note the longest turn of everything that goes on; it takes part in each, so that none is missed."""
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest[self.doing] = max(self.longest.get(self.doing, 0.0), 1000 * (now - before))
            before = now

    async def during(self, what: str, work: Awaitable[object]) -> None:
        """Run an activity under a name."""
        self.doing, begun = what, time.perf_counter()
        await work
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - begun


def read(port: int, token: str, path: str) -> None:
    """Read an answer to its end; what is watched for as long as it lasts."""
    http = BlockingHttp(Origin("127.0.0.1", port))
    with http.stream(path, {"Authorization": f"Bearer {token}"}) as (_, pieces):
        for _ in pieces:
            pass


async def readers(api: EmbeddedApi, *paths: str) -> None:
    """Processes that read, so that only the server's part is on this loop."""
    words = (sys.executable, __file__, "read", str(api.port), api.token)
    started = [await asyncio.create_subprocess_exec(*words, path) for path in paths]
    for process in started:
        if await process.wait():
            raise AssertionError("a reader failed")


async def patch(cluster: ClusterUnderTest) -> None:
    """Change nodes one after the other, for the watches."""
    for number, stored in enumerate(cluster.store.list("nodes").items[:PATCHES]):
        cluster.store.patch("nodes", stored.name, {"metadata": {"annotations": {"example.com/turn": str(number)}}})
        await asyncio.sleep(0.001)


async def schedule(cluster: ClusterUnderTest) -> None:
    """Pods that are placed on the best of all nodes."""
    for number in range(PODS):
        cluster.create(f"p{number}", {"nvidia.com/gpu": 1 + number % 4})
    await cluster.until(lambda: len(cluster.bound()) == PODS, "all are placed", 120.0)


async def measure(turns: Turns) -> None:
    """Run every activity once."""
    service, watching = EmbeddedService(), asyncio.create_task(turns.watch())
    embedded = EmbeddedCluster({"dgx1-v100": NODES}, service.url, api=EmbeddedApi(tls=False), settings=QUICK)
    await turns.during("nodes are made", embedded.__aenter__())
    try:
        cluster = ClusterUnderTest(embedded, service)
        await turns.during(
            "the scheduler reads them", cluster.until(lambda: len(embedded.scheduler.node_cache.nodes) == NODES, "")
        )
        await turns.during(START, service.start(embedded.api.kubeconfig(), 60.0))
        await turns.during(START, cluster.seen())
        await turns.during(START, asyncio.sleep(0.1))  # the last turn is counted here
        await turns.during("nodes are listed whole", readers(embedded.api, PATHS[0]))
        await turns.during("nodes are listed by three", readers(embedded.api, *PATHS[:2], PATHS[0]))
        await turns.during(
            "nodes are watched and changed", asyncio.gather(readers(embedded.api, *[PATHS[2]] * 3), patch(cluster))
        )
        await turns.during("pods are scheduled", schedule(cluster))
    finally:
        watching.cancel()
        await service.kill()
        await embedded.__aexit__()


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    if len(sys.argv) > 4 and sys.argv[1] == "read":
        read(int(sys.argv[2]), sys.argv[3], sys.argv[4])
        return
    logging.disable(logging.CRITICAL)
    turns = Turns()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(turns))
    table = Table("while", "s", "longest turn, ms", "bar", "", title=f"{NODES} nodes in the embedded cluster")
    missed = False
    for what, seconds in turns.seconds.items():
        longest, bar = turns.longest.get(what, 0.0), inf if what == START else BAR
        table.add_row(what, f"{seconds:.1f}", f"{longest:.1f}", f"{bar:g}", "passed" if longest <= bar else "MISSED")
        missed |= longest > bar
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
