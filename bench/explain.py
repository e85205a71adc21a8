"""Speed of explanations on a large, full cluster, and how long they keep the loop from answering kube-scheduler."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from clusters import node_names
from linkwise.broker.broker import Broker
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView
from linkwise.serve.explanations.explainer import Slices
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import in_gang
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.watch_events import WatchEvent

NODES, PODS, GANGS = 15_000, 50_000, 20
MEMBERS = 16
WHOLE = 1.0  # second
SLICE = 0.02  # seconds
NOW = 1.0


class Case(NamedTuple):
    """One explanation."""

    title: str
    work: Callable[[Broker], object]


CASES = (
    Case("pending pod", lambda broker: explain_pod(broker, "big", NOW)),
    Case("placed pod", lambda broker: explain_pod(broker, "old-7", NOW)),
    Case("pending member of a gang", lambda broker: explain_pod(broker, "gang-0-0", NOW)),
    Case("pending gang", lambda broker: explain_group(broker, "default/gang-0", NOW)),
    Case("node", lambda broker: explain_node(broker, "n000007", NOW)),
    Case("gang that never fits", lambda broker: explain_group(broker, "default/hopeless", NOW)),
    Case(
        f"{GANGS} gangs as listed",
        lambda broker: [explain_group(broker, key, NOW, most=0) for key in sorted(broker.group_keys())],
    ),
)


def gpu_pod(name: str, devices: int) -> PodView:
    """A pod whose name is its UID too."""
    limits = {"nvidia.com/gpu": str(devices), "cpu": str(4 * devices), "memory": "16Gi"}
    return PodView("default", name, name, (ContainerView("main", limits=limits),), version=1, scheduler="linkwise")


def cluster(nodes: int, pods: int, gangs: int) -> list[WatchEvent]:
    """A cluster without eight free devices anywhere, and gangs that wait for them."""
    chance, machine = random.Random(1), profile("dgx-a100")
    events: list[WatchEvent] = []
    count = 0
    for number, name in enumerate(node_names(nodes, 7)):
        events += fleet_node(machine, name, labels={"topology.kubernetes.io/rack": f"r{number // 32}"})
        devices = [device.id for device in machine_devices(machine, name)]
        here = pods * (number + 1) // nodes - count
        for place in range(here):
            own = tuple(devices[2 * place : 2 * place + chance.choice((1, 2))])
            events.append(_bound(gpu_pod(f"old-{count}", len(own)), name, own))
            count += 1
    events.append(gpu_pod("big", 8))
    for number in range(gangs):
        members = [gpu_pod(f"gang-{number}-{place}", 8) for place in range(MEMBERS)]
        events += in_gang(*members, least=MEMBERS, name=f"gang-{number}")
    huge = [
        replace(pod, containers=(replace(pod.containers[0], requests={"cpu": "1000"}),))
        for pod in (gpu_pod("h0", 8), gpu_pod("h1", 8))
    ]
    return [*events, *in_gang(*huge, least=2, name="hopeless")]


def _bound(pod: PodView, node: str, devices: tuple[str, ...]) -> PodView:
    grant = Grant(pod.uid, "link-affinity", Offer(node, (Part("main", devices),)))
    return replace(pod, node=node, phase="Running", annotations={GRANT: grant_text(grant)})


async def sliced(broker: Broker, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU in all, and the most that the loop was kept for, as the service explains."""
    slices = Slices()
    broker.pause_with(slices.pause)
    start = before = time.process_time()
    task, longest = asyncio.ensure_future(slices.run(work)), 0.0
    while not task.done():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, before = max(longest, now - before), now
    await task
    return time.process_time() - start, longest


def snapshot(broker: Broker) -> tuple[float, float]:
    """Seconds of CPU of a whole snapshot, and of the part that is taken on the loop."""
    start = time.process_time()
    make = broker.capture(NOW)
    captured = time.process_time() - start
    encode_snapshot(make())
    return time.process_time() - start, captured


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    broker = Broker()
    broker.observe(cluster(NODES, PODS, GANGS), 0.0)
    gc.collect()
    gc.freeze()
    table = Table(
        "explained",
        "seconds",
        "bar",
        "longest on the loop",
        "bar",
        "",
        title=f"Explanations, {NODES} nodes and {PODS} pods",
    )
    missed = False
    for case in CASES:
        seconds, longest = asyncio.run(sliced(broker, partial(case.work, broker)))
        missed |= _row(table, case.title, seconds, longest, WHOLE)
    missed |= _row(table, "snapshot", *snapshot(broker), inf)
    Console(highlight=False, width=120).print(table)
    sys.exit(missed)


def _row(table: Table, title: str, seconds: float, longest: float, bar: float) -> bool:
    """Add a row; return whether a bar is missed."""
    missed = seconds > bar or longest > SLICE
    bars = f"{bar:g}" if bar < inf else "-", f"{1000 * SLICE:.0f} ms"
    table.add_row(
        title, f"{seconds:.3f}", bars[0], f"{1000 * longest:.1f} ms", bars[1], "MISSED" if missed else "passed"
    )
    return missed


if __name__ == "__main__":
    main()
