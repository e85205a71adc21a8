"""Annotations of a grant: what is written on a pod when it gets its node, by a bind of ours or after that of another scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.groups.plan_annotations import plan_annotation
from linkwise.broker.groups.siblings import visible_to
from linkwise.dialects.dialect import Writing

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import PodView

__all__ = ["grant_annotations"]


def grant_annotations(state: State, pod: PodView, entry: Entry, now: float) -> dict[str, str]:
    """Return all keys that record the devices of an entry on its pod, with the plan of its group if it has one."""
    devices = {device.id: device for device in state.cluster.index.nodes[entry.node].devices}
    # rule 004.record, 001.record: node and all keys are written in one request.
    grouped = pod.uid in state.groups.key_by_pod
    visible = visible_to(state, pod.uid, entry.node) if grouped else ()
    writing = Writing(pod, entry.grant, devices, 0, visible, entry.decision)
    dialect = state.request(pod).dialect
    keys = state.writer.annotations(writing, dialect, now) if entry.unrecorded_ask is None else {}
    if entry.grant.plan:
        keys |= plan_annotation(state, pod, keys, now)
    return keys
