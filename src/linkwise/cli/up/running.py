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
from typing import TYPE_CHECKING, Final

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.cli.up.kubeconfig import remove_kubeconfig, written_kubeconfig
from linkwise.cli.up.messages import welcome
from linkwise.cli.up.signals import SECOND_SIGNAL, exit_immediately, handled_signals
from linkwise.embedded.cluster import ClusterSettings
from linkwise.errors import ClusterError, InputError, LinkwiseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from linkwise.config.settings import ServeSettings

__all__ = ["Up", "run", "run_cluster"]

log: Final = logging.getLogger("linkwise.up")

PROGRESS_NODES: Final = 500
"""number of nodes from which a progress bar is shown"""
_PROGRESS_INTERVAL: Final = 0.1  # seconds


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


def _clean_up(up: Up, cluster: LocalCluster) -> None:
    """Remove the files; everything else ends with the process."""
    if hasattr(cluster, "kubeconfig"):
        if up.kubeconfig:
            remove_kubeconfig(up.kubeconfig, cluster.kubeconfig.read_text("utf-8"))
        shutil.rmtree(cluster.kubeconfig.parent, ignore_errors=True)


def _check_port(port: int) -> None:
    """Check the API server's port before thousands of nodes are created in vain."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"127.0.0.1:{port}: {error.strerror}; choose another with --api-port") from error


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
