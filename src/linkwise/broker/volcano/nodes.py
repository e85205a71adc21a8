"""Nodes of planned pods of Volcano: the node affinity that steers a pod to its node, and the nodes that Volcano refused.

Volcano tries a nominated node first, and any other one if that fails. Node affinity can be tightened while a pod has
scheduling gates, and not changed afterwards.

A pod whose gate was removed can go to its planned node only. Volcano's own plugins may exclude that node for a reason that is
not evaluated here, such as a volume of another node. The pod that replaces it would be planned there again, so the plans of
its group avoid that node for some time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import is_volcano
from linkwise.broker.groups.reservations import is_over
from linkwise.dialects.groups.pod_group_objects import names_no_node, volcano_pod_group
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN

if TYPE_CHECKING:
    from linkwise.broker.records.members import GroupView, Reserved
    from linkwise.broker.state import State
    from linkwise.model.views import NodeTerm, PodView

__all__ = ["DEMOTED", "NAME_FIELD", "demote_refused", "describe_pod_group", "expire_demoted", "lost_pin", "pinned_node"]

NAME_FIELD: Final = "metadata.name"
DEMOTED: Final = 600.0  # seconds
"""outlives the refused pod: its replacement has another UID, and would be planned on the same node again"""


def pinned_node(pod: PodView) -> str:
    """Return the only node that the affinity of a pod allows by name; empty if there may be others."""
    names = {_node_of(term) for term in pod.affinity or ()}
    return names.pop() if len(names) == 1 else ""


def lost_pin(state: State, pod: PodView) -> str:
    """Return a sentence about a pod that we pinned to a node which is gone; empty if it is there."""
    ours = is_volcano(state.settings, pod) or CLAIM_REQUEST in pod.annotations
    node = pinned_node(pod) if GROUP_PLAN in pod.annotations and ours else ""
    if not node or node in state.cluster.nodes or pod.node:
        return ""
    return (
        f"pod {pod.name} was pinned to node {node} when its scheduling gate was removed, and that node is gone; delete the pod, "
        "so that its job creates another one"
    )


def describe_pod_group(pod: PodView) -> str:
    """Return the command that prints why Volcano does not bind a pod."""
    namespace, _, name = volcano_pod_group(pod).partition("/")
    return f"kubectl describe podgroup -n {namespace} {name}"


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


def _node_of(term: NodeTerm) -> str:
    named = (field for field in term.fields if field.key == NAME_FIELD and field.operator == "In")
    return next((field.values[0] for field in named if len(field.values) == 1), "")
