"""Pods of Volcano's scheduler: those whose node and devices are on the pod are bound as Volcano binds.

Volcano asks its extender whether the task fits on the node, and announces the allocation; then it binds with its own copy of the
pod's annotations, so the devices on the pod stay as they are. A pod without devices, as without the gates of the webhook, is
placed by filter and bind like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from linkwise.embedded.scheduler.extender_client import Extender
    from linkwise.embedded.storage.collection import Stored
    from linkwise.model.views import NodeTerm, PodView

__all__ = ["VOLCANO", "VolcanoExtender", "is_planned"]

VOLCANO: Final = "volcano"
"""name of the scheduler"""
_NODE_NAME: Final = "metadata.name"
_PENDING, _ALLOCATED, _RELEASING = 1, 2, 64
"""status of a task"""


class _Reply(msgspec.Struct, rename="camel"):
    status: str | None = None
    error_message: str = ""


_DECODER: Final = msgspec.json.Decoder(_Reply)


class VolcanoExtender:
    """The verbs of Volcano's extender plugin that this scheduler uses; ClusterError if a call fails."""

    def __init__(self, extender: Extender) -> None:
        self._extender = extender

    async def allocate(self, pod: Stored, node: str) -> str:
        """Ask whether a pod fits on a node and announce that it is allocated there; returns the reason if it can't be."""
        fits = await self._call("predicate", _task(pod, "", _PENDING), node)
        if fits.status:
            return fits.status
        return (await self._call("allocateFunc", _task(pod, node, _ALLOCATED))).error_message

    async def deallocate(self, pod: Stored, node: str) -> None:
        """Announce that a pod is not bound after all."""
        await self._call("deallocateFunc", _task(pod, node, _RELEASING))

    async def _call(self, verb: str, task: dict[str, object], node: str = "") -> _Reply:
        body: dict[str, object] = {"task": task, **({"node": {"Name": node}} if node else {})}
        answer = await self._extender.post(f"volcano/{verb}", msgspec.json.encode(body))
        try:
            return _DECODER.decode(answer)
        except msgspec.DecodeError as error:
            raise ClusterError(f"invalid response from the extender: {error}") from error


def _task(pod: Stored, node: str, status: int) -> dict[str, object]:
    return {
        "UID": pod.uid,
        "Name": pod.name,
        "Namespace": pod.namespace,
        "NodeName": node,
        "Status": status,
        "Pod": msgspec.Raw(pod.data),
    }


def is_planned(pod: PodView) -> bool:
    """Whether a pod of Volcano's scheduler carries its devices and is pinned to one node by required node affinity."""
    return pod.scheduler == VOLCANO and bool(pod.annotations.get(GRANT)) and len(_pinned_to(pod)) == 1


def _pinned_to(pod: PodView) -> set[str]:
    """The nodes that the affinity names; empty if one of its terms names none."""
    named = [_named(term) for term in pod.affinity or ()]
    return set().union(*named) if all(named) else set()


def _named(term: NodeTerm) -> set[str]:
    values = (set(field.values) for field in term.fields if field.key == _NODE_NAME and field.operator == "In")
    return next(values, set())
