"""Records of planned devices on pods of Volcano: written with the plan, because Volcano binds without asking for them.

A Binding of Volcano has the annotations of the pod as Volcano last saw it, and the API server writes these over newer ones.
So a record is written once per plan, and cleared before another one is written: a key that Volcano's copy lacks survives.
Source: contract volcano-extender, section 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.available_devices import available_devices
from linkwise.broker.groups.siblings import visible_to
from linkwise.dialects.dialect import Writing
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.dialects.registry import cleared_records
from linkwise.model.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["cleared_record", "planned_record"]


def planned_record(state: State, pod: PodView, now: float) -> dict[str, str]:
    """Return the annotations that a bind would write for the planned devices of a pod; none if a claim allocates them."""
    entry, request, query = state.cluster.ledger.get(pod.uid), state.request(pod), state.query(pod)
    if entry is None or entry.state not in {"PLANNED", "BOOKED"} or query is None:
        return {}
    if state.cluster.inventories[entry.node].claims is not None or query.ask.resource in pod.hosted_by_claims:
        return {}
    node, offer = state.cluster.index.nodes[entry.node], entry.grant.offer
    free, rooms = available_devices(state.settings.share, query, node, offer)
    devices = {device.id: device for device in node.devices}
    visible = visible_to(state, pod.uid, entry.node)
    writing = Writing(pod, entry.grant, devices, 0, visible, Decision(free=free, rooms=rooms))
    # rule 003.record: chips and time in Huawei's format, whichever scheduler binds.
    return {key: text for key, text in state.writer.annotations(writing, request.dialect, now).items() if text}


def cleared_record(pod: PodView, written: Iterable[str]) -> dict[str, str]:
    """Return empty texts for the record on a pod, and for what was written and is not observed yet; the plan stays."""
    keys = {**cleared_records(pod), **({GRANT: ""} if GRANT in pod.annotations else {}), **dict.fromkeys(written, "")}
    return {key: "" for key in keys if key != GROUP_PLAN}
