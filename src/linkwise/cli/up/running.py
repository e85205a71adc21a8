"""Run the cluster of `linkwise up` until a signal, with a progress bar and the welcome message."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING, Final

import uvloop
import yaml
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.cli.examples import example
from linkwise.cli.up.kubeconfig import remove_kubeconfig, written_kubeconfig
from linkwise.cli.up.signals import SECOND_SIGNAL, exit_immediately, handled_signals
from linkwise.dialects.nvidia import RESOURCE as NVIDIA
from linkwise.embedded.cluster import ClusterSettings
from linkwise.embedded.nodes.machines import machine_objects, node_names
from linkwise.errors import ClusterError, InputError, LinkwiseError
from linkwise.sim.sample_nodes import PERCENT
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rich.console import RenderableType

    from linkwise.config.settings import ServeSettings

__all__ = ["Up", "next_steps", "path_hint", "run", "run_cluster", "welcome"]

log: Final = logging.getLogger("linkwise.up")

PROGRESS_NODES: Final = 500
"""number of nodes from which a progress bar is shown"""
_PROGRESS_INTERVAL: Final = 0.1  # seconds
FIRST: Final = {
    "link-pair": "pod/link-pair",
    "ascend-pair": "pod/ascend-pair",
    "gpu-mem": "pod/gpu-mem",
    "amd-four": "pod/amd-four",
    "group": "group/group",
}
"""examples to start with, and what to explain afterwards"""
_INDENT: Final = (0, 0, 0, 2)
_GAP: Final = 2  # columns between two columns
_HOST_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "aliyun.com/gpu-count"})


@dataclass(frozen=True, slots=True)
class Up:
    """The settings of one run."""

    fleet: Mapping[str, int]
    service: ServeSettings
    api_port: int = 0
    speed: float = 1.0
    kubeconfig: Path | None = None
    """an additional place to write it to"""
    force: bool = False
    """whether to overwrite an existing file there"""


def run(up: Up) -> None:
    """Run until a signal; InputError if the settings can't be used, ClusterError if a component fails."""
    _check_port(up.api_port)
    gc.disable()  # the objects created during the start are not garbage
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_until_signal(up))
    exit_immediately(SECOND_SIGNAL)  # everything is cleaned up; only the interpreter's exit is left


async def run_cluster(up: Up, cluster: LocalCluster) -> None:
    """Start the cluster, print the welcome message, and wait until it is cancelled or a component fails."""
    began, started = time.monotonic(), False
    try:
        async with _start(cluster, sum(up.fleet.values())):
            gc.enable()
            gc.freeze()
            with contextlib.ExitStack() as stack:
                if up.kubeconfig:
                    stack.enter_context(
                        written_kubeconfig(up.kubeconfig, cluster.kubeconfig.read_text("utf-8"), force=up.force)
                    )
                _welcome(up, cluster, time.monotonic() - began)
                started = True
                await cluster.failed()
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, LinkwiseError) and (isinstance(error, ClusterError) or not started):
            raise
        log.exception("a component of the cluster failed")
        raise ClusterError(f"a component of the cluster failed: {_describe(error)}") from error
    raise ClusterError("a component of the cluster stopped unexpectedly")


def welcome(
    fleet: Mapping[str, int], addresses: Mapping[str, str], kubeconfig: Path, seconds: float, width: int
) -> RenderableType:
    """The complete message for a terminal of `width` columns; `addresses` maps components to their URLs."""
    nodes = sum(fleet.values())
    return Group(
        Text.assemble(
            (f"A cluster of {nodes:,} {'node' if nodes == 1 else 'nodes'} is up", "bold green"),
            f" after {seconds:.1f} s.",
        ),
        "Machines and containers are simulated; the API and the scheduling are real.\n",
        Padding(_machines(fleet, width - _INDENT[3]), _INDENT, expand=False),
        "",
        Padding(_address_table(addresses), _INDENT, expand=False),
        "\nIn another terminal:\n",
        *(
            Text(f"  {line}", "bold cyan", no_wrap=True, overflow="ignore")  # meant to be copied, so never wrapped
            for line in (
                *path_hint(sys.argv[0], which("linkwise")),
                f"export KUBECONFIG={quote(str(kubeconfig))}",
                *next_steps(fleet),
            )
        ),
        "\nkubectl works too; `linkwise example` lists more manifests. Ctrl-C to stop.",
    )


def next_steps(fleet: Mapping[str, int]) -> list[str]:
    """Three commands that work on this fleet: look, apply, explain."""
    for name, target in FIRST.items():
        if _fits(name, fleet):
            return [
                "linkwise get nodes",
                f"linkwise example {name} | linkwise apply -f -",
                f"linkwise explain {target}",
            ]
    machine, count = next(iter(fleet.items()))
    node = node_names(machine, count)[0]
    return ["linkwise get nodes", f"linkwise topo node/{node}", f"linkwise explain node/{node}"]


def path_hint(program: str, on_path: str | None) -> list[str]:
    """The `export PATH` line, if the shell would not find `linkwise`.

    Args:
        program: how this process was called.
        on_path: the `linkwise` that a shell finds, if any.
    """
    hidden = Path(program).name == "linkwise" and not on_path
    return [f'export PATH={quote(str(Path(program).absolute().parent))}:"$PATH"'] if hidden else []


def _check_port(port: int) -> None:
    """Check the API server's port before thousands of nodes are created in vain."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"127.0.0.1:{port}: {error.strerror}; choose another with --api-port") from error


async def _run_until_signal(up: Up) -> None:
    cluster = LocalCluster(up.fleet, up.service, ClusterSettings(speed=up.speed), up.api_port)
    task = asyncio.create_task(run_cluster(up, cluster), name="up")
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if stopping:
            _clean_up(up, cluster)
            os._exit(SECOND_SIGNAL)
        stopping = True
        task.cancel()

    for number in handled_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    if stopping and sys.stdout.isatty():
        sys.stdout.write("\nThe cluster is stopped; all its files are removed.\n")


def _clean_up(up: Up, cluster: LocalCluster) -> None:
    """Remove the files; everything else ends with the process."""
    if hasattr(cluster, "kubeconfig"):
        if up.kubeconfig:
            remove_kubeconfig(up.kubeconfig, cluster.kubeconfig.read_text("utf-8"))
        shutil.rmtree(cluster.kubeconfig.parent, ignore_errors=True)


@contextlib.asynccontextmanager
async def _start(cluster: LocalCluster, nodes: int) -> AsyncIterator[None]:
    """Start the cluster, with a progress bar for large fleets on a terminal."""
    console = Console(stderr=True)
    if nodes < PROGRESS_NODES or not console.is_terminal:
        async with cluster:
            yield
        return
    columns = (TextColumn("starting {task.total:,.0f} nodes"), BarColumn(), TextColumn("{task.percentage:3.0f}%"))
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
    progress.start()
    updates = asyncio.create_task(_update_progress(progress, cluster, nodes), name="progress")
    try:
        async with cluster:
            updates.cancel()
            progress.stop()
            yield
    finally:
        updates.cancel()
        progress.stop()


async def _update_progress(progress: Progress, cluster: LocalCluster, nodes: int) -> None:
    bar = progress.add_task("", total=nodes)
    while True:
        progress.update(bar, completed=cluster.progress * nodes, refresh=True)
        await asyncio.sleep(_PROGRESS_INTERVAL)


def _welcome(up: Up, cluster: LocalCluster, seconds: float) -> None:
    addresses = {"API server": cluster.cluster.api.url, "service": cluster.url}
    if cluster.page:
        addresses["page"] = cluster.page
    console = Console(highlight=False, markup=False)
    message = welcome(up.fleet, addresses, (up.kubeconfig or cluster.kubeconfig).absolute(), seconds, console.width)
    try:
        console.print(message, crop=False)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"standard output: {error.strerror or error}") from error


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _machines(fleet: Mapping[str, int], width: int) -> Table:
    """One row per machine; on a narrow terminal its details are printed below its name."""
    rows = [
        (f"{count:,}", machine, _models(machine), ", ".join(_resources(machine))) for machine, count in fleet.items()
    ]
    one_line = sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True)) - _GAP <= width
    table = Table.grid(padding=(0, _GAP))
    table.add_column(justify="right")
    for _ in range(3 if one_line else 1):
        table.add_column(overflow="fold")
    for count, *cells in rows:
        table.add_row(count, *(cells if one_line else ["\n".join(cells)]))
    return table


def _models(machine: str) -> str:
    kind = profile(machine.partition("/")[0])
    return f"{kind.devices} x {kind.model.removeprefix('NVIDIA ').removeprefix('AMD ')}"


def _resources(machine: str) -> dict[str, int]:
    """The device resources of a machine; a DRA driver serves the same as a device plugin."""
    capacity = machine_objects(machine.removesuffix("/dra"), "node")[0]["status"]["capacity"]
    hidden = {NVIDIA} if PERCENT in capacity else set()  # reported as well, but not allocated to pods
    return {name: int(amount) for name, amount in capacity.items() if name not in _HOST_RESOURCES | hidden}


def _address_table(addresses: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, _GAP))
    for _ in range(2):
        table.add_column(overflow="fold")
    for component, address in addresses.items():
        table.add_row(component, address)
    return table


def _fits(name: str, fleet: Mapping[str, int]) -> bool:
    """Whether a machine of the fleet has the resources that an example requests."""
    containers = [container for pod in yaml.safe_load_all(example(name)) for container in pod["spec"]["containers"]]
    requests = {
        resource: amount for container in containers for resource, amount in container["resources"]["limits"].items()
    }
    return any(
        all(amount <= allocatable.get(resource, 0) for resource, amount in requests.items())
        for allocatable in map(_resources, fleet)
    )
