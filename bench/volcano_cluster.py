"""Throughput of a real Volcano for pods that request devices, alone and with Linkwise in gated mode, in turns.

Everything runs on this machine: etcd, the API server, Volcano's scheduler and controllers, and the service. Pods are created
while Volcano runs, since in gated mode Linkwise plans them meanwhile; the time from the first request to create a pod to
the last bind counts. Without Linkwise, Volcano only counts devices.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from support.e2e.api_client import Api, in_parallel
from support.e2e.node_objects import ascend
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for
from support.e2e.volcano import installed_volcano
from support.e2e.volcano_objects import volcano_pod
from support.e2e.volcano_placing import seed_conf
from support.e2e.webhook import running_webhook
from support.volcano_seed import SEED_FILE

if TYPE_CHECKING:
    from support.e2e.volcano import Volcano

NODES, PODS, TURNS = 1_000, 1_000, 3
SIZES = (1, 1, 2, 4, 8)
NPU = "huawei.com/Ascend910"
BAR = 0.8
PATIENCE = 120  # seconds
LOOK = 0.2  # seconds
ROOT = Path(__file__).parents[1]
PLAIN = SEED_FILE.replace("  - name: topology910\n", "")
"""seed 003's file without an extender"""


def built(module: str) -> Path:
    """The folder with the programs of a module."""
    command = [sys.executable, str(ROOT / "scripts/kubernetes.py"), "build", module]
    return Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())  # noqa: S603 - ours


def measured(cluster: OwnCluster, pods: int) -> float:
    """Pods per second, from the first request to create one to the last bind."""
    namespace = cluster.namespace()
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = [volcano_pod(namespace, f"p{number}", {NPU: SIZES[number % len(SIZES)]}) for number in range(pods)]
    start = time.monotonic()
    cluster.create(made)
    while cluster.api.list(f"{path}?limit=1&fieldSelector=spec.nodeName%3D"):
        if time.monotonic() > start + PATIENCE:
            raise AssertionError(f"not all pods are bound after {PATIENCE} s")
        time.sleep(LOOK)
    rate = pods / (time.monotonic() - start)
    in_parallel(cluster.api, [partial(Api.delete, path=f"{path}/p{number}") for number in range(pods)])
    wait_for(lambda: not cluster.api.list(f"{path}?limit=1"), 120, "all pods are gone")
    return rate


def alone(cluster: OwnCluster, volcano: Volcano) -> float:
    """The rate of Volcano without Linkwise."""
    volcano.run(PLAIN)
    volcano.pass_sessions(seconds=60)
    return measured(cluster, PODS)


def gated(cluster: OwnCluster, volcano: Volcano) -> float:
    """The rate of Volcano in gated mode."""
    with running_webhook(cluster, "bench") as webhook:
        volcano.run(seed_conf(cluster, webhook.serve.url, mode="gated"))
        volcano.pass_sessions(seconds=60)
        return measured(cluster, PODS)


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    console = Console(highlight=False, width=120)
    rates: dict[str, list[float]] = {"alone": [], "gated": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = OwnCluster(built("kubernetes"), Path(folder))
        stack.callback(cluster.close)
        cluster.start()
        cluster.install(ROOT / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        cluster.install(ROOT / "deploy/crds/acceleratorpolicies.linkwise.dev.yaml")
        cluster.create([thing for number in range(NODES) for thing in ascend(f"node-{number:05d}")])
        # Sessions at Volcano's own period of a second.
        volcano = stack.enter_context(installed_volcano(cluster, built("volcano"), "--schedule-period=1s"))
        for turn in range(TURNS):
            for kind in (alone, gated) if turn % 2 else (gated, alone):
                rates[kind.__name__].append(kind(cluster, volcano))
            console.print(f"turn {turn + 1}: alone {rates['alone'][-1]:.0f}, gated {rates['gated'][-1]:.0f} pods/s")
    ours, theirs = median(rates["gated"]), median(rates["alone"])
    passed = ours / theirs >= BAR
    title = f"A real Volcano, {NODES:,} nodes, {PODS:,} pods of 1 to 8 chips, medians of {TURNS} turns"
    table = Table("pods/s in gated mode", "alone", "ratio", "bar", "", title=title)
    table.add_row(
        f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.0%}", f"{BAR:.0%}", "passed" if passed else "MISSED"
    )
    console.print(table)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
