"""Feasibility of a node for reasons other than devices, in the cluster as it is."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.engine.feasibility import all_select, unfit, unless_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.demand import Demand
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodTerm, PodView

    Company = Callable[[tuple[PodTerm, ...]], Iterable[Neighbour]]
    """returns a running pod that matches all affinity terms, if there is one"""

__all__ = ["company_in", "labels_of", "misfit", "needed_by"]


def misfit(cluster: Cluster, pod: PodView, demand: Demand, name: str) -> Reason | None:
    """Return the first reason, other than devices, why the pod does not fit on a node."""
    view = cluster.nodes[name]

    def neighbours() -> Iterator[Neighbour]:
        return labels_of(cluster.pods_on(name))

    load = cluster.load(name)
    entry = cluster.ledger.get(pod.uid)
    if entry and entry.node == name and pod.uid in cluster.pods:
        load = load.minus(demand)  # it is counted there already
    return unfit(demand, view, capacity_of(view), load, neighbours)


def needed_by(cluster: Cluster, pod: PodView, company: Company | None = None) -> Demand:
    """Return what the pod needs apart from devices; affinity does not stop the first pod of its kind."""
    demand = demand_of(pod)[0]
    return unless_first(demand, (company or company_in(cluster))(demand.together))


def company_in(cluster: Cluster) -> Company:
    """Return a cached lookup for many pods with the same affinity terms."""

    @cache
    def found(terms: tuple[PodTerm, ...]) -> list[Neighbour]:
        running = labels_of(cluster.pods.values())
        return list(islice((other for other in running if all_select(terms, other)), 1))

    return found


def labels_of(pods: Iterable[PodView]) -> Iterator[Neighbour]:
    """Yield running pods as affinity terms see them."""
    return ((pod.namespace, pod.labels) for pod in pods if holds_devices(pod))
