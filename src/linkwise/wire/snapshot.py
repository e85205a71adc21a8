"""Snapshots as JSON, placing settings as plain data, and output of `kubectl get nodes,pods -A -o json` as a snapshot.

Nodes and pods are Kubernetes objects, in which unknown fields are ignored. The broker's state and the settings are records,
in which they are errors. The lists that kubectl prints are accepted as snapshots too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from linkwise.errors import InputError
from linkwise.model.settings import PlacingSettings
from linkwise.model.snapshot import Snapshot
from linkwise.model.views import PodView
from linkwise.wire.decoding import check_unique, convert_to, decode_as, within
from linkwise.wire.kubernetes.metadata import Meta, Struct
from linkwise.wire.kubernetes.objects import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.pod_view import view_of
from linkwise.wire.kubernetes.to_objects import node_object, pod_object
from linkwise.wire.records import Form, RecordCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.views import NodeView

__all__ = [
    "LIST",
    "READ",
    "VERSION",
    "decode_list",
    "decode_snapshot",
    "encode_snapshot",
    "identified",
    "settings_document",
    "settings_of",
]

VERSION: Final = 3

S = TypeVar("S")

Document = dict[str, Any]
_SETTINGS: Final = RecordCodec()
_ENCODE: Final = msgspec.json.Encoder().encode
LIST: Final = "List"
"""suffix of list kinds"""
OF_A_NODE: Final = ("DeviceInventory", "Device", "NodeResourceTopology")
"""kinds named after their node"""
CONFIG: Final = "ConfigMap"
"""the kind whose names end with the node's"""
NAMESPACED: Final = ("PodGroup", "ResourceClaim")
SHARED: Final = (
    *NAMESPACED,
    *("Topology", "HyperNode", "ClusterNetworkTopology", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
    *("AcceleratorPolicy", "Namespace"),
)
"""kinds about pod groups, the network, devices that claims allocate, and access"""
READ: Final = ("Node", "Pod", *OF_A_NODE, CONFIG, *SHARED)


class _Head(Struct):
    kind: str = ""
    version: int | None = None


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    version: int
    now: float = 0.0
    settings: Document = msgspec.field(default_factory=dict)
    nodes: tuple[NodeObject, ...] = ()
    objects: dict[str, dict[str, Document]] = msgspec.field(default_factory=dict)
    pods: tuple[PodObject, ...] = ()
    shared: dict[str, dict[str, Document]] = msgspec.field(default_factory=dict)
    state: Document | None = None


def encode_snapshot(snapshot: Snapshot[Any]) -> bytes:
    """Encode a snapshot; equal snapshots give equal bytes.

    Objects and records are encoded one by one, each on a line of its own. All at once they would keep other threads waiting,
    and the garbage collector busy.
    """
    parts: dict[str, object] = {
        "version": VERSION,
        "now": snapshot.now,
        "settings": settings_document(snapshot.settings),
        "nodes": map(node_object, snapshot.nodes),
        "objects": snapshot.objects,
        "pods": map(pod_object, snapshot.pods),
        "shared": snapshot.shared,
    }
    if snapshot.state is not None:
        parts["state"] = msgspec.Raw(_lines(_codec(snapshot.pods).encode_fields(snapshot.state)))
    return _lines(parts) + b"\n"


def decode_snapshot(data: bytes, state: type[S]) -> Snapshot[S]:
    """Decode a snapshot with that type of state, or a list of Kubernetes objects; InputError names the invalid field."""
    head = decode_as(data, _Head)
    if head.kind.endswith(LIST):
        return decode_list(data)
    if head.version is None:
        raise InputError("version: missing; expected a Linkwise snapshot, or a List as printed by kubectl")
    if head.version != VERSION:
        raise InputError(
            f"version: {head.version} is not supported; this Linkwise reads version {VERSION}: take the snapshot again, "
            "or read it with the Linkwise that took it"
        )
    decoded = decode_as(data, _Snapshot)
    with within("settings"):
        settings = settings_of(decoded.settings)
    check_unique((node.metadata.name for node in decoded.nodes), "nodes", "node")
    pods = _pods(decoded.pods)
    nodes = tuple(map(node_view_of, decoded.nodes))
    decoded_state = None if decoded.state is None else _codec(pods).decode(decoded.state, state, "state")
    return Snapshot(decoded.now, settings, nodes, decoded.objects, pods, decoded.shared, decoded_state)


def settings_document(settings: PlacingSettings) -> dict[str, Any]:
    """All placing settings as plain data, those with their default value too: a later version may have another."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    return document


def settings_of(raw: object) -> PlacingSettings:
    """The placing settings of a document, with defaults for missing ones; InputError names the invalid one."""
    return _SETTINGS.decode(raw, PlacingSettings)


class _ListHead(Struct):
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
            head = decode_as(item, _ListHead)
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


def _lines(parts: Mapping[str, object]) -> bytes:
    """An object; the values in each list and object of it are on lines of their own."""
    return _joined(b"{", (_ENCODE(name) + b": " + _part(part) for name, part in parts.items()), b"}")


def _joined(start: bytes, lines: Iterable[bytes], end: bytes) -> bytes:
    inner = b",\n".join(lines)
    return start + b"\n" + inner + b"\n" + end if inner else start + end


def _part(part: object) -> bytes:
    match part:
        case dict():
            return _joined(b"{", (_ENCODE(key) + b": " + _ENCODE(each) for key, each in part.items()), b"}")
        case Iterator():
            return _joined(b"[", map(_ENCODE, part), b"]")
        case _:
            return _ENCODE(part)


def _codec(pods: Iterable[PodView]) -> RecordCodec:
    """The codec of the broker's state; a pod that equals the observed one is written as its UID alone."""
    observed = {pod.uid: pod for pod in pods}

    def encode(pod: PodView) -> object:
        return pod.uid if observed.get(pod.uid) == pod else pod_object(pod)

    def decode(data: object) -> PodView:
        if not isinstance(data, str):
            return identified(convert_to(data, PodObject))
        if data not in observed:
            raise InputError(f"no pod has the UID {data!r}")
        return observed[data]

    return RecordCodec({PodView: Form(encode, decode)})


def _pods(objects: Sequence[PodObject]) -> tuple[PodView, ...]:
    pods = []
    for number, pod in enumerate(objects):
        with within(f"pods[{number}]"):
            pods.append(identified(pod))
    check_unique((pod.uid for pod in pods), "pods", "the pod with UID")
    return tuple(pods)


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
