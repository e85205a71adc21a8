"""Record of a group's plan, written with the bind of one of its members, and the gate that members of gangs wait behind.

Devices are written by index: 256 members of 8 devices take about 30 KiB, and UUIDs would take three times as much. Nothing
is granted by the record. It reserves devices again after a restart, and only if the node has them and they are free, so
an index that means another device by then is as good as any other.

The webhook adds the scheduling gate to members of gangs, so that kube-scheduler does not try one before its gang is planned.
Gates of other systems, such as Kueue's, are theirs to remove.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.json_fields import Fields, Report, shown, versioned_fields
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = [
    "GATE",
    "GROUP_PLAN",
    "MAX_BYTES",
    "GroupPlan",
    "PlannedContainer",
    "PlannedMember",
    "RecordedPlans",
    "has_other_gates",
    "is_gated",
    "member_bytes",
    "recorded_plans",
    "recorded_text",
]

GROUP_PLAN: Final = "linkwise.dev/group-plan"
VERSION: Final = 1
MAX_BYTES: Final = 96 * 1024
"""of the record; all annotations of a pod together may have 256 KiB"""

_RECORD_FIELDS: Final = frozenset({"version", "pod", "time", "groups"})
_GROUP_FIELDS: Final = frozenset({"generation", "members"})
_MEMBER_FIELDS: Final = frozenset({"node", "containers"})
_CONTAINER_FIELDS: Final = frozenset({"devices", "share", "core"})
GATE: Final = "linkwise.dev/gang"


@dataclass(frozen=True, slots=True)
class PlannedContainer:
    """Devices planned for one container, by index."""

    name: str
    devices: tuple[int, ...]
    share: int = 0
    core: int = 0


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """The placement of one member; without containers if it requests no devices."""

    node: str
    containers: tuple[PlannedContainer, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plan of one group."""

    generation: int
    """number of times that the group was planned"""
    members: Mapping[str, PlannedMember]
    """pending members, by UID"""


@dataclass(frozen=True, slots=True)
class RecordedPlans:
    """The plan of the pod's group, and those of gangs that must start together with it."""

    pod: str
    """UID of the pod that carries the record"""
    time: int  # milliseconds since the epoch
    """when the pod was bound: of two records that overlap, the later one is right"""
    groups: Mapping[str, GroupPlan]
    """by group key"""


def recorded_text(record: RecordedPlans) -> str:
    """The annotation's value: compact JSON; containers in the order of the plan, which a reader of JSON texts keeps."""
    groups = {
        key: {"generation": plan.generation, "members": {uid: _member(member) for uid, member in plan.members.items()}}
        for key, plan in record.groups.items()
    }
    document = {"groups": groups, "pod": record.pod, "time": record.time, "version": VERSION}
    return json.dumps(document, separators=(",", ":"))


def member_bytes(uid: str, member: PlannedMember) -> int:
    """How much longer a record gets by a member."""
    return len(json.dumps({uid: _member(member)}, separators=(",", ":"))) - 1  # a comma for two braces


def recorded_plans(pod: PodView) -> tuple[RecordedPlans | None, tuple[Problem, ...]]:
    """The record on a bound pod, if it is valid."""
    text = pod.annotations.get(GROUP_PLAN)
    return _read(text, pod.uid, where_pod(pod)) if text else (None, ())


def is_gated(pod: PodView) -> bool:
    """Return whether the pod has the gate of gangs."""
    return GATE in pod.gates


def has_other_gates(pod: PodView) -> bool:
    """Return whether the pod has gates of other systems."""
    return any(gate != GATE for gate in pod.gates)


def _member(member: PlannedMember) -> dict[str, object]:
    containers: dict[str, dict[str, object]] = {}
    for part in member.containers:
        amounts = {"share": part.share, "core": part.core}
        containers[part.name] = {"devices": part.devices, **{key: value for key, value in amounts.items() if value}}
    if len(containers) < len(member.containers):
        raise InputError("a plan names one container twice")
    return {**({"containers": containers} if containers else {}), "node": member.node}


@lru_cache(maxsize=64)
def _read(text: str, uid: str, where: str) -> tuple[RecordedPlans | None, tuple[Problem, ...]]:
    """Read a record, once per text: every bind of a member looks whether the plan is on another one."""
    report = Report(where, GROUP_PLAN)
    record = _record(text, uid, report)
    return None if report.broken else record, tuple(report.problems)


def _record(text: str, uid: str, report: Report) -> RecordedPlans | None:
    fields = versioned_fields(text, VERSION, report)
    if fields is None:
        return None
    owner, time = fields.text("pod"), fields.number("time")
    groups = {key: plan for key, entry in fields.named("groups") if (plan := _group(entry))}
    fields.unknown(_RECORD_FIELDS)
    if owner is None or time is None:
        return None
    if owner != uid:
        report.refuse(f"it was made for the pod with UID {shown(owner)}, not for this one; it is ignored")
    return RecordedPlans(owner, time, groups)


def _group(fields: Fields) -> GroupPlan | None:
    generation = fields.number("generation")
    members = {uid: member for uid, entry in fields.named("members") if (member := _read_member(entry))}
    fields.unknown(_GROUP_FIELDS)
    return None if generation is None else GroupPlan(generation, members)


def _read_member(fields: Fields) -> PlannedMember | None:
    node = fields.text("node")
    containers = tuple(
        part
        for name, entry in (fields.named("containers") if "containers" in fields.raw else ())
        if (part := _container(name, entry))
    )
    fields.unknown(_MEMBER_FIELDS)
    return None if node is None else PlannedMember(node, containers)


def _container(name: str, fields: Fields) -> PlannedContainer | None:
    devices, share, core = fields.numbers("devices"), fields.number("share", 0), fields.number("core", 0)
    fields.unknown(_CONTAINER_FIELDS)
    if devices is None or share is None or core is None:
        return None
    if not devices or len(set(devices)) < len(devices):
        fields.report.refuse(f"{fields.path}devices names {'one device twice' if devices else 'no device'}")
    return PlannedContainer(name, devices, share, core)
