"""Watched kinds: the table of resources that Linkwise lists and watches, and how each object becomes a watch event."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.cluster.objects import ALL, READ
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted
from linkwise.config.rbac import FEATURES
from linkwise.dialects.kubernetes.claims.driver import DRIVER
from linkwise.dialects.kubernetes.claims.objects import KINDS as DRA_KINDS
from linkwise.dialects.kubernetes.objects import CLAIM, CLASS
from linkwise.errors import InputError
from linkwise.wire.kubernetes.objects import decode_node, decode_pod, salvaged_pod

if TYPE_CHECKING:
    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.wire.kubernetes.watch_stream import Head

__all__ = [
    "KOORDINATOR_DEVICE",
    "NODES",
    "PODS",
    "SOURCES",
    "Decoded",
    "WatchedKind",
    "node_sources",
    "sources_without",
]

_NAMED: Final = "metadata.name="


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object as a watch event; `error` says why it could not be read, or not completely."""

    event: WatchEvent | None
    error: str = ""


Decode = Callable[["msgspec.Raw", "Head"], Decoded]
Deleted = Callable[["Head"], "WatchEvent"]


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One resource to list and watch."""

    resource: str
    """plural, as in the path"""
    decode: Decode
    """turns an object into a watch event"""
    deleted: Deleted
    """the watch event for an object that no longer exists"""
    group: str = ""
    """API group; empty for the core group"""
    version: str = "v1"
    """of the core group; for others the API server's preferred version is discovered"""
    namespace: str = ""
    """the only namespace to watch; empty for all"""
    prefixes: tuple[str, ...] = ("",)
    """of the object names to keep"""
    required: bool = False
    """whether the service can't start without it"""
    fields: str = ""
    """the field selector of lists and watches; empty for all objects"""
    listed: WatchEvent | None = None
    """delivered when a list is complete: objects that are not known do not exist"""
    role_command: str = "linkwise manifests rbac"
    """prints the role that allows the list and the watch"""

    @property
    def name(self) -> str:
        """As RBAC and kubectl write it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def by_uid(self) -> bool:
        """Whether objects are identified by their UID: a pod may be recreated under its name at any time."""
        return self.resource == "pods" and not self.group

    @property
    def only(self) -> str:
        """The name of the only object to watch; empty if there may be several."""
        return self.fields.removeprefix(_NAMED) if self.fields.startswith(_NAMED) else ""

    @property
    def selection(self) -> str:
        """The field selector as a query parameter that continues a query; empty without one."""
        return f"&fieldSelector={quote(self.fields, safe='')}" if self.fields else ""

    def is_relevant(self, head: Head) -> bool:
        """Whether an object of this name is kept."""
        return head.name.startswith(self.prefixes)


def _pod(document: msgspec.Raw, head: Head) -> Decoded:
    """Decode a pod; an invalid one that is bound is salvaged, because without it its devices would look free."""
    try:
        return Decoded(decode_pod(bytes(document)))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, a bound pod uses its devices
        partial = salvaged_pod(document)
        effect = (
            f"; it is counted on node {partial.node} from the readable fields"
            if partial
            else "; it is ignored until it changes"
        )
        return Decoded(partial, f"{error}{effect if head.uid else ''}")


def _node(document: msgspec.Raw, _: Head) -> Decoded:
    """Decode a node; an invalid one keeps its last valid state, and a new one gets no pods."""
    try:
        return Decoded(decode_node(bytes(document)))
    except InputError as error:
        return Decoded(None, str(error))


def _of_a_node(kind: str) -> tuple[Decode, Deleted]:
    """Objects named after their node; kept as JSON, so that the dialects report what is invalid in them."""

    def decode(document: msgspec.Raw, head: Head) -> Decoded:
        return Decoded(NodeObject(head.name, kind, bytes(document)))

    def deleted(head: Head) -> WatchEvent:
        return NodeObject(head.name, kind, None)

    return decode, deleted


_DEVICE_INFO: Final = "mindx-dl-deviceinfo-"
_UNHEALTHY: Final = "unhealthy-gpu-"
CONFIG_MAPS: Final = (_DEVICE_INFO, _UNHEALTHY)
"""name prefixes; the node's name follows"""


def _config_map(document: msgspec.Raw, head: Head) -> Decoded:
    return Decoded(NodeObject(_node_in(head), f"ConfigMap/{head.name}", bytes(document)))


def _config_map_deleted(head: Head) -> WatchEvent:
    return NodeObject(_node_in(head), f"ConfigMap/{head.name}", None)


def _node_in(head: Head) -> str:
    return next(head.name.removeprefix(prefix) for prefix in CONFIG_MAPS if head.name.startswith(prefix))


SLICE: Final = "ResourceSlice"
"""kind of the events of a node's own slices; a slash and the name of the slice follow"""


def _slice(document: msgspec.Raw, head: Head) -> Decoded:
    return Decoded(NodeObject("", f"{SLICE}/{head.name}", bytes(document)))


def _slice_deleted(head: Head) -> WatchEvent:
    return NodeObject("", f"{SLICE}/{head.name}", None)


_SLICES: Final = WatchedKind("resourceslices", _slice, _slice_deleted, "resource.k8s.io")


def _of_the_cluster(kind: str) -> tuple[Decode, Deleted]:
    """Objects about pod groups, budgets, access, namespaces, the network or devices of several nodes; kept as JSON."""

    def name(head: Head) -> str:
        return f"{head.namespace}/{head.name}" if head.namespace else head.name

    def decode(document: msgspec.Raw, head: Head) -> Decoded:
        return Decoded(ClusterObject(kind, name(head), bytes(document)))

    def deleted(head: Head) -> WatchEvent:
        return ClusterObject(kind, name(head), None)

    return decode, deleted


_PLURALS: Final = {
    "PodGroup": "podgroups",
    "Topology": "topologies",
    "HyperNode": "hypernodes",
    "ClusterNetworkTopology": "clusternetworktopologies",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "DeviceTaintRule": "devicetaintrules",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "AcceleratorPolicy": "acceleratorpolicies",
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
}


def _shared(kind: str) -> WatchedKind:
    name, _, group = kind.partition(".")
    listed = ClusterObject(kind, ALL, {}) if kind in {CLAIM, CLASS} else None
    return WatchedKind(_PLURALS[name], *_of_the_cluster(kind), group, listed=listed)


PODS: Final = WatchedKind("pods", _pod, lambda head: PodDeleted(head.uid), required=True)
NODES: Final = WatchedKind("nodes", _node, lambda head: NodeGone(head.name), required=True)
INVENTORIES: Final = WatchedKind("deviceinventories", *_of_a_node("DeviceInventory"), "linkwise.dev")
KOORDINATOR_DEVICE: Final = WatchedKind("devices", *_of_a_node("Device"), "scheduling.koordinator.sh")

NODE_TOPOLOGIES: Final = WatchedKind(
    "noderesourcetopologies", *_of_a_node("NodeResourceTopology"), "topology.node.k8s.io"
)

# The ConfigMaps of both plugins have no label to select, so their namespace is watched and filtered by name.
DEVICE_INFOS: Final = WatchedKind(
    "configmaps", _config_map, _config_map_deleted, namespace="kube-system", prefixes=CONFIG_MAPS
)

SOURCES: Final = (
    NODES,
    INVENTORIES,
    KOORDINATOR_DEVICE,
    NODE_TOPOLOGIES,
    DEVICE_INFOS,
    *(_shared(kind) for kind in (*READ, *DRA_KINDS)),
    PODS,
)


def sources_without(features: Collection[str]) -> tuple[WatchedKind, ...]:
    """The kinds that the service watches, without those of features that are turned off.

    A kind that is merely forbidden would be tried again and reported forever.
    """
    unused = {
        (FEATURES[name].namespace, group, resource)
        for name in features
        for rule in FEATURES[name].rules
        for group in rule.groups
        for resource in rule.resources
    }
    return tuple(kind for kind in SOURCES if kind.required or (kind.namespace, kind.group, kind.resource) not in unused)


def node_sources(
    node: str, *, koordinator: bool = False, device_info: bool = False, slices: bool = False
) -> tuple[WatchedKind, ...]:
    """The kinds that the agent of one node watches: its Node, its inventory, its pods; other objects on request.

    An object that does not exist is reported as deleted once it was looked for, so that the agent may create it.
    """
    named = (NODES, INVENTORIES, KOORDINATOR_DEVICE) if koordinator else (NODES, INVENTORIES)
    selectors = dict.fromkeys(named, f"{_NAMED}{node}") | {PODS: f"spec.nodeName={node}"}
    if device_info:
        selectors[DEVICE_INFOS] = f"{_NAMED}{_DEVICE_INFO}{node}"
    if slices:
        own = replace(_SLICES, listed=NodeObject(node, f"{SLICE}/", None))
        selectors[own] = f"spec.driver={DRIVER},spec.nodeName={node}"
    command = "linkwise manifests rbac --agent"
    return tuple(replace(kind, fields=fields, role_command=command) for kind, fields in selectors.items())
