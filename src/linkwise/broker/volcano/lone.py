"""Members of a PodGroup that need no plan: no other member of the group requests devices.

Volcano's controllers give every pod a PodGroup, so most groups are of this kind. A plan of one pod is the best node for it:
predicate and prioritize find that without planning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.groups.gates import was_steered
from linkwise.broker.groups.readiness import pending_reason
from linkwise.dialects.linkwise.gang_gate import is_gated

if TYPE_CHECKING:
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = ["lone_group", "lone_reason"]


def lone_group(state: State, pod: PodView) -> GroupView | None:
    """Return the group of a pending pod if it is the only member with devices; None if others have some, or a plan exists.

    One whose gate was removed for a plan is pinned to its node, and is planned again if the plan ends.
    """
    key = state.groups.key_of(pod.uid)
    view = state.groups.view(key) if key else None
    if view is None or pod.uid in view.extra or view.group.bundle or view.group.network or state.groups.plan_of(key):
        return None
    if is_gated(pod) or was_steered(state.groups[key], pod):
        return None
    members = (*view.waiting, *view.bound)
    alone = len(members) == 1 or not any(asks_for_devices(each) for each in members if each.uid != pod.uid)
    return view if alone else None


def lone_reason(state: State, view: GroupView, now: float) -> Reason | None:
    """Return why such a pod may not start yet: its PodGroup or other members are missing, or its job has an invalid shape."""
    record = state.groups[view.key]
    if record.since is None:
        record.since = now  # for a missing PodGroup it waits for a limited time
    return pending_reason(state, view, now)
