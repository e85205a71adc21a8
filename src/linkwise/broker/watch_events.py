"""Watch events, beside the pods and nodes themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.model.views import NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClusterObject", "NodeGone", "NodeObject", "PodDeleted", "PodListComplete", "WatchEvent"]


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod was deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodListComplete:
    """The UIDs of a complete list: every other pod was deleted."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeObject:
    """An object that describes a node: its inventory, its Device object, a ConfigMap."""

    node: str
    kind: str
    """as dialects name it: `DeviceInventory`, `Device`, `ConfigMap/<name>`"""
    document: Mapping[str, object] | bytes | None
    """JSON, kept unparsed to save memory, or the parsed document; None if it was deleted"""


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """An object that describes groups, the network topology, access policies or namespaces."""

    kind: str
    """with its API group, as in `PodGroup.scheduling.volcano.sh`"""
    name: str
    """with its namespace before it, if it is in one"""
    document: Mapping[str, object] | bytes | None
    """JSON or the parsed document; None if it was deleted"""


WatchEvent = PodView | NodeView | PodDeleted | PodListComplete | NodeGone | NodeObject | ClusterObject
