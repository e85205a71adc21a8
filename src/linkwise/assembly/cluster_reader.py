"""Reads a cluster once into a broker that answers as the service does.

Errors of the connection are reported with what to check.
"""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import time
from typing import TYPE_CHECKING, Final

import click

from linkwise.errors import ClusterError
from linkwise.kube.client.api import connect
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import TypeVar

    from linkwise.kube.client.api import Connection
    from linkwise.kube.watch.lists import ClusterList
    from linkwise.views.cluster import ClusterView

    T = TypeVar("T")

__all__ = ["read_cluster", "with_cluster"]


def read_cluster(kubeconfig: Path | None, context: str | None) -> ClusterView:
    """Read the cluster; optional kinds that can't be read are reported as notes."""
    gc.disable()  # nothing of what is read is garbage, and the program ends soon
    from linkwise.assembly.plugins import load_plugins  # noqa: PLC0415 - what follows imports dialects

    load_plugins()
    from linkwise.kube.watch.lists import list_all  # noqa: PLC0415 - same

    async def work(connection: Connection) -> tuple[ClusterList, str]:
        return await list_all(connection), connection.namespace

    listed, namespace = with_cluster(kubeconfig, context, work)
    from linkwise.broker.broker import Broker  # noqa: PLC0415 - imports the planner, which a failed list does not need
    from linkwise.config.loading import load  # noqa: PLC0415 - same
    from linkwise.views.cluster import ClusterView  # noqa: PLC0415 - same
    from linkwise.wire.decoding import parse_json  # noqa: PLC0415 - same

    settings = load(None, os.environ)
    for problem in listed.problems:
        click.echo(f"note: {problem}", err=True)
    broker, now = Broker(settings.placing, parse_json), time.time()
    broker.observe(listed.events, now)
    broker.restore_plans(now)
    return ClusterView(broker, now, namespace)


NO_ANSWER: Final = (
    "is the cluster running? `kubectl config view` shows the address; --kubeconfig and --context name another cluster"
)


def with_cluster(kubeconfig: Path | None, context: str | None, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Do something with a cluster; ClusterError says what to look at if it does not answer."""
    results: list[T] = []  # returned, asyncio would print it to itself when it ends

    async def done() -> None:
        connection = connect(kubeconfig, context)
        try:
            results.append(await work(connection))
        except NotSentError as error:
            raise ClusterError(f"{_plain(error)}; {NO_ANSWER}") from error
        finally:
            await connection.close()

    asyncio.run(done())
    return results[0]


def _plain(error: NotSentError) -> str:
    """What it says, without the number and the call of the system that failed."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):  # whose numbers are of another list
        return str(error)
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return str(error).replace(str(cause), os.strerror(cause.errno))
    return str(error)
