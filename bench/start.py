"""Start of commands: CPU until the first request is sent, beside kubectl and a bare interpreter, and lists of 5,000 nodes.

The API server of the first part is a socket: when a command connects, it is killed, and what it has used by then counts. The
second part runs on `linkwise up`, where kubectl and linkwise list the same nodes in turn. Without kubectl on the PATH or built by
`make e2e`, its rows are left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from support.embedded.up_process import TriedCluster
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROUNDS: Final = 7
NODES: Final = 5_000
MAX_CPU: Final = 0.25  # seconds until the first request
MAX_HELP: Final = 0.1  # seconds of CPU
MAX_RATIO: Final = 1.5  # of the time that kubectl takes to list nodes
COMMANDS: Final = ("get nodes", "get pods", "explain pod/train", "top nodes", "describe node/gpu-7")
BARE: Final = "import click, yaml"
KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: bench
clusters: [{{name: bench, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: bench, user: {{token: bench}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
"""


def kubectl() -> str | None:
    """The program on the PATH, or the one that the end-to-end tests have built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linkwise/kubernetes"
    built = sorted(cache.glob("*/bin/kubectl"))
    return shutil.which("kubectl") or (str(built[-1]) if built else None)


def used(command: Sequence[str], environment: Mapping[str, str], door: socket.socket | None = None) -> float:
    """CPU seconds of a command: until it connects to the door, or of all of it."""
    process = subprocess.Popen(  # noqa: S603 - ourselves and kubectl
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if door is not None:
        connection, _ = door.accept()
        process.send_signal(signal.SIGKILL)
        connection.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it is waited for
    return usage.ru_utime + usage.ru_stime


def before_request(folder: Path) -> list[tuple[str, float, float | None]]:
    """Each command, its CPU seconds until it connects, and its bar."""
    program = str(Path(sys.executable).parent / "linkwise")
    plain = {**surroundings(), "HOME": str(folder)}
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(60)
        config = folder / "kubeconfig"
        config.write_text(KUBECONFIG.format(port=door.getsockname()[1]), "utf-8")
        environment = {**plain, "KUBECONFIG": str(config)}
        rows: list[tuple[str, float, float | None]] = [
            ("python: import click, yaml", _median([sys.executable, "-c", BARE], plain), None),
            ("linkwise --help (all of it)", _median([program, "--help"], plain), MAX_HELP),
        ]
        if client := kubectl():
            rows.append(("kubectl get nodes", _median([client, "get", "nodes"], environment, door), None))
        rows += [
            (f"linkwise {words}", _median([program, *words.split()], environment, door), MAX_CPU) for words in COMMANDS
        ]
    return rows


def _median(command: Sequence[str], environment: Mapping[str, str], door: socket.socket | None = None) -> float:
    used(command, environment, door)  # files are in memory from then on
    return median(used(command, environment, door) for _ in range(ROUNDS))


def lists(folder: Path, nodes: int) -> dict[str, float]:
    """Seconds to list the nodes of a cluster, by program; they take turns."""
    program = str(Path(sys.executable).parent / "linkwise")
    client = kubectl()
    commands = {"linkwise": [program, "get", "nodes"], **({"kubectl": [client, "get", "nodes"]} if client else {})}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with TriedCluster(folder, "--nodes", str(nodes)) as cluster:
        for _ in range(ROUNDS + 1):
            for name, command in commands.items():
                started = time.perf_counter()
                done = subprocess.run(command, env=cluster.environment, capture_output=True, check=True)  # noqa: S603 - same
                taken[name].append(time.perf_counter() - started)
                if done.stdout.count(b"\n") <= nodes:
                    raise SystemExit(f"{name} lists too few nodes: {done.stderr.decode()}")
    return {name: median(times[1:]) for name, times in taken.items()}


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="list 500 nodes instead of 5,000")
    nodes = 500 if parser.parse_args().small else NODES
    console, missed = Console(highlight=False, width=120), False
    with tempfile.TemporaryDirectory() as folder:
        rows = before_request(Path(folder))
    floor = rows[0][1]
    table = Table("command", "CPU s", "of a bare interpreter", "bar", title="CPU until the first request is sent")
    for name, seconds, bar in rows:
        missed |= bar is not None and seconds > bar
        table.add_row(name, f"{seconds:.3f}", f"{seconds / floor:.1f}x", "" if bar is None else f"{bar:g}")
    console.print(table)
    with tempfile.TemporaryDirectory() as folder:
        taken = lists(Path(folder), nodes)
    table = Table("program", "s", "of kubectl", "bar", title=f"get nodes, {nodes} nodes of `linkwise up`")
    for name, seconds in taken.items():
        ratio = seconds / taken["kubectl"] if "kubectl" in taken else None
        missed |= name == "linkwise" and ratio is not None and ratio > MAX_RATIO
        table.add_row(
            name, f"{seconds:.2f}", f"{ratio:.2f}x" if ratio else "", f"{MAX_RATIO}x" if name == "linkwise" else ""
        )
    console.print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
