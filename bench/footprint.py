"""Memory and CPU of the service process on clusters of growing size: what to request for its pod.

The cluster is `linkwise up`, in a process of its own; the service that is measured is a second one, which lists and
watches it as any service does.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from linkwise.errors import ClusterError
from linkwise.net.http.client import Origin
from support.blocking_http import BlockingHttp
from support.e2e.api_client import Api, in_parallel
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.embedded.up_process import TriedCluster
from support.environment import reserve

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = (10, 1_000, 5_000)
PODS_PER_NODE = 10
IDLE = 10.0  # seconds
MEGABYTES = 512.0  # the limit that the guide on sizing recommends for 5,000 nodes
WHOLE = re.compile(r"(?:dgx1-v100|v100-pcie)-\d+")  # nodes that serve nvidia.com/gpu
TICKS = os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    """A cluster, and what the service needs for it."""

    nodes: int
    pods: int
    megabytes: float
    start: float  # seconds of CPU until it is ready
    idle: float  # CPUs


def resident(process: int) -> float:
    """Largest resident set of a process so far, in megabytes."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


def used(process: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def bound_pods(cluster: TriedCluster, count: int) -> Iterator[dict[str, object]]:
    """Pods that run already, as another scheduler left them: every tenth has a GPU where the node has some."""
    with closing(cluster.api()) as api:
        nodes = [node["metadata"]["name"] for node in api.list("/api/v1/nodes")]
    for number in range(count):
        node = nodes[number % len(nodes)]
        limits = {"nvidia.com/gpu": 1} if number < len(nodes) and WHOLE.fullmatch(node) else {}
        yield pod("default", f"p{number}", limits, nodeName=node)


def ready(port: int) -> bool:
    """Whether the service has listed the cluster."""
    try:
        return BlockingHttp(Origin("127.0.0.1", port)).call("GET", "/readyz", {}, b"").status == 200
    except ClusterError:
        return False


def measure(nodes: int) -> Row:
    """Start a cluster, fill it, and start a service beside it."""
    with tempfile.TemporaryDirectory() as folder, TriedCluster(Path(folder), "--nodes", str(nodes)) as cluster:
        count = nodes * PODS_PER_NODE
        with closing(cluster.api()) as api:
            in_parallel(api, [partial(Api.create, thing=each) for each in bound_pods(cluster, count)])
        with reserve() as socket, (Path(folder) / "log").open("w", encoding="utf-8") as log:
            port = socket.getsockname()[1]
            command = [sys.executable, "-m", "linkwise", "serve", "--port", str(port)]
            process = subprocess.Popen(command, env=cluster.environment, stdout=log, stderr=log)  # noqa: S603 - ourselves
            try:
                wait_for(lambda: ready(port), 300, "the service is ready")
                start = used(process.pid)
                time.sleep(IDLE)
                return Row(nodes, count, resident(process.pid), start, (used(process.pid) - start) / IDLE)
            finally:
                process.terminate()
                process.wait()


def main() -> None:
    """Measure, print, and exit with 1 if the largest cluster needs more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="skip the largest cluster")
    sizes = NODES[:-1] if parser.parse_args().small else NODES
    table = Table("nodes", "pods", "MB", "CPU s to start", "CPUs, idle", title="The service process")
    rows = [measure(nodes) for nodes in sizes]
    for row in rows:
        table.add_row(str(row.nodes), str(row.pods), f"{row.megabytes:.0f}", f"{row.start:.1f}", f"{row.idle:.3f}")
    Console(highlight=False, width=120).print(table)
    sys.exit(rows[-1].megabytes > MEGABYTES)


if __name__ == "__main__":
    main()
