"""Output of `kubectl get nodes,pods -A -o json`, decoded as a snapshot without broker state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.errors import InputError
from linkwise.model.snapshot import Snapshot
from linkwise.wire.decoding import check_unique, decode_as, within
from linkwise.wire.kubernetes.metadata import Meta, Struct
from linkwise.wire.kubernetes.node import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.pod_view import view_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import NodeView, PodView

__all__ = ["LIST", "READ", "decode_list", "identified"]

LIST: Final = "List"
"""suffix of list kinds"""
OF_A_NODE: Final = ("DeviceInventory", "Device", "NodeResourceTopology")
"""kinds named after their node"""
CONFIG: Final = "ConfigMap"
"""the kind whose names end with the node's"""
NAMESPACED: Final = ("PodGroup", "ResourceClaim")
SHARED: Final = (
    *NAMESPACED,
    *("Topology", "HyperNode", "ClusterNetworkTopology", "ResourceSlice", "DeviceClass"),
    *("AcceleratorPolicy", "Namespace"),
)
"""kinds about pod groups, the network, devices that claims allocate, and access"""
READ: Final = ("Node", "Pod", *OF_A_NODE, CONFIG, *SHARED)

Document = dict[str, Any]


class _Head(Struct):
    kind: str = ""
    api_version: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)


class _List(Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


def decode_list(data: bytes) -> Snapshot[Any]:
    """Decode a list; the creation of the newest pod is the snapshot's time."""
    listed = decode_as(data, _List)
    default = listed.kind.removesuffix(LIST)
    nodes: list[NodeView] = []
    pods: list[PodView] = []
    others: list[tuple[str, str, Document]] = []
    shared: dict[str, dict[str, Document]] = {}
    for number, item in enumerate(listed.items or ()):
        with within(f"items[{number}]"):
            head = decode_as(item, _Head)
            match head.kind or default:
                case "Node":
                    nodes.append(node_view_of(decode_as(item, NodeObject)))
                case "Pod":
                    pods.append(identified(decode_as(item, PodObject)))
                case kind if kind in SHARED:
                    group = head.api_version.rpartition("/")[0]
                    full = f"{kind}.{group}" if group else kind
                    shared.setdefault(full, {})[_full_name(kind, head.metadata)] = decode_as(item, Document)
                case kind if kind in READ:
                    others.append((kind, head.metadata.name, decode_as(item, Document)))
                case kind:
                    raise InputError(f"kind: {kind or 'nothing'!r} is not supported; use {', '.join(READ)}")
    check_unique((node.name for node in nodes), "nodes", "node")
    check_unique((pod.uid for pod in pods), "pods", "UID")
    return Snapshot(
        max((pod.created for pod in pods), default=0.0),
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        objects=_objects(others, [node.name for node in nodes]),
        pods=tuple(sorted(pods, key=lambda pod: pod.uid)),
        shared={kind: dict(sorted(named.items())) for kind, named in sorted(shared.items())},
    )


def identified(pod: PodObject) -> PodView:
    """The view of a pod; one without a UID, which was never created in a cluster, is identified by its name."""
    meta = pod.metadata
    meta.uid = meta.uid or f"{meta.namespace}/{meta.name or meta.generate_name}"
    return view_of(pod)


def _full_name(kind: str, meta: Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if kind in NAMESPACED else meta.name


def _objects(others: Iterable[tuple[str, str, Document]], nodes: Iterable[str]) -> dict[str, dict[str, Document]]:
    """Objects by node and kind; ConfigMaps that belong to no node are dropped."""
    by_node: dict[str, dict[str, Document]] = {}
    longest_first = sorted(nodes, key=len, reverse=True)
    for kind, name, document in others:
        if kind in OF_A_NODE:
            by_node.setdefault(name, {})[kind] = document
        elif node := next((node for node in longest_first if name.endswith(f"-{node}")), ""):
            by_node.setdefault(node, {})[f"{kind}/{name}"] = document
    return by_node
