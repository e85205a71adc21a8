"""Snapshots as JSON, and placing settings as plain data.

Nodes and pods are Kubernetes objects, in which unknown fields are ignored; in Linkwise's own records and settings they are
errors. The lists that kubectl prints are accepted as snapshots too.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.errors import InputError
from linkwise.model.settings import PlacingSettings
from linkwise.model.snapshot import BrokerState, EffectKept, Snapshot
from linkwise.wire.decoding import check_unique, decode_as, describe_error, within
from linkwise.wire.kubernetes.kubectl_list import LIST, decode_list, identified
from linkwise.wire.kubernetes.metadata import Struct
from linkwise.wire.kubernetes.node import NodeObject, node_view_of
from linkwise.wire.kubernetes.pod import PodObject  # noqa: TC001 - msgspec reads it when it decodes
from linkwise.wire.kubernetes.to_objects import node_object, pod_object
from linkwise.wire.snapshot.group_records import GroupsRecord
from linkwise.wire.snapshot.records import (
    EntryRecord,
    GrantRecord,
    MovedRecord,
    OfferRecord,
    Strict,
    TriedRecord,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.views import PodView

__all__ = ["VERSION", "decode_snapshot", "encode_snapshot", "settings_document", "settings_of"]

VERSION: Final = 1

Document = dict[str, Any]


class _Head(Struct):
    kind: str = ""
    version: int | None = None


class _Object(Strict, frozen=True):
    node: str
    kind: str
    document: Document


class _Shared(Strict, frozen=True):
    kind: str
    name: str
    document: Document


class _Kept(Strict, frozen=True):
    serial: int = 0
    entries: tuple[EntryRecord, ...] = ()
    asked: tuple[str | PodObject, ...] = ()
    unseen: dict[str, float] = msgspec.field(default_factory=dict)
    pending: tuple[OfferRecord, ...] = ()
    offered: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    tried: dict[str, TriedRecord] = msgspec.field(default_factory=dict)
    freed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    woken: dict[str, str] = msgspec.field(default_factory=dict)
    passed: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    left: tuple[str, ...] = ()
    times: dict[str, int] = msgspec.field(default_factory=dict)
    gone: dict[str, bool] = msgspec.field(default_factory=dict)
    changed: dict[str, GrantRecord] = msgspec.field(default_factory=dict)
    moved: dict[str, MovedRecord] = msgspec.field(default_factory=dict)
    late: tuple[dict[str, str], ...] = ()
    groups: GroupsRecord = GroupsRecord()


class _Snapshot(Strict, frozen=True):
    version: int
    now: float = 0.0
    settings: Document = msgspec.field(default_factory=dict)
    nodes: tuple[NodeObject, ...] = ()
    objects: tuple[_Object, ...] = ()
    pods: tuple[PodObject, ...] = ()
    kept: _Kept | None = None
    shared: tuple[_Shared, ...] = ()


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot; equal snapshots give equal bytes."""
    document: Document = {
        "version": VERSION,
        "now": snapshot.now,
        "settings": settings_document(snapshot.settings),
        "nodes": [node_object(view) for view in snapshot.nodes],
        "objects": [
            {"node": node, "kind": kind, "document": document}
            for node, objects in snapshot.objects.items()
            for kind, document in objects.items()
        ],
        "pods": [pod_object(view) for view in snapshot.pods],
    }
    if snapshot.shared:
        document["shared"] = [
            {"kind": kind, "name": name, "document": document}
            for kind, named in snapshot.shared.items()
            for name, document in named.items()
        ]
    if snapshot.kept is not None:
        document["kept"] = _kept_document(snapshot.kept, snapshot.pods)
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode_snapshot(data: bytes) -> Snapshot:
    """Decode a snapshot or a list of Kubernetes objects; InputError names the invalid field."""
    head = decode_as(data, _Head)
    if head.kind.endswith(LIST):
        return decode_list(data)
    if head.version is None:
        raise InputError("version: missing; expected a Linkwise snapshot, or a List as printed by kubectl")
    if head.version != VERSION:
        raise InputError(f"version: {head.version} is not supported; this Linkwise reads version {VERSION}")
    decoded = decode_as(data, _Snapshot)
    pods = _pods(decoded.pods, "pods")
    check_unique((node.metadata.name for node in decoded.nodes), "nodes", "node")
    check_unique((f"{entry.kind} of {entry.node}" for entry in decoded.objects), "objects", "the")
    check_unique((f"{entry.kind} {entry.name}" for entry in decoded.shared), "shared", "the")
    with within("settings"):
        settings = settings_of(decoded.settings)
    objects: dict[str, dict[str, Document]] = {}
    for entry in decoded.objects:
        objects.setdefault(entry.node, {})[entry.kind] = entry.document
    shared: dict[str, dict[str, Document]] = {}
    for other in decoded.shared:
        shared.setdefault(other.kind, {})[other.name] = other.document
    return Snapshot(
        decoded.now,
        settings,
        tuple(map(node_view_of, decoded.nodes)),
        objects,
        pods,
        _kept(decoded.kept, pods) if decoded.kept else None,
        shared,
    )


def _kept_document(kept: BrokerState, pods: Sequence[PodView]) -> Document:
    """The broker's state; a scheduled pod that equals one of the watched pods is written as its UID alone."""
    seen = {pod.uid: pod for pod in pods}
    asked = [pod.uid if seen.get(pod.uid) == pod else pod_object(pod) for pod in kept.asked]
    groups = written(GroupsRecord.of(kept.groups))
    return {
        "serial": kept.serial,
        "entries": [written(EntryRecord.of(entry)) for entry in kept.entries],
        "asked": asked,
        "unseen": dict(kept.unseen),
        "pending": [written(OfferRecord.of(offer)) for offer in kept.pending],
        "offered": dict(kept.offered),
        "tried": {pod: written(TriedRecord.of(tried)) for pod, tried in kept.tried.items()},
        "freed": kept.freed,
        "refused": kept.refused,
        "woken": kept.woken,
        "passed": kept.passed,
        "left": kept.left,
        "times": dict(kept.times),
        "gone": dict(kept.gone),
        "changed": {pod: written(GrantRecord.of(grant)) for pod, grant in kept.changed.items()},
        "moved": {pod: written(MovedRecord(seen, promised)) for pod, (seen, promised) in kept.moved.items()},
        "late": [{"effect": late.effect, **late.fields} for late in kept.late],
        **({"groups": groups} if groups else {}),
    }


def _kept(record: _Kept, pods: Sequence[PodView]) -> BrokerState:
    asked = _asked(record.asked, pods)
    check_unique((entry.grant.pod for entry in record.entries), "kept.entries", "the entry of pod")
    check_unique((plan.group for plan in record.groups.plans), "kept.groups.plans", "the plan of group")
    return BrokerState(
        entries=tuple(entry.value() for entry in record.entries),
        serial=record.serial,
        asked=asked,
        unseen=record.unseen,
        pending=tuple(offer.value() for offer in record.pending),
        offered=record.offered,
        tried={pod: tried.value() for pod, tried in record.tried.items()},
        freed=record.freed,
        refused=record.refused,
        woken=record.woken,
        passed=record.passed,
        left=record.left,
        times=record.times,
        gone=record.gone,
        changed={pod: grant.value() for pod, grant in record.changed.items()},
        moved={pod: (moved.seen, moved.promised) for pod, moved in record.moved.items()},
        late=tuple(EffectKept(late.pop("effect", ""), late) for late in record.late),
        groups=record.groups.value(),
    )


def _asked(entries: Sequence[str | PodObject], pods: Sequence[PodView]) -> tuple[PodView, ...]:
    seen = {pod.uid: pod for pod in pods}
    asked = []
    for number, entry in enumerate(entries):
        if isinstance(entry, str) and entry not in seen:
            raise InputError(f"kept.asked[{number}]: no pod has the UID {entry!r}")
        with within(f"kept.asked[{number}]"):
            asked.append(seen[entry] if isinstance(entry, str) else identified(entry))
    check_unique((pod.uid for pod in asked), "kept.asked", "the pod with UID")
    return tuple(asked)


def _pods(objects: Sequence[PodObject], place: str) -> tuple[PodView, ...]:
    pods = []
    for number, pod in enumerate(objects):
        with within(f"{place}[{number}]"):
            pods.append(identified(pod))
    check_unique((pod.uid for pod in pods), place, "the pod with UID")
    return tuple(pods)


def settings_document(settings: PlacingSettings) -> dict[str, Any]:
    """All placing settings as plain data."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    return document


def settings_of(raw: object) -> PlacingSettings:
    """The placing settings of a document, with defaults for missing ones; InputError names the invalid one."""
    _known(raw, PlacingSettings())
    try:
        return msgspec.convert(raw, PlacingSettings)
    except msgspec.ValidationError as error:
        raise InputError(describe_error(error)) from error


def _known(raw: object, settings: object, place: str = "") -> None:
    """Raise InputError for unknown settings."""
    if not is_dataclass(settings) or not isinstance(raw, dict):
        return
    names = {field.name for field in fields(settings)}
    for name, value in raw.items():
        if name not in names:
            raise InputError(f"{place}{name}: unknown setting; the settings are {', '.join(sorted(names))}")
        _known(value, getattr(settings, name), f"{place}{name}.")
