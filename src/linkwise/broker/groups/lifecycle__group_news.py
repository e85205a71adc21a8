"""Objects of the cluster that changed, and the groups that waited for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.groups.lifecycle import wake_groups
from linkwise.broker.groups.planning_runs import wakes

if TYPE_CHECKING:
    from linkwise.broker.effects import Wake
    from linkwise.broker.state import State
    from linkwise.model.views import NodeView

__all__ = ["node_changed", "objects_changed"]


def node_changed(state: State, view: NodeView) -> None:
    """Note a node before it is seen as it is now, if it may take pods that it did not take before."""
    known = state.cluster.nodes.get(view.name)
    if known and (known.unschedulable, known.taints, known.labels) != (view.unschedulable, view.taints, view.labels):
        state.groups.reopened = True
    if known and known.allocatable != view.allocatable:
        state.groups.reopened = True


def objects_changed(state: State) -> list[Wake]:
    """PodGroups say something else, or the network is another: who may gain by that is tried again."""
    shared, book = state.cluster.shared, state.groups
    names, moved = sorted(shared.renewed), shared.moved
    shared.renewed.clear()
    shared.moved = False
    found: list[Wake] = []
    for key in [key for name in names for key in book.named(name)]:
        book.count_bound(key)
        book.touched[key] = None
        book.short.pop(key, None)
        found += wakes(state, key)
    return [*found, *wake_groups(state)] if moved else found
