"""Nodes that Volcano refused for planned members: the plans of their group avoid them for some time.

A pod whose gate was removed can go to its planned node only. Volcano's own plugins may exclude that node for a reason that is
not evaluated here, such as a volume of another node. The pod that replaces it would be planned there again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.reservations import is_over
from linkwise.broker.volcano.scope import is_volcano
from linkwise.dialects.groups.pod_group_objects import names_no_node

if TYPE_CHECKING:
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.records.stages import Reserved
    from linkwise.broker.state import State

__all__ = ["DEMOTED", "demote_refused", "expire_demoted"]

DEMOTED: Final = 600.0  # seconds


def demote_refused(state: State, view: GroupView, stage: Reserved, now: float) -> tuple[str, ...]:
    """Let the next plans of a group avoid the nodes of those members for which Volcano found no node; return the nodes.

    Volcano refuses other members of the gang with it, and pods for their queue: these messages say nothing about nodes.
    """
    places = stage.plan.placements
    refused = {
        places[pod.uid].node
        for pod in view.waiting
        if pod.uid in places and is_volcano(state.settings, pod) and names_no_node(pod.unschedulable_message)
    }
    if refused:
        state.groups.demote(view.key, sorted(refused), now + DEMOTED)
    return tuple(sorted(refused))


def expire_demoted(state: State, now: float) -> None:
    """Forget nodes that were refused long ago."""
    left = {
        key: {node: until for node, until in nodes.items() if not is_over(until, now, DEMOTED)}
        for key, nodes in state.groups.demoted.items()
    }
    state.groups.demoted = {key: nodes for key, nodes in left.items() if nodes}
