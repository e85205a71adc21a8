"""Event recorder: writes the events of one component, and counts repeated ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal

from linkwise.embedded.api_errors import ApiError

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["EventRecorder"]

_CACHE_SIZE: Final = 4096
"""events remembered for counting"""


class EventRecorder:
    """Records events as one component."""

    def __init__(self, store: Store, component: str, host: str = "") -> None:
        self._store, self._component = store, component
        self._source = {"component": component, **({"host": host} if host else {})}
        self._cache: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()
        self._sequence = 0

    def record(self, involved: Raw, event_type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event about an object; events that can't be written are dropped."""
        meta = involved["metadata"]
        key = (meta["uid"], reason, message)
        try:
            if key in self._cache:
                self._count_up(key)
            else:
                self._create(involved, key, event_type)
        except ApiError:
            self._cache.pop(key, None)

    def _count_up(self, key: tuple[str, str, str]) -> None:
        self._cache.move_to_end(key)
        namespace, name = self._cache[key]
        event = self._store.get("events", name, namespace).read()
        change = {"count": event.get("count", 1) + 1, "lastTimestamp": self._store.database.now}
        self._store.patch("events", name, change, namespace)

    def _create(self, involved_object: Raw, key: tuple[str, str, str], event_type: str) -> None:
        meta, now = involved_object["metadata"], self._store.database.now
        namespace = meta.get("namespace") or "default"
        self._sequence += 1
        reference = {
            "kind": involved_object["kind"],
            "apiVersion": involved_object.get("apiVersion", "v1"),
            "name": meta["name"],
            "uid": meta["uid"],
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
        }
        name = f"{meta['name'][:200]}.{self._component}.{self._sequence:x}.{meta['uid'][:8]}"
        document = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "reason": key[1],
            "message": key[2],
            "type": event_type,
            "source": self._source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._store.create("events", document, namespace)
        self._cache[key] = (namespace, name)
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
