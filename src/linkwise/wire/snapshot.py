"""Snapshots as JSON, and placing settings as plain data.

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
from linkwise.wire.kubernetes.kubectl_list import LIST, decode_list, identified
from linkwise.wire.kubernetes.metadata import Struct
from linkwise.wire.kubernetes.node import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject
from linkwise.wire.kubernetes.to_objects import node_object, pod_object
from linkwise.wire.records import Form, RecordCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["VERSION", "decode_snapshot", "encode_snapshot", "settings_document", "settings_of"]

VERSION: Final = 2

S = TypeVar("S")

Document = dict[str, Any]
_SETTINGS: Final = RecordCodec()
_ENCODE: Final = msgspec.json.Encoder().encode


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


def _lines(parts: Mapping[str, object]) -> bytes:
    """An object; the values in each list and object of it are on lines of their own."""
    return _joined(b"{", (_ENCODE(name) + b": " + _part(part) for name, part in parts.items()), b"}")


def _part(part: object) -> bytes:
    match part:
        case dict():
            return _joined(b"{", (_ENCODE(key) + b": " + _ENCODE(each) for key, each in part.items()), b"}")
        case Iterator():
            return _joined(b"[", map(_ENCODE, part), b"]")
        case _:
            return _ENCODE(part)


def _joined(start: bytes, lines: Iterable[bytes], end: bytes) -> bytes:
    inner = b",\n".join(lines)
    return start + b"\n" + inner + b"\n" + end if inner else start + end


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


def settings_document(settings: PlacingSettings) -> dict[str, Any]:
    """All placing settings as plain data, those with their default value too: a later version may have another."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    return document


def settings_of(raw: object) -> PlacingSettings:
    """The placing settings of a document, with defaults for missing ones; InputError names the invalid one."""
    return _SETTINGS.decode(raw, PlacingSettings)
