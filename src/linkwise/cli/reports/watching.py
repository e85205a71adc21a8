"""Watch of `linkwise get` and `linkwise top`: reports when the cluster has changed, until Ctrl-C.

The API server's own watches are used where the user may read the cluster: they reconnect by themselves. The service has no
watch; tenants ask it again every few seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, NoReturn

import click

from linkwise.assembly.cluster_reader import ClusterReader, with_cluster
from linkwise.broker.broker import Broker
from linkwise.config.loading import load
from linkwise.errors import ClusterError, NotFoundError
from linkwise.kube.watch.watcher import Watching
from linkwise.wire.decoding import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection

__all__ = ["poll", "watch_cluster"]

SETTLE_SECONDS: Final = 0.2
"""after a change, for others that belong to it: a bind is a change of the pod and of its node's inventory"""
POLL_SECONDS: Final = 2.0
"""between two questions to the service"""
_SYNC_SECONDS: Final = 0.05


def watch_cluster(kubeconfig: Path | None, context: str | None, show: Callable[[ClusterReader], None]) -> None:
    """Call `show` with the cluster after each change; ends with an error or Ctrl-C."""
    settings = load(None, os.environ)

    async def work(connection: Connection) -> None:
        broker, changed = Broker(settings.placing, parse_json), asyncio.Event()

        def sink(events: list[WatchEvent]) -> None:
            broker.observe(events, time.time())
            changed.set()

        watching = Watching(connection, sink, known=broker.uids)
        task = asyncio.create_task(watching.run())
        try:
            while not watching.synced and not task.done():  # noqa: ASYNC110 - several kinds make it synced
                await asyncio.sleep(_SYNC_SECONDS)
            while not task.done():
                changed.clear()
                now = time.time()
                broker.restore_plans(now)
                _shown(lambda: show(ClusterReader(broker, now, connection.namespace, _addresses(broker))))  # noqa: B023 - called at once
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                await asyncio.sleep(SETTLE_SECONDS)
            await task
        finally:
            task.cancel()

    with_cluster(kubeconfig, context, work)


def _addresses(broker: Broker) -> dict[str, str]:
    return {name: view.address for name, view in broker.nodes.items() if view.address}


def _shown(show: Callable[[], None]) -> None:
    """Show a list; one of its objects may just have been deleted."""
    try:
        show()
    except NotFoundError as error:
        click.echo(f"note: {error}", err=True)


def poll(show: Callable[[], None]) -> NoReturn:
    """Call `show` every few seconds; an error of the cluster is reported once, and the next attempt may succeed."""
    problem = ""
    while True:
        time.sleep(POLL_SECONDS)
        try:
            show()
            problem = ""
        except ClusterError as error:
            if str(error) != problem:
                problem = str(error)
                click.echo(f"note: {problem}", err=True)
