"""Watch of `linkwise get` and `linkwise top`: reports when the cluster has changed, until Ctrl-C.

The API server's own watches are used, which reconnect by themselves.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.broker.broker import Broker
from linkwise.config.loading import load
from linkwise.errors import NotFoundError
from linkwise.kube.watch.watcher import Watching
from linkwise.views.cluster import ClusterView
from linkwise.wire.decoding import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection

__all__ = ["watch_cluster"]

SETTLE_SECONDS: Final = 0.2
"""after a change, for others that belong to it: a bind is a change of the pod and of its node's inventory"""
_SYNC_SECONDS: Final = 0.05
"""between two looks at whether all kinds are listed; no one event says so"""


def watch_cluster(kubeconfig: Path | None, context: str | None, show: Callable[[ClusterView], None]) -> None:
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
                _shown(lambda: show(ClusterView(broker, now, connection.namespace)))  # noqa: B023 - called at once
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                await asyncio.sleep(SETTLE_SECONDS)
            await task
        finally:
            task.cancel()

    with_cluster(kubeconfig, context, work)


def _shown(show: Callable[[], None]) -> None:
    """Show a list; one of its objects may just have been deleted."""
    try:
        show()
    except NotFoundError as error:
        click.echo(f"note: {error}", err=True)
