"""Controllers: whatever changes, the object that it belongs to is looked at again, and what is missing is done."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.controllers.deployments import sync_deployment, sync_replicas
from linkwise.embedded.controllers.jobs import sync_job
from linkwise.embedded.runtime import follow

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["Controllers"]

_TRIES: Final = 5
_SYNCS: Final[dict[str, Callable[[Store, Stored], None]]] = {
    "deployments.apps": sync_deployment,
    "replicasets.apps": sync_replicas,
    "jobs.batch": sync_job,
}
_OWNERS: Final = {"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps", "Job": "jobs.batch"}
_VERSIONS: Final = ("apps/v1", "batch/v1")


class Controllers:
    """Deployments, ReplicaSets and Jobs of a store; `run` them beside everything else."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._line: dict[tuple[str, str, str], int] = {}
        """objects to look at, each once, and how often that went wrong"""
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in ("pods", *_SYNCS):
                tasks.create_task(follow(self._store, kind, partial(self._hear, kind)), name=f"controllers {kind}")
            tasks.create_task(self._work(), name="controllers")

    def _hear(self, kind: str, event: WatchEvent) -> None:
        stored = event.stored
        if kind in _SYNCS and event.type != "DELETED":
            self._line.setdefault((kind, *stored.key), 0)
        if b'"ownerReferences"' in stored.data:
            for owner in event.object["metadata"].get("ownerReferences") or ():
                if owner.get("controller") and owner["apiVersion"] in _VERSIONS and owner["kind"] in _OWNERS:
                    self._line.setdefault((_OWNERS[owner["kind"]], stored.namespace, owner["name"]), 0)
        self._wakeup.set()

    async def _work(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._line:
                place = next(iter(self._line))
                self._sync(place, self._line.pop(place))
                await asyncio.sleep(0)

    def _sync(self, place: tuple[str, str, str], tries: int) -> None:
        kind, namespace, name = place
        stored = self._store.find(kind, name, namespace)
        if stored is None or b'"deletionTimestamp"' in stored.data:
            return
        try:
            _SYNCS[kind](self._store, stored)
        except ApiError:
            # Another one wrote in between, or what it makes is not allowed: then the next change brings it back.
            if tries < _TRIES:
                self._line.setdefault(place, tries + 1)
