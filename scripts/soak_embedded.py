"""Soak test of the embedded cluster: `memory` creates and deletes pods by the ten thousand, `shake` runs the chaos test.

`python scripts/soak_embedded.py memory 50000` exits with 1 if memory grows; `... shake 5000 [SEED]` if an invariant is
violated. A failure is printed with the seed that reproduces it.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkwise.config.settings import KubeSettings
from linkwise.embedded.controllers.cleanup import CleanupSettings
from support.e2e.pod_objects import pod
from support.embedded.chaos import CROWDED, FLEET, Chaos
from support.embedded.cluster import QUICK, ClusterUnderTest, played
from support.embedded.service import EmbeddedService
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

WAVE = 250
WARM = 10_000  # pods until all that is kept of the past is full
BAR = 1.1  # of what there was then
NODES = {"dgx1-v100": 60}


def memory(pods: int) -> bool:
    """Make and delete so many pods; whether memory stayed as it was after the first ten thousand."""
    seen: dict[int, float] = {}

    async def story(cluster: ClusterUnderTest) -> None:
        for number in range(0, pods, WAVE):
            await wave(cluster, number)
            if not (number + WAVE) % 2500:
                gc.collect()
                seen[number + WAVE] = resident()
                print(f"{number + WAVE} pods: {seen[number + WAVE]:.0f} MB", flush=True)

    begun = time.monotonic()
    run(story, NODES)
    first, last = seen[min(WARM, max(seen))], seen[max(seen)]
    rate = pods / (time.monotonic() - begun)
    print(f"memory: {first:.0f} MB after {WARM} pods, {last:.0f} MB after {pods} (bar {BAR}); {rate:.0f} pods a second")
    return last <= BAR * first


def shake(pods: int, seed: int) -> bool:
    """Let anything happen to so many pods; whether all was well."""

    async def story(cluster: ClusterUnderTest) -> None:
        chaos = Chaos(cluster, seed)
        await chaos.run(pods)
        print(
            f"{chaos.made} pods, seed {seed}: {dict(chaos.happened)}; no device was allocated twice, no pod was forgotten"
        )

    print(f"shaking an embedded cluster with {pods} pods, seed {seed}", flush=True)
    try:
        run(story, CROWDED if seed % 2 else FLEET)
    except AssertionError as error:
        print(f"seed {seed}: {error}")
        return False
    return True


async def wave(cluster: ClusterUnderTest, first: int) -> None:
    """Pods that are made, run, and are deleted."""
    names = [f"p{first + number}" for number in range(WAVE)]
    for number, name in enumerate(names):
        cluster.store.create("pods", pod("default", name, {"nvidia.com/gpu": 1 + number % 2}))
    await cluster.until(lambda: len(cluster.bound()) == WAVE, "all are bound", 120.0)
    cluster.delete(*names)
    await cluster.until(lambda: not cluster.store.list("pods").items, "all are gone", 120.0)


def run(story: Callable[[ClusterUnderTest], Coroutine[object, object, None]], fleet: Mapping[str, int]) -> None:
    """Let something happen beside a cluster that keeps few events, so that what is kept is soon full."""
    logging.disable(logging.CRITICAL)
    settings = replace(
        QUICK, cleanup=CleanupSettings(orphan_delay=0.1, eviction_delay=0.2, event_interval=2.0, max_events=2000)
    )
    kube = KubeSettings(bind_timeout=2.0, wake_rate=1000.0, wake_burst=1000, event_rate=1000.0, event_burst=1000)
    run_idle(played(story, EmbeddedService(kube=kube), fleet, settings))


def resident() -> float:
    """Megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


def main() -> None:
    """Do one of both."""
    what, pods = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns() % 10**9
    sys.exit(0 if (memory(pods) if what == "memory" else shake(pods, seed)) else 1)


if __name__ == "__main__":
    main()
