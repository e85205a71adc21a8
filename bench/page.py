"""Speed of the page's cluster document on a large, full cluster, and how long it keeps the loop from answering kube-scheduler."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from explain import cluster, gpu_pod
from linkwise.broker.broker import Broker
from linkwise.net.timing import Timing
from linkwise.serve.metrics import Counting
from linkwise.serve.page.feed import Feed
from linkwise.serve.service import Service
from linkwise.testing.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable

NODES, PODS, GANGS, WAITING = 5_000, 20_000, 10, 200
SLICE = 0.02  # seconds


class Cost(NamedTuple):
    """What one refresh took."""

    title: str
    seconds: float
    longest: float
    bar: float  # seconds


async def _measured(title: str, work: Awaitable[object], bar: float) -> Cost:
    """Seconds of CPU of a refresh, and the most that the loop was kept for."""
    began = before = time.process_time()
    task, longest = asyncio.ensure_future(work), 0.0
    while not task.done():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, before = max(longest, now - before), now
    await task
    return Cost(title, time.process_time() - began, longest, bar)


async def _run(service: Service) -> tuple[list[Cost], str]:
    now = iter(range(10**9))
    feed = Feed(service, Timing(clock=lambda: float(next(now)), sleep=lambda _: asyncio.sleep(0)))
    costs = [await _measured("first document", feed.view(None), 5.0)]
    view = await feed.view(None)
    if view.explaining:
        costs.append(await _measured("sentences and capacity, in the background", view.explaining, 30.0))
    with feed.reading(view) as mailbox:
        await feed.view(None)
        mailbox.take()
        service.observe([replace(gpu_pod("old-7", 1), phase="Succeeded", node="n000001", version=2)])
        costs.append(await _measured("a pod ends", feed.view(None), 0.5))
        change = (mailbox.take() or [b""])[0]
    feed.close("measured")
    began = time.perf_counter()
    zipped = await view.zipped()
    sizes = (
        f"document {len(view.body) / 1000:.0f} kB, compressed {len(zipped) / 1000:.0f} kB in "
        f"{time.perf_counter() - began:.3f} s; change {len(change)} bytes"
    )
    return costs, sizes


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    broker, template = Broker(), gpu_pod("wait", 8)
    waiting = [replace(template, name=f"wait-{number}", uid=f"wait-{number}") for number in range(WAITING)]
    broker.observe([*cluster(NODES, PODS, GANGS), *waiting], 0.0)
    service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0)
    service.synced = True
    gc.collect()
    gc.freeze()
    costs, sizes = asyncio.run(_run(service))
    table = Table(
        "refresh", "seconds", "bar", "longest on the loop", "bar", title=f"Page, {NODES} nodes and {PODS} pods"
    )
    for cost in costs:
        table.add_row(cost.title, f"{cost.seconds:.3f}", f"{cost.bar:g}", f"{cost.longest:.4f}", f"{SLICE:g}")
    console = Console()
    console.print(table)
    console.print(sizes)
    if any(cost.seconds > cost.bar or cost.longest > SLICE for cost in costs):
        sys.exit(1)


if __name__ == "__main__":
    main()
