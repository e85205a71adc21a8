"""What keeps a pod off a node beside devices, in the cluster as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.demand import capacity_of, demand_of
from linkwise.broker.pods import holds_devices
from linkwise.engine.feasibility import unfit, unless_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.state import State
    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.demand import Demand
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = ["labels_of", "needed_by", "stopped"]


def stopped(state: State, pod: PodView, demand: Demand, name: str) -> Reason | None:
    """The first thing beside devices that keeps the pod off a node."""
    cluster = state.cluster
    view = cluster.nodes[name]

    def neighbours() -> Iterator[Neighbour]:
        return labels_of(cluster.pods_on(name))

    load = cluster.load(name)
    entry = cluster.ledger.get(pod.uid)
    if entry and entry.node == name and pod.uid in cluster.pods:
        load = load.minus(demand)  # it is counted there already
    return unfit(demand, view, capacity_of(view), load, neighbours)


def needed_by(state: State, pod: PodView) -> Demand:
    """What the pod needs beside devices; who must be with others may be the first of them."""
    return unless_first(demand_of(pod)[0], labels_of(state.cluster.pods.values()))


def labels_of(pods: Iterable[PodView]) -> Iterator[Neighbour]:
    """Those that run, as conditions on other pods see them."""
    return ((pod.namespace, pod.labels) for pod in pods if holds_devices(pod))
