"""How fast a real kube-scheduler places pods that ask for devices, with our extender and without, in turns in one run.

Everything runs on this machine: etcd, the API server, kube-scheduler and the service. The pods are made while no scheduler
runs; what counts is the time from the first to the last bind. Without the extender kube-scheduler only counts devices.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console
from rich.table import Table

from linkwise.testing.bed_api import Api, in_parallel
from linkwise.testing.bed_nodes import machine
from linkwise.testing.bed_objects import pod
from linkwise.testing.bed_own import OwnCluster
from linkwise.testing.bed_process import wait_for
from linkwise.testing.bed_scheduler import Serve

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES, PODS, PAIRS = 1_000, 1_500, 3
SIZES = (1, 1, 2, 2, 3, 4, 6, 8)
KINDS = ("nvlink", "switch", "mixed", "pcie")
BAR, CONFLICTS = 0.8, 0.01
PATIENCE = 300  # seconds
ROOT = Path(__file__).parents[1]


class Bed:
    """A cluster with nodes, a service, and two configurations of one scheduler."""

    def __init__(self, folder: Path, nodes: int) -> None:
        built = [sys.executable, str(ROOT / "scripts/kubernetes.py"), "build"]
        programs = subprocess.run(built, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: S603 - ours
        self.cluster = OwnCluster(Path(programs), folder)
        self.cluster.start()
        self.cluster.install(ROOT / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        things = [thing for number in range(nodes) for thing in machine(f"node-{number:05d}", KINDS[number % 4])]
        self.cluster.create(things)
        self.cluster.grant_printed("linkwise", _printed("manifests", "rbac"))
        self.serve = Serve(self.cluster.kubeconfig("linkwise"), folder)
        self.serve.start(60)
        ours: dict[str, Any] = yaml.safe_load(
            _printed("config", "scheduler", "--url", self.serve.url, "--no-leader-elect", "--default-scheduler")
        )
        ours["clientConnection"] = {
            "kubeconfig": str(self.cluster.kubeconfig("scheduler")),
            "qps": 1000,
            "burst": 2000,
        }
        self.configurations: Mapping[str, Mapping[str, object]] = {
            "with Linkwise": ours,
            "without": {key: value for key, value in ours.items() if key != "extenders"},
        }

    def rate(self, kind: str, pods: int) -> float:
        """Pods a second from the first bind to the last."""
        namespace = self.cluster.namespace()
        chance = random.Random(7)
        made = [pod(namespace, f"p{number}", {"nvidia.com/gpu": chance.choice(SIZES)}) for number in range(pods)]
        self.cluster.create(made)
        self.cluster.scheduler.run(self.configurations[kind])
        path = f"/api/v1/namespaces/{namespace}/pods"
        # One pod at most is listed at a time, so that looking costs next to nothing.
        first = self._when(f"{path}?limit=1&fieldSelector=spec.nodeName!%3D", some=True)
        last = self._when(f"{path}?limit=1&fieldSelector=spec.nodeName%3D", some=False)
        self.cluster.scheduler.stop()
        in_parallel(self.cluster.api, [partial(Api.delete, path=f"{path}/p{number}") for number in range(pods)])
        wait_for(lambda: not self.cluster.api.list(path), 60, "all are gone")
        return (pods - 1) / (last - first)

    def _when(self, path: str, *, some: bool) -> float:
        """When there is some pod, or none, for the first time."""
        end = time.monotonic() + PATIENCE
        while bool(self.cluster.api.list(path)) != some:
            if time.monotonic() > end:
                raise AssertionError(f"{path}: still {'nothing' if some else 'something'} after {PATIENCE} s")
            time.sleep(0.05)
        return time.monotonic()

    def counted(self, name: str) -> float:
        """A number that the service tells."""
        lines = self.serve.http.raw("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def _printed(*words: str) -> str:
    command = [sys.executable, "-m", "linkwise", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ourselves


def main() -> None:
    """Measure, print, and end with 1 if a bar was missed."""
    console = Console(highlight=False, width=120)
    rates: dict[str, list[float]] = {"with Linkwise": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        bed = Bed(Path(folder), NODES)
        try:
            for turn in range(PAIRS):
                for kind in list(rates) if turn % 2 else reversed(list(rates)):
                    rates[kind].append(bed.rate(kind, PODS))
                    console.print(f"pair {turn + 1}: {kind} {rates[kind][-1]:.0f} pods/s")
            binds = bed.counted("linkwise_binds_total")
            conflicts = bed.counted('linkwise_binds_total{outcome="conflict"') / max(1.0, binds)
        finally:
            bed.serve.stop()
            bed.cluster.close()
    ours, plain = median(rates["with Linkwise"]), median(rates["without"])
    held = ours >= BAR * plain and conflicts < CONFLICTS
    title = f"A real kube-scheduler, {NODES:,} nodes, {PODS:,} pods of 1 to 8 devices, medians of {PAIRS} pairs"
    table = Table("with Linkwise, pods/s", "without", "ratio", "bar", "binds in vain", "bar", "", title=title)
    table.add_row(
        f"{ours:.0f}",
        f"{plain:.0f}",
        f"{ours / plain:.0%}",
        f"{BAR:.0%}",
        f"{conflicts:.2%}",
        f"{CONFLICTS:.0%}",
        "held" if held else "MISSED",
    )
    console.print(table)
    sys.exit(not held)


if __name__ == "__main__":
    main()
