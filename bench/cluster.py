"""How fast a real kube-scheduler places pods that ask for devices, with our extender and without, in turns in one run.

Everything runs on this machine: etcd, the API server, kube-scheduler and the service. The pods are made while no scheduler
runs; what counts is the time from the first to the last bind. Without the extender kube-scheduler only counts devices; the
service runs all the time and watches, whether it is asked or not.

Rented machines change their speed by half within seconds. So a loop that is always the same runs beside everything, ten
times a second, and a rate counts in pods for as much work as that loop does in a second: what is judged is the median of
the ratios of these, pair by pair. The rates as they were are printed too.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import mean, median
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
    from collections.abc import Callable, Mapping

NODES, PODS, PAIRS = 1_000, 1_500, 5
SIZES = (1, 1, 2, 2, 3, 4, 6, 8)
KINDS = ("nvlink", "switch", "mixed", "pcie")
BAR, CONFLICTS = 0.8, 0.01
PATIENCE = 300  # seconds
LOOK = 0.2  # seconds
OURS, PLAIN = "with Linkwise", "without"
ROOT = Path(__file__).parents[1]


class Pace:
    """How long the machine takes for a loop, by the CPU time of a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "pace"
        command = [sys.executable, __file__, "--pace", str(self._file)]
        self._process = subprocess.Popen(command)  # noqa: S603 - ourselves

    def between(self, first: float, last: float) -> float:
        """Milliseconds on the average from one moment to another."""
        lines = [line.split() for line in self._file.read_text().splitlines()[:-1]]
        return mean(float(spent) for moment, spent in lines if first <= float(moment) <= last)

    def end(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()

    @staticmethod
    def keep(file: Path) -> None:
        """Run the loop again and again, for ever."""
        with file.open("w", buffering=1) as told:
            while True:
                begun, total = time.thread_time(), 0
                for number in range(10_000):
                    total += number
                told.write(f"{time.monotonic()} {(time.thread_time() - begun) * 1000}\n")
                time.sleep(0.1)


class Bed:
    """A cluster with nodes, a service, and two configurations of one scheduler."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._pace = Pace(folder)
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
            OURS: ours,
            PLAIN: {key: value for key, value in ours.items() if key != "extenders"},
        }

    def close(self) -> None:
        """End everything."""
        self.serve.stop()
        self.cluster.close()
        self._pace.end()

    def rate(self, kind: str, pods: int) -> tuple[float, float]:
        """Pods a second from the first bind to the last, and what the loop took meanwhile."""
        namespace = self.cluster.namespace()
        chance = random.Random(7)
        made = [pod(namespace, f"p{number}", {"nvidia.com/gpu": chance.choice(SIZES)}) for number in range(pods)]
        self.cluster.create(made)
        self.cluster.scheduler.run(self.configurations[kind])
        path = f"/api/v1/namespaces/{namespace}/pods"
        api, final = self.cluster.api, max(f"p{number}" for number in range(pods))
        first = _when(lambda: api.list(f"{path}?limit=1&fieldSelector=spec.nodeName!%3D"), "some pod is bound")
        # Looking through all pods costs the server more the more of them are bound: the last by name, which the scheduler
        # lists and tries last, is waited for before any other is looked for.
        _when(lambda: api.get(f"{path}/{final}")["spec"].get("nodeName"), f"{final} is bound")
        last = _when(lambda: not api.list(f"{path}?limit=1&fieldSelector=spec.nodeName%3D"), "all pods are bound")
        self.cluster.scheduler.stop()
        in_parallel(self.cluster.api, [partial(Api.delete, path=f"{path}/p{number}") for number in range(pods)])
        wait_for(lambda: not self.cluster.api.list(path), 60, "all are gone")
        self._let_it_rest()
        return (pods - 1) / (last - first), self._pace.between(first, last)

    def _let_it_rest(self) -> None:
        """Wait until the service has written its events, which would be counted against whoever runs next."""
        before = -1.0
        while (now := self.counted("linkwise_effects_total")) != before:
            before = now
            time.sleep(1.0)

    def counted(self, name: str) -> float:
        """A number that the service tells."""
        lines = self.serve.http.raw("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


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
    """Measure, print, and end with 1 if a bar was missed."""
    if sys.argv[1:2] == ["--pace"]:
        Pace.keep(Path(sys.argv[2]))
    console = Console(highlight=False, width=120)
    rates: dict[str, list[float]] = {OURS: [], PLAIN: []}
    steady: dict[str, list[float]] = {OURS: [], PLAIN: []}
    with tempfile.TemporaryDirectory() as folder:
        bed = Bed(Path(folder), NODES)
        try:
            for turn in range(PAIRS):
                for kind in list(rates) if turn % 2 else reversed(list(rates)):
                    rate, loop = bed.rate(kind, PODS)
                    rates[kind].append(rate)
                    steady[kind].append(rate * loop)
                    console.print(f"pair {turn + 1}: {kind} {rate:.0f} pods/s, {loop:.2f} ms for the loop")
            binds = bed.counted("linkwise_binds_total")
            conflicts = bed.counted('linkwise_binds_total{outcome="conflict"') / max(1.0, binds)
        finally:
            bed.close()
    as_it_was = median(rates[OURS]) / median(rates[PLAIN])
    ratio = median(map(truediv, steady[OURS], steady[PLAIN]))
    held = ratio >= BAR and conflicts < CONFLICTS
    title = f"A real kube-scheduler, {NODES:,} nodes, {PODS:,} pods of 1 to 8 devices, medians of {PAIRS} pairs"
    columns = ("pods/s with Linkwise", "without", "ratio as it was", "at one speed", "bar", "binds in vain", "bar", "")
    table = Table(*columns, title=title)
    table.add_row(
        f"{median(rates[OURS]):.0f}",
        f"{median(rates[PLAIN]):.0f}",
        f"{as_it_was:.0%}",
        f"{ratio:.0%}",
        f"{BAR:.0%}",
        f"{conflicts:.2%}",
        f"{CONFLICTS:.0%}",
        "held" if held else "MISSED",
    )
    console.print(table)
    sys.exit(not held)


if __name__ == "__main__":
    main()
