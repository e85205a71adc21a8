"""Throughput of a real kube-scheduler for pods that request devices, with and without Linkwise, in turns.

Everything runs on this machine: etcd, the API server, kube-scheduler and the service. Pods are created while no scheduler
runs; the time from the first to the last bind counts. Without the extender kube-scheduler only counts devices while the
service watches; the last of three runs has no service at all. The CPU time of each program is measured too, because it
decides where all cores are busy.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console
from rich.table import Table

from support.e2e.api_client import Api, in_parallel
from support.e2e.node_objects import machine
from support.e2e.own_cluster import OwnCluster
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.scheduler import Serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NODES, PODS, TURNS = 1_000, 1_500, 5
SIZES = (1, 1, 2, 2, 3, 4, 6, 8)
KINDS = ("nvlink", "switch", "mixed", "pcie")
BAR, CONFLICTS = 0.8, 0.01
PATIENCE = 300  # seconds
LOOK = 0.2  # seconds
OURS, PLAIN, ALONE = "with the extender", "without", "no Linkwise"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run."""

    rate: float  # pods per second, from the first bind to the last
    spent: Mapping[str, float]  # CPU milliseconds per pod, by program
    in_vain: int = 0  # binds that were not written


class Testbed:
    """A cluster with nodes, a service, and one scheduler with the extender or without."""

    def __init__(self, folder: Path, nodes: int) -> None:
        built = [sys.executable, str(ROOT / "scripts/kubernetes.py"), "build", "kubernetes"]
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
        plain = {key: value for key, value in ours.items() if key != "extenders"}
        self.configurations: Mapping[str, Mapping[str, object]] = {
            OURS: ours,
            PLAIN: plain,
            ALONE: plain,
        }

    def close(self) -> None:
        """Stop everything."""
        self.serve.stop()
        self.cluster.close()

    def measured(self, kind: str, pods: int) -> Run:
        """Create pods, wait until a scheduler has bound them, delete them."""
        self._serve_only(kind != ALONE)
        namespace = self.cluster.namespace()
        chance = random.Random(7)
        made = [pod(namespace, f"p{number}", {"nvidia.com/gpu": chance.choice(SIZES)}) for number in range(pods)]
        self.cluster.create(made)
        self.cluster.scheduler.run(self.configurations[kind])
        path = f"/api/v1/namespaces/{namespace}/pods"
        api, final = self.cluster.api, max(f"p{number}" for number in range(pods))
        first = _when(lambda: api.list(f"{path}?limit=1&fieldSelector=spec.nodeName!%3D"), "some pod is bound")
        before = self._spent()
        # Looking through all pods costs the server more the more of them are bound: the last by name, which the scheduler
        # lists and tries last, is waited for before any other is looked for.
        _when(lambda: api.get(f"{path}/{final}")["spec"].get("nodeName"), f"{final} is bound")
        last = _when(lambda: not api.list(f"{path}?limit=1&fieldSelector=spec.nodeName%3D"), "all pods are bound")
        spent = {name: (now - before[name]) / pods * 1000 for name, now in self._spent().items()}
        self.cluster.scheduler.stop()
        in_parallel(self.cluster.api, [partial(Api.delete, path=f"{path}/p{number}") for number in range(pods)])
        wait_for(lambda: not self.cluster.api.list(path), 60, "all are gone")
        rate = (pods - 1) / (last - first)
        return Run(rate, spent) if kind == ALONE else Run(rate, spent, self._in_vain())

    def _in_vain(self) -> int:
        """Binds that were not written, at the end."""
        self._let_it_rest()
        return int(self.counted("linkwise_binds_total") - self.counted('linkwise_binds_total{outcome="written"'))

    def _serve_only(self, wanted: bool) -> None:  # noqa: FBT001 - whether it runs is all there is to say
        """Started again each time, so that each run counts for itself; before there are pods that it would wake."""
        self.serve.stop()
        if wanted:
            self.serve.start(60)

    def _spent(self) -> dict[str, float]:
        """CPU seconds of each program so far."""
        found = self.cluster.processes() | {"Linkwise": self.serve.process}
        return {name: _processor(process.pid) if process.alive else 0.0 for name, process in found.items()}

    def _let_it_rest(self) -> None:
        """Wait until the service has written its events, which would count in the next run otherwise."""
        before = -1.0
        while (now := self.counted("linkwise_effects_total")) != before:
            before = now
            time.sleep(1.0)

    def counted(self, name: str) -> float:
        """A metric of the service."""
        lines = self.serve.http.raw("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def _processor(process: int) -> float:
    """CPU seconds of a process with all its threads."""
    numbers = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def _when(look: Callable[[], object], what: str) -> float:
    """The moment when it is seen for the first time."""
    end = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {PATIENCE} s")
        time.sleep(LOOK)
    return time.monotonic()


def _printed(*words: str) -> str:
    command = [sys.executable, "-m", "linkwise", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ourselves


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    console = Console(highlight=False, width=120)
    runs: dict[str, list[Run]] = {OURS: [], PLAIN: [], ALONE: []}
    with tempfile.TemporaryDirectory() as folder:
        testbed = Testbed(Path(folder), NODES)
        try:
            for turn in range(TURNS):
                for kind in list(runs) if turn % 2 else reversed(list(runs)):
                    runs[kind].append(testbed.measured(kind, PODS))
                console.print(
                    f"turn {turn + 1}: " + ", ".join(f"{kind} {runs[kind][-1].rate:.0f} pods/s" for kind in runs)
                )
        finally:
            testbed.close()
    rates = {kind: median(run.rate for run in found) for kind, found in runs.items()}
    ratio, whole = rates[OURS] / rates[PLAIN], rates[OURS] / rates[ALONE]
    vain = sum(run.in_vain for run in runs[OURS]) / (TURNS * PODS)
    passed = ratio >= BAR and vain < CONFLICTS
    title = f"A real kube-scheduler, {NODES:,} nodes, {PODS:,} pods of 1 to 8 devices, medians of {TURNS} turns"
    table = Table("pods/s " + OURS, PLAIN, "ratio", "bar", ALONE, "ratio", "binds in vain", "bar", "", title=title)
    table.add_row(
        f"{rates[OURS]:.0f}",
        f"{rates[PLAIN]:.0f}",
        f"{ratio:.0%}",
        f"{BAR:.0%}",
        f"{rates[ALONE]:.0f}",
        f"{whole:.0%}",
        f"{vain:.2%}",
        f"{CONFLICTS:.0%}",
        "passed" if passed else "MISSED",
    )
    console.print(table)
    console.print(_processors(runs))
    sys.exit(not passed)


def _processors(runs: Mapping[str, list[Run]]) -> Table:
    table = Table("processor time a pod, ms", *runs)
    for name in runs[OURS][0].spent:
        table.add_row(name, *(f"{median(run.spent[name] for run in found):.2f}" for found in runs.values()))
    table.add_row("all", *(f"{median(sum(run.spent.values()) for run in found):.2f}" for found in runs.values()))
    return table


if __name__ == "__main__":
    main()
