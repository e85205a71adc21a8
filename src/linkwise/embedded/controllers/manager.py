"""Controller manager: enqueues the owner of every changed object and reconciles it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.controllers.deployments import sync_deployment, sync_replica_set
from linkwise.embedded.controllers.jobs import sync_job
from linkwise.embedded.runtime import follow

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["Controllers"]

_MAX_RETRIES: Final = 5
_SYNCS: Final[dict[str, Callable[[Store, Stored], None]]] = {
    "deployments.apps": sync_deployment,
    "replicasets.apps": sync_replica_set,
    "jobs.batch": sync_job,
}
_OWNERS: Final = {"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps", "Job": "jobs.batch"}
_API_VERSIONS: Final = ("apps/v1", "batch/v1")


class Controllers:
    """The Deployment, ReplicaSet and Job controllers; `run` them next to the other components."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: dict[tuple[str, str, str], int] = {}
        """keys to reconcile, without duplicates, and the number of failed attempts"""
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in ("pods", *_SYNCS):
                tasks.create_task(follow(self._store, kind, partial(self._on_event, kind)), name=f"controllers {kind}")
            tasks.create_task(self._process_queue(), name="controllers")

    def _on_event(self, kind: str, event: WatchEvent) -> None:
        stored = event.stored
        if kind in _SYNCS and event.type != "DELETED":
            self._queue.setdefault((kind, *stored.key), 0)
        if b'"ownerReferences"' in stored.data:
            for owner in event.object["metadata"].get("ownerReferences") or ():
                if owner.get("controller") and owner["apiVersion"] in _API_VERSIONS and owner["kind"] in _OWNERS:
                    self._queue.setdefault((_OWNERS[owner["kind"]], stored.namespace, owner["name"]), 0)
        self._wakeup.set()

    async def _process_queue(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._queue:
                key = next(iter(self._queue))
                self._sync(key, self._queue.pop(key))
                await asyncio.sleep(0)

    def _sync(self, key: tuple[str, str, str], retries: int) -> None:
        kind, namespace, name = key
        stored = self._store.find(kind, name, namespace)
        if stored is None or b'"deletionTimestamp"' in stored.data:
            return
        try:
            _SYNCS[kind](self._store, stored)
        except ApiError:
            # A conflicting write, or an invalid pod template: in both cases the next change enqueues it again.
            if retries < _MAX_RETRIES:
                self._queue.setdefault(key, retries + 1)
