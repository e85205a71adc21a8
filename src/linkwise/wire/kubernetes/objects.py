"""Kubernetes objects, as JSON or as YAML readers give them, turned into the views that Linkwise reads.

JSON is decoded straight into the fields that are read: nothing else of it is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import plain_words
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
    """A part of a list."""

    items: list[T]
    version: str = ""
    """of the list: a watch goes on from here"""
    rest: str = ""
    """asks for the next page; empty on the last one"""


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
    """The view of a pod, or of a pod template; InputError names the field that is wrong."""
    return view_of(_convert(document, PodObject))


def node_view(document: object) -> NodeView:
    """The view of a node; InputError names the field that is wrong."""
    return node_view_of(_convert(document, NodeObject))


def decode_pod(data: bytes) -> PodView:
    """The view of a pod in JSON; InputError names the field that is wrong."""
    return view_of(_decode(_POD, data))


def decode_node(data: bytes) -> NodeView:
    """The same for a node."""
    return node_view_of(_decode(_NODE, data))


def decode_pods(data: bytes) -> list[PodView]:
    """The views of a list of pods in JSON."""
    return decode_pod_page(data).items


def decode_nodes(data: bytes) -> list[NodeView]:
    """The same for nodes."""
    return decode_node_page(data).items


def decode_pod_page(data: bytes) -> Page[PodView]:
    """The same, with what the list tells of itself."""
    found = _decode(_PODS, data)
    return _page([view_of(pod) for pod in found.items or ()], found.metadata)


def decode_node_page(data: bytes) -> Page[NodeView]:
    """The same for nodes."""
    found = _decode(_NODES, data)
    return _page([node_view_of(node) for node in found.items or ()], found.metadata)


def _page(items: list[T], meta: _ListMeta | None) -> Page[T]:
    return Page(items, meta.resource_version or "", meta.rest or "") if meta else Page(items)


def _convert(document: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise InputError(plain_words(error)) from error


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """JSON can also be cut off, be no UTF-8, or be nested without end."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise InputError(plain_words(error)) from error
    except UnicodeDecodeError as error:
        raise InputError("the JSON is no UTF-8") from error
    except RecursionError as error:
        raise InputError("the JSON is nested too deep") from error
