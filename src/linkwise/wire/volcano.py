"""Messages of Volcano's extender plugin: lower camel case outside, Go field names inside, Kubernetes objects within.

Source: volcano-sh/volcano, pkg/scheduler/plugins/extender, versions 1.6 to 1.16. A predicate carries the complete node with
all of its tasks; of that only the name is read, and the rest is skipped without building objects. Unknown keys are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from linkwise.wire.decoding import check_values, decode_with
from linkwise.wire.kubernetes.objects import decode_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.model.views import PodView

__all__ = [
    "EvictArgs",
    "JobArgs",
    "JobInfo",
    "NodeInfo",
    "PredicateReply",
    "PrioritizeArgs",
    "TaskArgs",
    "TaskInfo",
    "decode_evict",
    "decode_job",
    "decode_prioritize",
    "decode_task",
    "enqueue_reply",
    "error_reply",
    "keys_of",
    "overused_reply",
    "predicate_reply",
    "ready_reply",
    "scores_reply",
    "victims_reply",
]

PredicateReply = Literal["string", "list"]
"""the shape of `status` in the reply of predicate: a string, or a list as Volcano 1.8 and 1.9 expect"""
T = TypeVar("T")
PIPELINED: Final = 4
"""status of a task for which some of its resources are still in use by pods that are leaving"""
_NULL: Final = msgspec.Raw(b"null")
_MISSING: Final = msgspec.Raw()
_Number = int | float


class _Go(msgspec.Struct):
    """Unknown fields are ignored."""


class TaskInfo(_Go):
    """A pod in Volcano's session."""

    uid: str = msgspec.field(name="UID", default="")
    name: str = msgspec.field(name="Name", default="")
    namespace: str = msgspec.field(name="Namespace", default="")
    role: str | None = msgspec.field(name="TaskRole", default="")
    node: str | None = msgspec.field(name="NodeName", default="")
    status: _Number | None = msgspec.field(name="Status", default=0)
    pod: msgspec.Raw = msgspec.field(name="Pod", default=_NULL)
    annotations: dict[str, str] | None = msgspec.field(name="PodAnnotations", default=None)

    @property
    def pipelined(self) -> bool:
        """Whether it waits for pods that are leaving."""
        return self.status == PIPELINED

    def view(self) -> PodView | None:
        """The pod, without the node that Volcano has set in its own copy; None if the task has none.

        Raises:
            InputError: the pod can't be read.
        """
        if memoryview(self.pod) == memoryview(_NULL):
            return None
        view = decode_pod(bytes(self.pod))
        annotations = {**view.annotations, **self.annotations} if self.annotations else view.annotations
        return replace(view, uid=view.uid or self.uid, node="", annotations=annotations)


class NodeInfo(_Go):
    """A node in Volcano's session; the rest of it is skipped."""

    title: str | None = msgspec.field(name="Name", default=None)
    lower: str | None = msgspec.field(name="name", default=None)

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.title or self.lower or ""


class TaskArgs(_Go):
    """Arguments of predicate, allocateFunc and deallocateFunc."""

    task: TaskInfo | None = None
    node: NodeInfo | None = None


class PrioritizeArgs(_Go):
    """Arguments of prioritize."""

    task: TaskInfo | None = None
    nodes: list[NodeInfo | None] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the nodes, each once."""
        return list(dict.fromkeys(node.name for node in self.nodes or () if node and node.name))


class EvictArgs(_Go):
    """Arguments of preemptable and reclaimable; the evictees as they were sent."""

    evictor: TaskInfo | None = None
    evictees: list[msgspec.Raw] | None = None

    def by_uid(self) -> dict[str, msgspec.Raw]:
        """The evictees by UID."""
        pods = ((decode_with(_UID, raw), raw) for raw in self.evictees or ())
        return {task.uid: raw for task, raw in pods if task and task.uid}


class _Evictee(_Go):
    uid: str = msgspec.field(name="UID", default="")


class _Minimum(_Go):
    """The spec of a PodGroup, with the names of version 1.8 and later, and those of Go structs before."""

    min_resources: dict[str, str | _Number] | None = msgspec.field(name="minResources", default=None)
    min_task_member: dict[str, _Number] | None = msgspec.field(name="minTaskMember", default=None)
    go_resources: dict[str, str | _Number] | None = msgspec.field(name="MinResources", default=None)
    go_task_member: dict[str, _Number] | None = msgspec.field(name="MinTaskMember", default=None)


class _PodGroup(_Go):
    spec: _Minimum | None = None
    go_spec: _Minimum | None = msgspec.field(name="Spec", default=None)


class JobInfo(_Go):
    """A job in Volcano's session."""

    uid: str = msgspec.field(name="UID", default="")
    group_uid: str = msgspec.field(name="PgUID", default="")
    name: str = msgspec.field(name="Name", default="")
    namespace: str = msgspec.field(name="Namespace", default="")
    tasks: dict[str, TaskInfo | None] | None = msgspec.field(name="Tasks", default=None)
    group: _PodGroup | None = msgspec.field(name="PodGroup", default=None)

    @property
    def _minimum(self) -> _Minimum:
        group = self.group or _PodGroup()
        return group.spec or group.go_spec or _Minimum()

    @property
    def resources(self) -> dict[str, str]:
        """What the pods request together that must start together; empty if the PodGroup does not say."""
        amounts = self._minimum.min_resources or self._minimum.go_resources or {}
        return {name: str(amount) for name, amount in amounts.items()}

    @property
    def members(self) -> dict[str, int]:
        """By task, how many pods must start together."""
        counts = self._minimum.min_task_member or self._minimum.go_task_member or {}
        return {task: int(count) for task, count in counts.items() if 0 < count < 1 << 31}


class JobArgs(_Go):
    """Arguments of jobEnqueueable and jobReady."""

    job: JobInfo | None = None


class _Keys(_Go):
    """Which verb a body is for, where the path does not say it."""

    task: msgspec.Raw = _MISSING
    node: msgspec.Raw = _MISSING
    nodes: msgspec.Raw = _MISSING
    job: msgspec.Raw = _MISSING
    queue: msgspec.Raw = _MISSING
    evictor: msgspec.Raw = _MISSING


_TASK: Final = msgspec.json.Decoder(TaskArgs)
_PRIORITIZE: Final = msgspec.json.Decoder(PrioritizeArgs)
_EVICT: Final = msgspec.json.Decoder(EvictArgs)
_JOB: Final = msgspec.json.Decoder(JobArgs)
_UID: Final = msgspec.json.Decoder(_Evictee | None)
_KEYS: Final = msgspec.json.Decoder(_Keys)
_encode: Final = msgspec.json.Encoder().encode


def decode_task(data: bytes) -> TaskArgs:
    """Arguments of predicate, allocateFunc or deallocateFunc; InputError names the invalid field."""
    return _decode(_TASK, data)


def decode_prioritize(data: bytes) -> PrioritizeArgs:
    """Arguments of prioritize."""
    return _decode(_PRIORITIZE, data)


def decode_evict(data: bytes) -> EvictArgs:
    """Arguments of preemptable or reclaimable."""
    return _decode(_EVICT, data)


def decode_job(data: bytes) -> JobArgs:
    """Arguments of jobEnqueueable or jobReady."""
    return _decode(_JOB, data)


def keys_of(data: bytes) -> frozenset[str]:
    """The keys of a body by which its verb is known: task, node, nodes, job, queue, evictor."""
    keys = _decode(_KEYS, data)
    return frozenset(name for name in _Keys.__struct_fields__ if bytes(getattr(keys, name)))


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    check_values(data)
    return decode_with(decoder, data)


def predicate_reply(code: int, reason: str, shape: PredicateReply) -> bytes:
    """Whether a node fits, for every version: an empty reason fits.

    Versions 1.6 and 1.7 read errorMessage, later ones status; 1.8 and 1.9 read a list there.
    """
    status: object = None
    if reason:
        status = [{"Code": code, "Reason": reason}] if shape == "list" else reason
    return _encode({"errorMessage": reason, "status": status, "code": code})


def scores_reply(scores: Mapping[str, float], error: str = "") -> bytes:
    """A score per node; never null, which Volcano takes for an error."""
    return _encode({"nodeScore": scores, "errorMessage": error})


def victims_reply(verdict: int, evictees: Mapping[str, msgspec.Raw], uids: Collection[str]) -> bytes:
    """A verdict, and those evictees that must go, byte for byte as they were sent."""
    return _encode({"status": verdict, "victims": [raw for uid, raw in evictees.items() if uid in uids]})


def enqueue_reply(verdict: int) -> bytes:
    """1 to permit, 0 to abstain, -1 to reject."""
    return _encode({"status": verdict})


def ready_reply(ready: bool) -> bytes:  # noqa: FBT001 - the value itself
    """Whether a job is ready to be bound."""
    return _encode({"status": ready})


def overused_reply(overused: bool) -> bytes:  # noqa: FBT001 - the value itself
    """Whether a queue has used up its share."""
    return _encode({"overused": overused})


def error_reply(error: str) -> bytes:
    """Why devices could not be booked; empty if they are."""
    return _encode({"errorMessage": error})
