"""What `kubectl get nodes,pods -A -o json` prints, read as a snapshot: views, and nothing that is kept beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.errors import InputError
from linkwise.model.snapshot import Snapshot
from linkwise.wire.decoding import decode_as, once, within
from linkwise.wire.kubernetes.metadata import Meta, Struct
from linkwise.wire.kubernetes.node import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.pod_view import view_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import NodeView, PodView

__all__ = ["LIST", "READ", "decode_list", "identified"]

LIST: Final = "List"
"""how the kinds of lists end"""
OF_A_NODE: Final = ("DeviceInventory", "Device")
"""named after their node"""
CONFIG: Final = "ConfigMap"
"""whose name ends with that of its node"""
NAMESPACED: Final = "PodGroup"
SHARED: Final = (NAMESPACED, "Topology", "HyperNode", "ClusterNetworkTopology")
"""that tell of groups and of the network"""
READ: Final = ("Node", "Pod", *OF_A_NODE, CONFIG, *SHARED)

Document = dict[str, Any]


class _Head(Struct):
    kind: str = ""
    api_version: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)


class _List(Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


def decode_list(data: bytes) -> Snapshot:
    """The snapshot of a list; the newest object tells the time."""
    found = decode_as(data, _List)
    usual = found.kind.removesuffix(LIST)
    nodes: list[NodeView] = []
    pods: list[PodView] = []
    others: list[tuple[str, str, Document]] = []
    shared: dict[str, dict[str, Document]] = {}
    for number, item in enumerate(found.items or ()):
        with within(f"items[{number}]"):
            head = decode_as(item, _Head)
            match head.kind or usual:
                case "Node":
                    nodes.append(node_view_of(decode_as(item, NodeObject)))
                case "Pod":
                    pods.append(identified(decode_as(item, PodObject)))
                case kind if kind in SHARED:
                    full = f"{kind}.{head.api_version.partition('/')[0]}"
                    shared.setdefault(full, {})[_full_name(kind, head.metadata)] = decode_as(item, Document)
                case kind if kind in READ:
                    others.append((kind, head.metadata.name, decode_as(item, Document)))
                case kind:
                    raise InputError(f"kind: {kind or 'nothing'!r} is not read here; {', '.join(READ)} are")
    once((node.name for node in nodes), "nodes", "node")
    once((pod.uid for pod in pods), "pods", "UID")
    return Snapshot(
        max((pod.created for pod in pods), default=0.0),
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        objects=_objects(others, [node.name for node in nodes]),
        pods=tuple(sorted(pods, key=lambda pod: pod.uid)),
        shared={kind: dict(sorted(named.items())) for kind, named in sorted(shared.items())},
    )


def identified(pod: PodObject) -> PodView:
    """The view of a pod; one that was never sent to a cluster has no UID, and is known by its name."""
    meta = pod.metadata
    meta.uid = meta.uid or f"{meta.namespace}/{meta.name or meta.generate_name}"
    return view_of(pod)


def _full_name(kind: str, meta: Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if kind == NAMESPACED else meta.name


def _objects(others: Iterable[tuple[str, str, Document]], nodes: Iterable[str]) -> dict[str, dict[str, Document]]:
    """By node and kind; a ConfigMap that is no node's tells nothing of devices."""
    found: dict[str, dict[str, Document]] = {}
    longest_first = sorted(nodes, key=len, reverse=True)
    for kind, name, document in others:
        if kind in OF_A_NODE:
            found.setdefault(name, {})[kind] = document
        elif node := next((node for node in longest_first if name.endswith(f"-{node}")), ""):
            found.setdefault(node, {})[f"{kind}/{name}"] = document
    return found
