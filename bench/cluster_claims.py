"""Pods on DRA nodes of a real cluster: planned by Linkwise, beside kube-scheduler's own first fit without any of it, in turns.

Everything runs on this machine: etcd, the API server, kube-controller-manager, kube-scheduler, and for planned pods the
service with its webhook. All pods are created at once while kube-scheduler runs; the time from the first creation to the
last bind counts. No DRA driver runs: slices are objects.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from linkwise.topology.canonical import canonical
from linkwise.vendors.machines import profile
from support.e2e.claim_nodes import GPU, allocated, claim_node, device_class
from support.e2e.own_cluster import OwnCluster
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import printed
from support.e2e.webhook import running_webhook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.scheduler import Serve

NODES, PODS, DEVICES, TURNS = 1_000, 300, 2, 3
BAR = 3.0
"""how many times faster planned pods are bound"""
PATIENCE = 600  # seconds
LOOK = 0.1  # seconds
PLANNED, PLAIN = "planned", "plain DRA"
ROOT = Path(__file__).parents[1]
MACHINE = "dgx1-v100"


class Run(NamedTuple):
    """The figures of one run."""

    seconds: float
    slowest: float  # GB/s, mean of the slowest pair of each pod


class Testbed:
    """A cluster of DRA nodes."""

    def __init__(self, folder: Path) -> None:
        built = [sys.executable, str(ROOT / "scripts/kubernetes.py"), "build", "kubernetes"]
        programs = subprocess.run(built, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: S603 - ours
        self.cluster = OwnCluster(Path(programs), folder)
        self.cluster.start()
        self.cluster.install(ROOT / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        self.cluster.install(ROOT / "deploy/crds/acceleratorpolicies.linkwise.dev.yaml")
        things = [thing for number in range(NODES) for thing in claim_node(f"node-{number:05d}", MACHINE)]
        self.cluster.create([device_class(), *things])

    def measured(self, kind: str) -> Run:
        """Create pods, wait until they are bound, delete them."""
        if kind == PLAIN:
            self._schedule({key: value for key, value in self._ours("http://127.0.0.1").items() if key != "extenders"})
            return self._burst()
        with running_webhook(self.cluster, "bench") as webhook:
            self._schedule(self._ours(webhook.serve.url))
            self._know_all(webhook.serve)
            return self._burst()

    def _schedule(self, configuration: Mapping[str, object]) -> None:
        """Run kube-scheduler with limits of its client that do not count here."""
        connection = {"kubeconfig": str(self.cluster.kubeconfig("scheduler")), "qps": 1000, "burst": 2000}
        self.cluster.scheduler.run({**configuration, "clientConnection": connection})

    @staticmethod
    def _ours(url: str) -> dict[str, object]:
        words = ("config", "scheduler", "--url", url, "--no-leader-elect", "--default-scheduler")
        return dict(yaml.safe_load(printed(*words)))

    def _burst(self) -> Run:
        api, namespace = self.cluster.api, self.cluster.namespace()
        path = f"/api/v1/namespaces/{namespace}/pods"
        begun = time.monotonic()
        self.cluster.create([pod(namespace, f"p{number}", {GPU: DEVICES}) for number in range(PODS)])
        end = begun + PATIENCE
        while api.list(f"{path}?limit=1&fieldSelector=spec.nodeName%3D"):
            if time.monotonic() > end:
                raise AssertionError(f"not all pods are bound after {PATIENCE} s")
            time.sleep(LOOK)
        seconds = time.monotonic() - begun
        slowest = fmean(_slowest(places) for places in allocated(api, namespace).values())
        api.delete(path)
        wait_for(lambda: not api.list(path) and not allocated(api, namespace), 120, "all are gone")
        self.cluster.scheduler.stop()
        return Run(seconds, slowest)

    @staticmethod
    def _know_all(serve: Serve) -> None:
        """Wait until the service counts the devices of all nodes."""

        def idle() -> bool:
            text = serve.http.raw("GET", "/metrics")[1].decode()
            counts = [line for line in text.splitlines() if line.startswith("linkwise_devices{")]
            return sum(float(line.split()[-1]) for line in counts) >= NODES * profile(MACHINE).devices

        wait_for(idle, 120, "the service knows all devices")


def _slowest(places: list[tuple[str, str]]) -> float:
    values, indices = canonical(profile(MACHINE).topology), [int(name.rpartition("-")[2]) for _, name in places]
    return min(values[i][j] for i, j in combinations(indices, 2))


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    console = Console(highlight=False, width=120)
    runs: dict[str, list[Run]] = {PLANNED: [], PLAIN: []}
    with tempfile.TemporaryDirectory() as folder:
        testbed = Testbed(Path(folder))
        try:
            for turn in range(TURNS):
                for kind in list(runs) if turn % 2 else reversed(list(runs)):
                    runs[kind].append(testbed.measured(kind))
                console.print(
                    f"turn {turn + 1}: " + ", ".join(f"{kind} {runs[kind][-1].seconds:.1f} s" for kind in runs)
                )
        finally:
            testbed.cluster.close()
    seconds = {kind: median(run.seconds for run in found) for kind, found in runs.items()}
    slowest = {kind: fmean(run.slowest for run in found) for kind, found in runs.items()}
    ratio = seconds[PLAIN] / seconds[PLANNED]
    title = f"{NODES:,} DRA nodes, {PODS} pods of {DEVICES} devices at once, {os.cpu_count()} cores, medians of {TURNS} turns"
    table = Table("", "until all are bound", "slowest link of a pod", "", title=title)
    table.add_row(PLAIN, f"{seconds[PLAIN]:.1f} s", f"{slowest[PLAIN]:.0f} GB/s", "")
    verdict = "passed" if ratio >= BAR else "MISSED"
    table.add_row(
        PLANNED,
        f"{seconds[PLANNED]:.1f} s, {ratio:.1f}x as fast (bar {BAR:g}x)",
        f"{slowest[PLANNED]:.0f} GB/s",
        verdict,
    )
    console.print(table)
    sys.exit(ratio < BAR)


if __name__ == "__main__":
    main()
