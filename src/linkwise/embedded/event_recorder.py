"""What a scheduler and a kubelet tell of pods: events, counted up where they say the same again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal

from linkwise.embedded.api_errors import ApiError

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["Recorder"]

_KNOWN: Final = 4096
"""events that are remembered"""


class Recorder:
    """Writes events in the name of one component."""

    def __init__(self, store: Store, component: str, host: str = "") -> None:
        self._store, self._component = store, component
        self._source = {"component": component, **({"host": host} if host else {})}
        self._known: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()
        self._number = 0

    def tell(self, about: Raw, kind: Literal["Normal", "Warning"], reason: str, sentence: str) -> None:
        """Write an event about an object; one that can't be written is nobody's loss."""
        meta = about["metadata"]
        key = (meta["uid"], reason, sentence)
        try:
            if key in self._known:
                self._count_up(key)
            else:
                self._create(about, key, kind)
        except ApiError:
            self._known.pop(key, None)

    def _count_up(self, key: tuple[str, str, str]) -> None:
        self._known.move_to_end(key)
        namespace, name = self._known[key]
        event = self._store.get("events", name, namespace).read()
        change = {"count": event.get("count", 1) + 1, "lastTimestamp": self._store.shelves.now}
        self._store.patch("events", name, change, namespace)

    def _create(self, about: Raw, key: tuple[str, str, str], kind: str) -> None:
        meta, now = about["metadata"], self._store.shelves.now
        namespace = meta.get("namespace") or "default"
        self._number += 1
        involved = {
            "kind": about["kind"],
            "apiVersion": about.get("apiVersion", "v1"),
            "name": meta["name"],
            "uid": meta["uid"],
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
        }
        name = f"{meta['name'][:200]}.{self._component}.{self._number:x}.{meta['uid'][:8]}"
        document = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "reason": key[1],
            "message": key[2],
            "type": kind,
            "source": self._source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._store.create("events", document, namespace)
        self._known[key] = (namespace, name)
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
