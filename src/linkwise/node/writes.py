"""Writes of the node agent: differences between what the API server shows of a node and what it should."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from linkwise.model.views import NodeView, PodView, Taint

__all__ = [
    "ListedPods",
    "NodeWriter",
    "WriteOutcome",
    "Written",
    "capacity_changes",
    "merge_patch",
    "object_changes",
    "text_changes",
    "with_times",
]

WriteOutcome = Literal["done", "refused", "unreachable"]


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write.

    *done*: the API server has stored it. *refused*: it has not, and the same write would be refused again.
    *unreachable*: the API server did not answer, or could not; it may have stored it all the same.
    """

    outcome: WriteOutcome
    sentence: str = ""
    """why it was not written"""
    wait: float = 0.0  # s
    """before which it is not worth trying again"""
    document: Mapping[str, object] | None = None
    """the object as the API server has it now, if it returned one; also if only a part of it was written"""
    view: NodeView | None = None
    """the Node as the API server has it now, if it was written"""


@dataclass(frozen=True, slots=True)
class ListedPods:
    """The pods of a node, as the API server has them at this moment."""

    pods: tuple[PodView, ...] = ()
    problem: str = ""
    """why they could not be listed, or not all of them read; empty if they are complete"""


class NodeWriter(Protocol):
    """Writes what one node publishes; repeating a write is harmless, and no failure of the API server raises."""

    async def write_inventory(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create the DeviceInventory, or change what differs from the known one."""
        ...

    async def write_device(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create Koordinator's Device object, or change what differs from the known one."""
        ...

    async def write_device_info(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create the ConfigMap of Huawei's device plugin, or change what differs from the known one."""
        ...

    async def patch_node(self, labels: Mapping[str, object], annotations: Mapping[str, object]) -> Written:
        """Set labels and annotations of the Node; None removes one."""
        ...

    async def patch_node_status(
        self, capacity: Mapping[str, str | None], allocatable: Mapping[str, str | None]
    ) -> Written:
        """Set resources of the Node's status; None removes one."""
        ...

    async def set_taint(self, taint: Taint, *, present: bool) -> Written:
        """Add a taint to the Node, or remove that of its key; other taints stay as they are."""
        ...


def merge_patch(known: Mapping[str, object], desired: Mapping[str, object]) -> dict[str, object]:
    """The merge patch that turns one object into the other; empty if they are equal. Lists are replaced as a whole."""
    patch: dict[str, object] = {name: None for name in known if name not in desired}
    for name, value in desired.items():
        old = known.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif name not in known or old != value:
            patch[name] = value
    return patch


def object_changes(known: Mapping[str, object], desired: Mapping[str, object]) -> dict[str, object]:
    """The merge patch for an object of the agent: the spec and the status as a whole, of the rest what it sets."""
    patch: dict[str, object] = {
        part: changes
        for part in ("spec", "status")
        if isinstance(new := desired.get(part), Mapping) and (changes := merge_patch(_part(known, part), new))
    }
    if data := text_changes(_part(known, "data"), _part(desired, "data")):
        patch["data"] = data
    old, new = _part(known, "metadata"), _part(desired, "metadata")
    texts = {
        field: changes
        for field in ("labels", "annotations")
        if (changes := text_changes(_part(old, field), _part(new, field)))
    }
    return {"metadata": texts} | patch if texts else patch


def text_changes(
    known: Mapping[str, object], desired: Mapping[str, object], owned: Collection[str] = ()
) -> dict[str, object]:
    """The merge patch for labels or annotations: None for those that are owned and no longer desired."""
    lost: dict[str, object] = {key: None for key in owned if key in known and key not in desired}
    return lost | {key: value for key, value in desired.items() if known.get(key) != value}


def capacity_changes(view: NodeView, desired: Mapping[str, str | None]) -> dict[str, dict[str, str | None]]:
    """The merge patch for the status of a Node: `capacity` and `allocatable`, each only if it differs."""
    both = {"capacity": view.capacity, "allocatable": view.allocatable}
    changes = {
        field: {name: amount for name, amount in desired.items() if amounts.get(name) != amount}
        for field, amounts in both.items()
    }
    return {field: amounts for field, amounts in changes.items() if amounts}


def with_times(document: Mapping[str, object], known: Mapping[str, object] | None, time: str) -> dict[str, object]:
    """The object with a lastTransitionTime in each condition: that of the known object while the status is the same."""
    status = _part(document, "status")
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return dict(document)
    earlier = _times(_part(known or {}, "status").get("conditions"))
    timed = [{**one, "lastTransitionTime": earlier.get((one["type"], one["status"]), time)} for one in conditions]
    return {**document, "status": {**status, "conditions": timed}}


def _part(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = document.get(name)
    return part if isinstance(part, Mapping) else {}


def _times(conditions: object) -> dict[tuple[object, object], str]:
    """The times of readable conditions, by type and status."""
    present = [one for one in conditions if isinstance(one, Mapping)] if isinstance(conditions, list) else []
    return {
        (kind, status): time
        for one in present
        if isinstance(kind := one.get("type"), str)
        and isinstance(status := one.get("status"), str)
        and isinstance(time := one.get("lastTransitionTime"), str)
    }
