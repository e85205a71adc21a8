"""Memory of the service while thousands of pods come and go on a real Kubernetes: it must stay flat."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cluster import OURS, Testbed
from support.e2e.api_client import Api, in_parallel
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for

NODES, PODS, WAVE, WARM = 100, 20_000, 400, 4_000
BAR = 1.1  # of what it has after the first few thousand


def resident(process: int) -> float:
    """Megabytes."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


def wave(testbed: Testbed, namespace: str, number: int) -> None:
    """Create pods, wait until they are bound, delete them."""
    names = [f"p{number}-{each}" for each in range(WAVE)]
    testbed.cluster.create([pod(namespace, name, {"nvidia.com/gpu": 1 + each % 2}) for each, name in enumerate(names)])
    path = f"/api/v1/namespaces/{namespace}/pods"
    wait_for(
        lambda: not testbed.cluster.api.list(f"{path}?limit=1&fieldSelector=spec.nodeName%3D"), 120, "all are bound"
    )
    in_parallel(testbed.cluster.api, [partial(Api.delete, path=f"{path}/{name}") for name in names])
    wait_for(lambda: not testbed.cluster.api.list(f"{path}?limit=1"), 60, "all are gone")


def main() -> None:
    """Measure, print, and exit with 1 if the bar is missed."""
    console = Console(highlight=False, width=120)
    seen: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        testbed = Testbed(Path(folder), NODES)
        try:
            testbed.cluster.scheduler.run(testbed.configurations[OURS])
            namespace = testbed.cluster.namespace()
            for number in range(PODS // WAVE):
                wave(testbed, namespace, number)
                seen[(number + 1) * WAVE] = resident(testbed.serve.process.pid)
                if not (number + 1) * WAVE % WARM:
                    console.print(f"{(number + 1) * WAVE} pods: {seen[(number + 1) * WAVE]:.0f} MB")
        finally:
            testbed.close()
    passed = seen[PODS] <= BAR * seen[WARM]
    table = Table("pods", "MB", "after", "MB", "ratio", "bar", "", title="Memory of the service while pods come and go")
    cells = (
        str(WARM),
        f"{seen[WARM]:.0f}",
        str(PODS),
        f"{seen[PODS]:.0f}",
        f"{seen[PODS] / seen[WARM]:.2f}",
        f"{BAR:g}",
    )
    table.add_row(*cells, "passed" if passed else "MISSED")
    console.print(table)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
