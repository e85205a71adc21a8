"""Queues: the default queues, their state, and whether a queue accepts PodGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.controllers.volcano.names import DEFAULT_QUEUE, QUEUES, ROOT_QUEUE
from linkwise.embedded.controllers.volcano.objects import section

if TYPE_CHECKING:
    from linkwise.embedded.controllers.owned import Client
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.store import Store

__all__ = ["create_default_queues", "queue_problem", "sync_queue"]


def create_default_queues(store: Store) -> None:
    """Create the queues `root` and `default`, unless they exist."""
    for name in (ROOT_QUEUE, DEFAULT_QUEUE):
        if store.find(QUEUES, name) is None:
            spec = {"weight": 1, "reclaimable": name != ROOT_QUEUE}
            store.create(QUEUES, {"metadata": {"name": name}, "spec": spec})


async def sync_queue(client: Client, stored: Stored) -> None:
    """Open a new queue, and put it below the root unless it names its parent."""
    document = stored.read()
    if stored.name != ROOT_QUEUE and not section(document, "spec").get("parent"):
        await client.patch(QUEUES, stored.name, {"spec": {"parent": ROOT_QUEUE}}, "")
    if not section(document, "status").get("state"):
        await client.patch(QUEUES, stored.name, {"status": {"state": "Open"}}, "", "status")


def queue_problem(store: Store, name: str) -> str:
    """Why a queue accepts no PodGroups; empty if it does."""
    stored = store.find(QUEUES, name)
    if stored is None:
        return f'queue "{name}" not found'
    status = stored.read().get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if name == ROOT_QUEUE:
        return 'queue "root" accepts no jobs; use one of its children, such as "default"'
    return "" if state in {None, "Open"} else f'queue "{name}" is {state}'
