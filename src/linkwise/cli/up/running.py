"""An embedded cluster that runs until somebody ends it, and what is told meanwhile."""

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
from linkwise.cli.up.kubeconfig import forget, kept
from linkwise.cli.up.messages import welcome
from linkwise.cli.up.signals import AT_ONCE, end_at_once, heard
from linkwise.embedded.cluster import ClusterSettings
from linkwise.errors import ClusterError, InputError, LinkwiseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from linkwise.config.settings import ServeSettings

__all__ = ["Up", "stay_up", "until_it_ends"]

log: Final = logging.getLogger("linkwise.up")

LARGE: Final = 500
"""nodes from which on a start takes long enough to be watched"""
_LOOK: Final = 0.1  # seconds between two looks at how far it is


@dataclass(frozen=True, slots=True)
class Up:
    """What is to run."""

    fleet: Mapping[str, int]
    service: ServeSettings
    api_port: int = 0
    speed: float = 1.0
    kubeconfig: Path | None = None
    """where the user wants it besides"""
    force: bool = False
    """whether it goes there whatever is there"""


def stay_up(up: Up) -> None:
    """Run it until a signal; InputError if it can't start as it is wanted, ClusterError if a part fails."""
    _look_for_room(up.api_port)
    gc.disable()  # until everything was made: nothing of that is garbage
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_a_signal(up))
    end_at_once(AT_ONCE)  # all is cleared up; what is left is for Python to forget


async def _until_a_signal(up: Up) -> None:
    cluster = LocalCluster(up.fleet, up.service, ClusterSettings(speed=up.speed), up.api_port)
    work = asyncio.create_task(until_it_ends(up, cluster), name="up")
    told = False

    def end() -> None:
        nonlocal told
        if told:
            _clear_up(up, cluster)
            os._exit(AT_ONCE)
        told = True
        work.cancel()

    for number in heard():
        asyncio.get_running_loop().add_signal_handler(number, end)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    if told and sys.stdout.isatty():
        sys.stdout.write("\nEnded; nothing is left behind.\n")


async def until_it_ends(up: Up, cluster: LocalCluster) -> None:
    """Start it, say so, and wait until it is cancelled or a part of it fails."""
    began, started = time.monotonic(), False
    try:
        async with _start(cluster, sum(up.fleet.values())):
            gc.enable()
            gc.freeze()
            with contextlib.ExitStack() as opened:
                if up.kubeconfig:
                    opened.enter_context(kept(up.kubeconfig, cluster.kubeconfig.read_text("utf-8"), force=up.force))
                _welcome(up, cluster, time.monotonic() - began)
                started = True
                await cluster.failed()
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, LinkwiseError) and (isinstance(error, ClusterError) or not started):
            raise
        log.exception("a part of the cluster failed")
        raise ClusterError(f"a part of the cluster failed: {_said(error)}") from error
    raise ClusterError("a part of the cluster ended by itself")


@contextlib.asynccontextmanager
async def _start(cluster: LocalCluster, nodes: int) -> AsyncIterator[None]:
    """The cluster; a terminal sees how far a large one is."""
    console = Console(stderr=True)
    if nodes < LARGE or not console.is_terminal:
        async with cluster:
            yield
        return
    columns = (TextColumn("starting {task.total:,.0f} nodes"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
    progress.start()
    shown = asyncio.create_task(_show(progress, cluster, nodes), name="progress")
    try:
        async with cluster:
            shown.cancel()
            progress.stop()
            yield
    finally:
        shown.cancel()
        progress.stop()


async def _show(progress: Progress, cluster: LocalCluster, nodes: int) -> None:
    bar = progress.add_task("", total=nodes)
    while True:
        progress.update(bar, completed=cluster.share * nodes, refresh=True)
        await asyncio.sleep(_LOOK)


def _welcome(up: Up, cluster: LocalCluster, seconds: float) -> None:
    places = {"API server": cluster.cluster.api.url, "service": cluster.url}
    console = Console(highlight=False, markup=False)
    said = welcome(up.fleet, places, (up.kubeconfig or cluster.kubeconfig).absolute(), seconds, console.width)
    try:
        console.print(said, crop=False)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"standard output: {error.strerror or error}") from error


def _clear_up(up: Up, cluster: LocalCluster) -> None:
    """Remove the files, which alone would be left behind; what is still under way ends with the process."""
    if hasattr(cluster, "kubeconfig"):
        if up.kubeconfig:
            forget(up.kubeconfig, cluster.kubeconfig.read_text("utf-8"))
        shutil.rmtree(cluster.kubeconfig.parent, ignore_errors=True)


def _look_for_room(port: int) -> None:
    """Whether the API server can listen there, told before thousands of nodes are made in vain."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"127.0.0.1:{port}: {error.strerror}; choose another with --api-port") from error


def _said(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
