"""Objects that describe nodes, by node and kind, and inventories that are missing.

An inventory that is deleted is used as it last was for a grace period: its CRD may be being replaced, or its agent
reinstalled, and the devices are the same meanwhile. It returns, or is dropped: at the end of the grace period, with its
node, or when the node reports another amount of devices than before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.cluster_objects import document_of
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.registry import describes_devices, owner_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.model.views import NodeView

__all__ = ["MissingInventory", "NodeObjects"]

_NOW: Final = 0.0
"""a deadline that is over"""


@dataclass(frozen=True, slots=True)
class MissingInventory:
    """An object or annotation that described the devices of a node and was deleted."""

    since: float | None = None
    """seconds since the epoch; None until the next reconciliation"""
    hardware: Mapping[str, str] = field(default_factory=dict)
    """the amounts of devices that the node reported at that time, by resource"""


_NONE: Final[Mapping[str, MissingInventory]] = {}


class NodeObjects:
    """The last documents of each node.

    Args:
        grace: how long a missing inventory is used, in seconds.
        changed: gets the nodes whose documents change; the caller empties it.
        parse: reads the JSON of documents.
    """

    def __init__(self, grace: float, changed: dict[str, None], parse: Parse = json.loads) -> None:
        self._grace: Final = grace
        self._changed: Final = changed
        self._parse: Final = parse
        self.documents: dict[str, dict[str, Mapping[str, object] | bytes]] = {}
        """by node name and kind"""
        self.missing: dict[str, dict[str, MissingInventory]] = {}
        """by node, and kind or annotation"""
        self._latest = self._deadline = _NOW
        """when the last of them vanished, and when the grace period of the first ends"""

    def see(
        self, node: str, kind: str, document: Mapping[str, object] | bytes | None, view: NodeView | None = None
    ) -> None:
        """Record an object about a node, of which `view` is the latest; None if the object was deleted."""
        known = self.documents.get(node, {}).get(kind)
        missing = self.missing_of(node).get(kind)
        if document is None:
            if known is not None and missing is None:
                self._lose(node, kind, view)
            return
        if missing:
            self._return(node, kind)
        if missing or known != document:
            self.documents[node] = {**self.documents.get(node, {}), kind: document}
            if missing or known is None or not self._only_usage_differs(kind, known, document):
                self._changed[node] = None

    def see_node(self, known: NodeView, view: NodeView) -> NodeView:
        """Return a node's new view, with annotations that described its devices and are missing now."""
        name = view.name
        for key, missing in tuple(self.missing_of(name).items()):
            if key in view.annotations:
                self._return(name, key)
            elif _replaced(missing.hardware, view):
                self._drop(name, key)
                known = _without(known, key)
        lost = [key for key in known.annotations if key not in view.annotations and describes_devices(key)]
        if not lost or not self._grace or _replaced(_hardware(known), view):
            return view
        for key in lost:
            if key not in self.missing_of(name):
                self._begin(known, key)
        return replace(view, annotations={**view.annotations, **{key: known.annotations[key] for key in lost}})

    def lose_node(self, node: str) -> None:
        """Remove a node: what is missing of it does not come back."""
        for key in tuple(self.missing_of(node)):
            self._drop(node, key)

    def _only_usage_differs(
        self, kind: str, known: Mapping[str, object] | bytes, document: Mapping[str, object] | bytes
    ) -> bool:
        """Whether no decision depends on the difference: agents write the usage of their devices every minute or so."""
        if kind != KIND:
            return False
        try:
            return _decisive(document_of(known, self._parse)) == _decisive(document_of(document, self._parse))
        except Exception:  # noqa: BLE001 - whatever is wrong with it, merging the inventory reports it
            return False

    def of(self, node: str) -> dict[str, Mapping[str, object]]:
        """Return the objects about a node by kind, parsed."""
        return {kind: document_of(found, self._parse) for kind, found in self.documents.get(node, {}).items()}

    def capture(self) -> Callable[[], dict[str, dict[str, Mapping[str, object]]]]:
        """Return a function that parses the objects about all nodes as they are now; it may be called in another thread."""
        objects, parse = dict(self.documents), self._parse  # an object that changes replaces those of its node

        def parsed() -> dict[str, dict[str, Mapping[str, object]]]:
            return {
                name: {kind: document_of(found, parse) for kind, found in sorted(known.items())}
                for name, known in sorted(objects.items())
                if known
            }

        return parsed

    def missing_of(self, node: str) -> Mapping[str, MissingInventory]:
        """Return what is missing of a node, by kind or annotation."""
        return self.missing.get(node, _NONE)

    def expire(self, now: float) -> list[tuple[str, str]]:
        """Drop inventories that are missing for longer than the grace period; return them by node and kind.

        Those that are missing since the last call, or since a time that the clock has not reached, are missing from now on.
        """
        if not self.missing or self._latest <= now < self._deadline:
            return []
        over = []
        for node, key, missing in [(node, *each) for node, keys in self.missing.items() for each in keys.items()]:
            if missing.since is None or missing.since > now:
                self.missing[node][key] = replace(missing, since=now)
                self._changed[node] = None
            elif missing.since + self._grace <= now:
                self._drop(node, key)
                over.append((node, key))
        self._find_deadline()
        return over

    def next_deadline(self) -> float | None:
        """When the grace period of the longest missing inventory ends."""
        return self._deadline if self.missing else None

    def stored(self) -> dict[str, dict[str, MissingInventory]]:
        """What is missing, by node, for a snapshot."""
        return {node: dict(keys) for node, keys in sorted(self.missing.items())}

    def restore(
        self,
        documents: Mapping[str, Mapping[str, Mapping[str, object] | bytes]],
        missing: Mapping[str, Mapping[str, MissingInventory]],
    ) -> None:
        """Restore a snapshot."""
        self.documents = {node: dict(objects) for node, objects in documents.items()}
        self.missing = {node: dict(keys) for node, keys in missing.items()}
        self._find_deadline()

    def _lose(self, node: str, kind: str, view: NodeView | None) -> None:
        if self._grace and view is not None and describes_devices(kind):
            self._begin(view, kind)
        else:
            self._drop(node, kind)

    def _begin(self, view: NodeView, key: str) -> None:
        self.missing.setdefault(view.name, {})[key] = MissingInventory(hardware=_hardware(view))
        self._deadline = _NOW
        self._changed[view.name] = None

    def _return(self, node: str, key: str) -> None:
        keys = self.missing.get(node, {})
        keys.pop(key, None)
        if not keys:
            self.missing.pop(node, None)
        self._changed[node] = None

    def _find_deadline(self) -> None:
        times = [missing.since for keys in self.missing.values() for missing in keys.values()]
        since = [time for time in times if time is not None]
        self._latest = max(since, default=_NOW)
        self._deadline = min(since, default=_NOW) + self._grace if len(since) == len(times) else _NOW

    def _drop(self, node: str, key: str) -> None:
        self._return(node, key)
        documents = {kind: known for kind, known in self.documents.get(node, {}).items() if kind != key}
        if documents:
            self.documents[node] = documents
        else:
            self.documents.pop(node, None)


def _decisive(document: Mapping[str, object]) -> tuple[object, ...]:
    """Return what decisions depend on in a DeviceInventory."""
    metadata, status = document.get("metadata"), document.get("status")
    name = metadata.get("name") if isinstance(metadata, Mapping) else metadata
    rest = {key: value for key, value in status.items() if key != "usage"} if isinstance(status, Mapping) else status
    return document.get("apiVersion"), document.get("kind"), name, document.get("spec"), rest


def _hardware(view: NodeView) -> dict[str, str]:
    return {resource: amount for resource, amount in view.capacity.items() if amount != "0" and owner_name(resource)}


def _replaced(hardware: Mapping[str, str], view: NodeView) -> bool:
    """Return whether a node reports other devices; one that reports none has a device plugin that is not ready."""
    return any(view.capacity.get(resource, "0") not in {"0", amount} for resource, amount in hardware.items())


def _without(view: NodeView, key: str) -> NodeView:
    return replace(view, annotations={name: text for name, text in view.annotations.items() if name != key})
