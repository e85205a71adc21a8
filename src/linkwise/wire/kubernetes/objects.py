"""Pods and nodes, from JSON or parsed YAML, decoded into views, also from a pod whose object is invalid.

JSON is decoded directly into the fields that Linkwise reads; no other part of an object is ever allocated.

Ignoring an invalid pod that is bound would make its devices look free, and they would be allocated twice. Fields that only
matter for scheduling are dropped, because the pod is bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.model.views import NodeView, Taint
from linkwise.wire.decoding import convert_to, decode_as, decode_with
from linkwise.wire.kubernetes.metadata import Amounts, Meta, Struct, annotations_of, one, texts, version
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.pod_view import view_of

if TYPE_CHECKING:
    from linkwise.model.views import PodView


__all__ = [
    "NodeObject",
    "Page",
    "PodObject",
    "decode_node",
    "decode_node_page",
    "decode_pod",
    "decode_pod_page",
    "node_view",
    "node_view_of",
    "pod_view",
    "salvaged_pod",
    "view_of",
]

T = TypeVar("T")
_POD: Final = msgspec.json.Decoder(PodObject)
Document = dict[str, Any]
_NAMES: Final = ("name", "namespace", "uid", "resourceVersion")
_CREATED: Final = "creationTimestamp"
_CONTAINERS: Final = ("initContainers", "containers")


class NodeTaint(Struct):
    """A taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeSpec(Struct):
    """Spec of a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class Condition(Struct):
    """A node condition; its status is True, False or Unknown."""

    type: str = ""
    status: str = ""


class Address(Struct):
    """An address of a node; its type is InternalIP, ExternalIP or Hostname."""

    type: str = ""
    address: str = ""


class NodeInfo(Struct):
    """Software of a node."""

    container_runtime_version: str = msgspec.field(default="", name="containerRuntimeVersion")


class NodeStatus(Struct):
    """Status of a node."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    node_info: NodeInfo = msgspec.field(default_factory=NodeInfo, name="nodeInfo")


class NodeObject(Struct):
    """A node."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def node_view_of(node: NodeObject) -> NodeView:
    """The view of a node."""
    ready = [condition.status for condition in node.status.conditions or () if condition.type == "Ready"]
    return NodeView(
        name=node.metadata.name,
        labels={one(key): one(value) for key, value in (node.metadata.labels or {}).items()},
        annotations=annotations_of(node.metadata),
        capacity=texts(node.status.capacity),
        allocatable=texts(node.status.allocatable),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
        ready=ready not in (["False"], ["Unknown"]),
        version=version(node.metadata),
        runtime=one(node.status.node_info.container_runtime_version),
        address=next((each.address for each in node.status.addresses or () if each.type == "InternalIP"), ""),
    )


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: list[T]
    version: str = ""
    """resourceVersion of the list, to watch from"""
    rest: str = ""
    """continue token; empty on the last page"""


class _ListMeta(Struct):
    resource_version: str | None = None
    rest: str | None = msgspec.field(default=None, name="continue")


class _PodList(Struct):
    metadata: _ListMeta | None = None
    items: list[PodObject] | None = None


class _NodeList(Struct):
    metadata: _ListMeta | None = None
    items: list[NodeObject] | None = None


_PODS: Final = msgspec.json.Decoder(_PodList)


_NODE: Final = msgspec.json.Decoder(NodeObject)


_NODES: Final = msgspec.json.Decoder(_NodeList)


def pod_view(document: object) -> PodView:
    """The view of a pod or pod template; InputError names the invalid field."""
    return view_of(convert_to(document, PodObject))


def node_view(document: object) -> NodeView:
    """The view of a node; InputError names the invalid field."""
    return node_view_of(convert_to(document, NodeObject))


def decode_pod(data: bytes) -> PodView:
    """The view of a pod in JSON; InputError names the invalid field."""
    return view_of(decode_with(_POD, data))


def decode_node(data: bytes) -> NodeView:
    """The view of a node in JSON; InputError names the invalid field."""
    return node_view_of(decode_with(_NODE, data))


def decode_pod_page(data: bytes) -> Page[PodView]:
    """One page of a PodList."""
    pods = decode_with(_PODS, data)
    return _page([view_of(pod) for pod in pods.items or ()], pods.metadata)


def decode_node_page(data: bytes) -> Page[NodeView]:
    """One page of a NodeList."""
    nodes = decode_with(_NODES, data)
    return _page([node_view_of(node) for node in nodes.items or ()], nodes.metadata)


def _page(items: list[T], meta: _ListMeta | None) -> Page[T]:
    return Page(items, meta.resource_version or "", meta.rest or "") if meta else Page(items)


def salvaged_pod(data: bytes | msgspec.Raw) -> PodView | None:
    """The view of a bound pod from its valid fields; None if it is not bound or has no valid UID.

    It never counts as being deleted, and always as started, since its container statuses may be what is invalid.
    """
    try:
        document = decode_as(data, Document)
    except InputError:
        return None
    meta, spec, status = _part(document, "metadata"), _part(document, "spec"), _part(document, "status")
    if not isinstance(meta.get("uid"), str) or not isinstance(spec.get("nodeName"), str) or not spec["nodeName"]:
        return None
    metadata: Document = {key: meta[key] for key in (*_NAMES, _CREATED) if isinstance(meta.get(key), str)}
    for field in ("annotations", "labels"):
        metadata[field] = {key: value for key, value in _part(meta, field).items() if isinstance(value, str)}
    bound: Document = {"nodeName": spec["nodeName"]} | {name: _containers(spec.get(name)) for name in _CONTAINERS}
    running: Document = {"phase": status["phase"]} if isinstance(status.get("phase"), str) else {}
    running["containerStatuses"] = [{"state": {"running": {}}}]
    try:
        return pod_view({"metadata": metadata, "spec": bound, "status": running})
    except InputError:
        del metadata[_CREATED]  # the only field left that can be invalid; the pod counts as old
        return pod_view({"metadata": metadata, "spec": bound, "status": running})


def _part(document: Document, name: str) -> Document:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _containers(value: object) -> list[Document]:
    """Names and amounts of containers; invalid amounts are kept as text, so that the dialects report them."""
    entries = [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
    return [_container(entry) for entry in entries]


def _container(entry: Document) -> Document:
    resources = _part(entry, "resources")
    amounts = {kind: {name: _text(value) for name, value in _part(resources, kind).items()} for kind in resources}
    container: Document = {"resources": {kind: amounts[kind] for kind in ("requests", "limits") if kind in amounts}}
    return container | {key: entry[key] for key in ("name", "restartPolicy") if isinstance(entry.get(key), str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)[:40]
