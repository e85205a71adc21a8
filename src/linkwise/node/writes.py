"""Writes of the node agent: their results, and the protocol of the writer that carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import NodeView, PodView, Taint

__all__ = ["ListedPods", "NodeWriter", "WriteOutcome", "Written"]

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
