"""The publishing half of a node agent: a publisher with its watches, and the events that they showed."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from linkwise.agent.publisher import Publisher, PublishSettings
from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import node_sources
from linkwise.kube.watch.watcher import Watching
from linkwise.model.views import NodeView
from linkwise.net.timing import Timing

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection

__all__ = ["PublishingAgent"]


class PublishingAgent:
    """One run of it, until it is killed."""

    def __init__(
        self, connection: Connection, node: str, timing: Timing | None = None, *, koordinator: bool = False
    ) -> None:
        timing = timing or Timing()
        self.events: list[WatchEvent] = []
        self.seen: dict[str, int] = {}
        """by kind, the newest resourceVersion that the watch has shown; 0 for an object that does not exist"""
        self.kinds = ("Node", "DeviceInventory", "Device") if koordinator else ("Node", "DeviceInventory")
        self.publisher = Publisher(NodeWriter(connection, node), PublishSettings(last_retry=1.0), timing)
        watching = Watching(
            connection,
            self._observe,
            sources=node_sources(node, koordinator=koordinator),
            settings=WatchSettings(rediscovery=0.1),
            timing=timing,
        )
        self._tasks = [asyncio.create_task(self.publisher.run()), asyncio.create_task(watching.run())]

    @property
    def settled(self) -> bool:
        """Whether the watches have looked for everything, and nothing is left to be written."""
        return self.seen.keys() >= set(self.kinds) and self.publisher.settled

    async def check(self) -> None:
        """Raise what has ended it."""
        for task in self._tasks:
            if task.done():
                await task

    async def kill(self) -> None:
        """End in the middle of whatever it does."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _observe(self, events: list[WatchEvent]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, NodeView):
                self.seen["Node"] = event.version
                self.publisher.observe_node(event)
            elif isinstance(event, NodeGone):
                self.seen["Node"] = 0
                self.publisher.observe_node(None)
            elif isinstance(event, NodeObject) and isinstance(event.document, bytes | None):
                text = json.loads(event.document)["metadata"]["resourceVersion"] if event.document else "0"
                self.seen[event.kind] = int(text)
                device = event.kind == "Device"
                (self.publisher.observe_device if device else self.publisher.observe_inventory)(event.document)
