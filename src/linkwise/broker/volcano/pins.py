"""Pins: required node affinity on the name of one node, by which a pod of Volcano is steered to its planned node.

Volcano tries a nominated node first, and any other one if that fails. Node affinity can be tightened while a pod has
scheduling gates, and not changed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.volcano.scope import is_volcano
from linkwise.dialects.groups.pod_group_objects import volcano_pod_group
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import NodeTerm, PodView

__all__ = ["NAME_FIELD", "describe_pod_group", "lost_pin", "pinned_node"]

NAME_FIELD: Final = "metadata.name"


def pinned_node(pod: PodView) -> str:
    """Return the only node that the affinity of a pod allows by name; empty if there may be others."""
    names = {_node_of(term) for term in pod.affinity or ()}
    return names.pop() if len(names) == 1 else ""


def lost_pin(state: State, pod: PodView) -> str:
    """Return a sentence about a pod of Volcano that we pinned to a node which is gone; empty if it is there."""
    node = pinned_node(pod) if GROUP_PLAN in pod.annotations and is_volcano(state.settings, pod) else ""
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


def _node_of(term: NodeTerm) -> str:
    named = (field for field in term.fields if field.key == NAME_FIELD and field.operator == "In")
    return next((field.values[0] for field in named if len(field.values) == 1), "")
