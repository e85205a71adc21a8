"""What is watched, as a table: which objects, where, and what a change of one means to the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.cluster_objects import READ
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted
from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import decode_node, decode_pod
from linkwise.wire.kubernetes.partial_pod import salvaged_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.wire.kubernetes.watch_stream import Head

__all__ = ["KOORDINATOR_DEVICE", "NODES", "PODS", "SOURCES", "Seen", "WatchedKind"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What an object means; `wrong` says why it could not be read as a whole."""

    sight: WatchEvent | None
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """Objects of one kind that are watched."""

    resource: str
    """as in the path: the plural"""
    there: Callable[[msgspec.Raw, Head], Seen]
    """what an object says"""
    gone: Callable[[Head], WatchEvent]
    """what it means that there is none of that name any more"""
    group: str = ""
    """empty for the core"""
    version: str = "v1"
    """of the core; of others the server says which it has"""
    namespace: str = ""
    """the only one that is looked at; empty for all"""
    prefixes: tuple[str, ...] = ("",)
    """how the names begin that count; others are not kept"""
    required: bool = False
    """whether nothing can be decided without it"""

    @property
    def name(self) -> str:
        """As RBAC and kubectl write it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def counts(self, head: Head) -> bool:
        """Whether an object of that name says anything."""
        return head.name.startswith(self.prefixes)


def _pod(document: msgspec.Raw, head: Head) -> Seen:
    """A bound pod that can't be read is shown by what can be; without it its devices would look free."""
    try:
        return Seen(decode_pod(bytes(document)))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, a bound pod has its devices
        kept = salvaged_pod(document)
        rest = (
            f"; it is counted on node {kept.node} by the rest of it" if kept else "; it is left out until that changes"
        )
        return Seen(kept, f"{error}{rest if head.uid else ''}")


def _node(document: msgspec.Raw, _: Head) -> Seen:
    """A node that can't be read stays as it was, and one that is new takes no pods."""
    try:
        return Seen(decode_node(bytes(document)))
    except InputError as error:
        return Seen(None, str(error))


def _of_a_node(kind: str) -> tuple[Callable[[msgspec.Raw, Head], Seen], Callable[[Head], WatchEvent]]:
    """Objects named after their node; they are kept as JSON, and dialects report what is wrong in them."""

    def there(document: msgspec.Raw, head: Head) -> Seen:
        return Seen(NodeObject(head.name, kind, bytes(document)))

    def gone(head: Head) -> WatchEvent:
        return NodeObject(head.name, kind, None)

    return there, gone


_DEVICE_INFO: Final = "mindx-dl-deviceinfo-"
_UNHEALTHY: Final = "unhealthy-gpu-"
CONFIG_MAPS: Final = (_DEVICE_INFO, _UNHEALTHY)
"""what comes before the node's name"""


def _config_map(document: msgspec.Raw, head: Head) -> Seen:
    return Seen(NodeObject(_node_in(head), f"ConfigMap/{head.name}", bytes(document)))


def _config_map_gone(head: Head) -> WatchEvent:
    return NodeObject(_node_in(head), f"ConfigMap/{head.name}", None)


def _node_in(head: Head) -> str:
    return next(head.name.removeprefix(prefix) for prefix in CONFIG_MAPS if head.name.startswith(prefix))


def _of_the_cluster(kind: str) -> tuple[Callable[[msgspec.Raw, Head], Seen], Callable[[Head], WatchEvent]]:
    """Objects that tell of groups or of the network."""

    def name(head: Head) -> str:
        return f"{head.namespace}/{head.name}" if head.namespace else head.name

    def there(document: msgspec.Raw, head: Head) -> Seen:
        return Seen(ClusterObject(kind, name(head), bytes(document)))

    def gone(head: Head) -> WatchEvent:
        return ClusterObject(kind, name(head), None)

    return there, gone


_PLURALS: Final = {
    "PodGroup": "podgroups",
    "Topology": "topologies",
    "HyperNode": "hypernodes",
    "ClusterNetworkTopology": "clusternetworktopologies",
}


def _shared(kind: str) -> WatchedKind:
    word, _, group = kind.partition(".")
    return WatchedKind(_PLURALS[word], *_of_the_cluster(kind), group)


PODS: Final = WatchedKind("pods", _pod, lambda head: PodDeleted(head.uid), required=True)
NODES: Final = WatchedKind("nodes", _node, lambda head: NodeGone(head.name), required=True)
KOORDINATOR_DEVICE: Final = WatchedKind("devices", *_of_a_node("Device"), "scheduling.koordinator.sh")

SOURCES: Final = (
    NODES,
    WatchedKind("deviceinventories", *_of_a_node("DeviceInventory"), "linkwise.dev"),
    KOORDINATOR_DEVICE,
    # Nothing marks the ConfigMaps of both plugins, so their namespace is watched and only theirs are kept.
    WatchedKind("configmaps", _config_map, _config_map_gone, namespace="kube-system", prefixes=CONFIG_MAPS),
    *(_shared(kind) for kind in READ),
    PODS,
)
