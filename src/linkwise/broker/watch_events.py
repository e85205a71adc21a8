"""What a watch shows beside pods and nodes as they are now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.model.views import NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClusterObject", "NodeGone", "NodeObject", "PodDeleted", "PodListComplete", "WatchEvent"]


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is no longer there."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodListComplete:
    """All pods that there are, after a list was read to its end: whoever is not among them is gone."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node is no longer there."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeObject:
    """An object that tells more of a node: its inventory, its Device object, a ConfigMap."""

    node: str
    kind: str
    """as dialects name it: `DeviceInventory`, `Device`, `ConfigMap/<name>`"""
    document: Mapping[str, object] | bytes | None
    """as JSON, which is kept as it is and takes little room, or as what a reader made of it; None if it is gone"""


@dataclass(frozen=True, slots=True)
class ClusterObject:
    """An object that tells of groups, or of how nodes lie in the network."""

    kind: str
    """with its API group, as in `PodGroup.scheduling.volcano.sh`"""
    name: str
    """with its namespace before it, if it is in one"""
    document: Mapping[str, object] | bytes | None
    """as JSON, or as what a reader made of it; None if it is gone"""


WatchEvent = PodView | NodeView | PodDeleted | PodListComplete | NodeGone | NodeObject | ClusterObject
