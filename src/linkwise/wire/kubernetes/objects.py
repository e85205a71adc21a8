"""Pods and nodes, from JSON or parsed YAML, decoded into views.

JSON is decoded directly into the fields that Linkwise reads; no other part of an object is ever allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from linkwise.wire.decoding import convert_to, decode_with
from linkwise.wire.kubernetes.metadata import Struct
from linkwise.wire.kubernetes.node import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.pod_view import view_of

if TYPE_CHECKING:
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "NodeObject",
    "Page",
    "PodObject",
    "decode_node",
    "decode_node_page",
    "decode_nodes",
    "decode_pod",
    "decode_pod_page",
    "decode_pods",
    "node_view",
    "node_view_of",
    "pod_view",
    "view_of",
]

T = TypeVar("T")


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


_POD: Final = msgspec.json.Decoder(PodObject)
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


def decode_pods(data: bytes) -> list[PodView]:
    """The views of a PodList in JSON."""
    return decode_pod_page(data).items


def decode_nodes(data: bytes) -> list[NodeView]:
    """The views of a NodeList in JSON."""
    return decode_node_page(data).items


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
