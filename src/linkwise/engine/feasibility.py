"""Feasibility: whether a pod fits a node for reasons other than devices, for group plans and dry runs.

Pod affinity is evaluated only for the hostname topology key, and topology spread as the number of pods that it allows on
one node. Other topology keys (zones, racks) and volumes need more than one node to decide: kube-scheduler checks them, and
the nodes that it leaves out are in `only`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from linkwise.engine.selectors import (
    collides,
    meets,
    node_term_text,
    pod_term_text,
    selects,
    taint_text,
    tolerates,
)
from linkwise.model.verdict import Reason
from linkwise.model.views import Taint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from linkwise.model.ask import Capacity, Demand, Load
    from linkwise.model.views import NodeView, PodTerm, SpreadConstraint

__all__ = [
    "HOST",
    "Neighbour",
    "all_select",
    "all_unfit",
    "is_domain",
    "lasting",
    "no_neighbours",
    "spread_limit",
    "unfit",
    "unless_first",
]

HOST: Final = "kubernetes.io/hostname"
_RULE: Final = "001.filters"
_CORDON: Final = Taint("node.kubernetes.io/unschedulable")
_BLOCKING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
_LASTING_KINDS: Final = frozenset({"unschedulable", "not ready", "selector", "affinity", "taint"})

Neighbour = tuple[str, "Mapping[str, str]"]
"""a pod's namespace and labels"""


def no_neighbours() -> tuple[Neighbour, ...]:
    """The neighbours on an empty node."""
    return ()


def unfit(
    demand: Demand,
    view: NodeView,
    capacity: Capacity,
    load: Load,
    neighbours: Callable[[], Iterable[Neighbour]] = no_neighbours,
) -> Reason | None:
    """The first reason why a pod does not fit; None if it fits.

    `load` is the sum of all other pods of the node, including members of the same plan; `neighbours` returns these pods,
    and is only called for pods with affinity terms.
    """
    # rule 001.filters: the load has the members that the plan placed here before, so each is checked with them added.
    return next(_reasons(demand, view, capacity, load, neighbours), None)


def all_unfit(
    demand: Demand,
    view: NodeView,
    capacity: Capacity,
    load: Load,
    neighbours: Callable[[], Iterable[Neighbour]] = no_neighbours,
) -> tuple[Reason, ...]:
    """All reasons why a pod does not fit, in the order of `unfit`."""
    return tuple(_reasons(demand, view, capacity, load, neighbours))


def unless_first(demand: Demand, everybody: Iterable[Neighbour]) -> Demand:
    """The demand without its pod affinity if the pod may be the first of its kind.

    As in Kubernetes: the pod matches its own affinity terms, and no other pod of the cluster does, which a single node
    can't decide.
    """
    terms = demand.together
    if not terms or not all_select(terms, (demand.namespace, demand.labels)):
        return demand
    return demand if any(all_select(terms, pod) for pod in everybody) else replace(demand, together=())


def is_domain(constraint: SpreadConstraint, demand: Demand, view: NodeView) -> bool:
    """Whether topology spread with the hostname topology key counts the pods of a node."""
    if HOST not in view.labels:
        return False
    if constraint.affinity_honored and any(_by_labels(demand, view)):
        return False
    return not (constraint.taints_honored and any(_by_taints(demand, view)))


def spread_limit(constraint: SpreadConstraint, open_: Sequence[int], full: Sequence[int], members: int) -> int:
    """The most counted pods that one node may have while members are placed, each where the fewest are.

    Args:
        constraint: with the hostname topology key
        open_: the counted pods of each node that may take members
        full: of each other node that is a domain: its number stays, and limits that of the others
        members: to be placed and counted
    """
    counts = sorted((*open_, *full))
    if len(counts) < constraint.min_domains:
        return constraint.max_skew  # as in Kubernetes: a domain that is not there has no pods
    limit = max(counts[0] + constraint.max_skew, _even_level(counts, members)) if counts else constraint.max_skew
    return min((limit, *(count + constraint.max_skew for count in full)))


def _even_level(counts: Sequence[int], more: int) -> int:
    """The highest count once so many more are added, each to the lowest of these ascending counts."""
    for number, (count, following) in enumerate(pairwise(counts), 1):
        if (following - count) * number >= more:
            return count - (-more // number)
        more -= (following - count) * number
    return counts[-1] - (-more // len(counts))


def lasting(reason: Reason) -> bool:
    """Whether other pods ending can't resolve a reason of `unfit`."""
    if isinstance(reason.found, tuple) and len(reason.found) == 2 and isinstance(reason.asked, int):
        capacity = reason.found[1]
        return isinstance(capacity, int) and reason.asked > capacity
    return reason.kind in _LASTING_KINDS


def _reasons(
    demand: Demand,
    view: NodeView,
    capacity: Capacity,
    load: Load,
    neighbours: Callable[[], Iterable[Neighbour]],
) -> Iterator[Reason]:
    """The reasons one by one: a single path for `unfit` and `all_unfit`; checks that most pods don't need are skipped."""
    if view.unschedulable and not tolerates(demand.tolerations, _CORDON):
        yield Reason(_RULE, kind="unschedulable")
    if not view.ready:
        yield Reason(_RULE, kind="not ready")
    if demand.only is not None and view.name not in demand.only:
        yield Reason(_RULE, kind="scheduler")
    if demand.selector or demand.affinity is not None:
        yield from _by_labels(demand, view)
    if view.taints:
        yield from _by_taints(demand, view)
    if demand.ports and load.ports:
        yield from _by_ports(demand, load)
    yield from _by_amounts(demand, capacity, load)
    if load.apart or demand.apart or demand.together or demand.crowd:
        yield from _by_pods(demand, load, neighbours)


def _by_labels(demand: Demand, view: NodeView) -> Iterator[Reason]:
    for key, value in demand.selector.items():
        if view.labels.get(key) != value:
            yield Reason(
                _RULE, f"{key}={value}", f"{key}={view.labels[key]}" if key in view.labels else None, "selector"
            )
    if demand.affinity is not None and not any(meets(view, term) for term in demand.affinity):
        yield Reason(_RULE, tuple(map(node_term_text, demand.affinity)), kind="affinity")


def _by_taints(demand: Demand, view: NodeView) -> Iterator[Reason]:
    for taint in view.taints:
        if taint.effect in _BLOCKING_EFFECTS and not tolerates(demand.tolerations, taint):
            yield Reason(_RULE, found=taint_text(taint), kind="taint")


def _by_ports(demand: Demand, load: Load) -> Iterator[Reason]:
    for port in demand.ports:
        if any(count > 0 and collides(port, taken) for taken, count in load.ports.items()):
            yield Reason(_RULE, f"{port.port}/{port.protocol}", kind="ports")


def _by_amounts(demand: Demand, capacity: Capacity, load: Load) -> Iterator[Reason]:
    """As in Kubernetes: a resource that the pod does not request is not checked."""
    cpu, memory, ephemeral, pods = capacity.cpu, capacity.memory, capacity.ephemeral, capacity.pods
    if demand.cpu and cpu is not None and demand.cpu > cpu - load.cpu:
        yield _insufficient("cpu", demand.cpu, cpu, load.cpu)
    if demand.memory and memory is not None and demand.memory > memory - load.memory:
        yield _insufficient("memory", demand.memory, memory, load.memory)
    if demand.ephemeral and ephemeral is not None and demand.ephemeral > ephemeral - load.ephemeral:
        yield _insufficient("ephemeral", demand.ephemeral, ephemeral, load.ephemeral)
    if pods is not None and load.pods >= pods:
        yield _insufficient("pods", 1, pods, load.pods)


def _insufficient(kind: str, demand: int, capacity: int, used: int) -> Reason:
    return Reason(_RULE, demand, (max(0, capacity - used), capacity), kind)


def _by_pods(demand: Demand, load: Load, neighbours: Callable[[], Iterable[Neighbour]]) -> Iterator[Reason]:
    """Pod affinity and anti-affinity; as in Kubernetes, the anti-affinity of a running pod excludes others as well."""
    apart = [term for term in demand.apart if term.topology_key == HOST]
    with_others = any(term.topology_key == HOST for term in demand.together)
    beside = tuple(neighbours()) if apart or with_others or demand.crowd else ()
    for term in apart:
        if any(selects(term, *pod) for pod in beside):
            yield Reason(_RULE, asked=pod_term_text(term), kind="apart")
    for term, count in load.apart.items():
        if count > 0 and term.topology_key == HOST and selects(term, demand.namespace, demand.labels):
            yield Reason(_RULE, found=pod_term_text(term), kind="apart")
    if with_others and not any(all_select(demand.together, pod) for pod in beside):
        yield Reason(_RULE, asked=tuple(map(pod_term_text, demand.together)), kind="together")
    for term, limit in demand.crowd:
        there = sum(selects(term, *pod) for pod in beside)
        if there + selects(term, demand.namespace, demand.labels) > limit:
            yield Reason(_RULE, asked=pod_term_text(term), found=(there, limit), kind="spread")


def all_select(terms: tuple[PodTerm, ...], pod: Neighbour) -> bool:
    """Whether a pod matches all terms; as in Kubernetes, only such a pod satisfies any of them."""
    return all(selects(term, *pod) for term in terms)
