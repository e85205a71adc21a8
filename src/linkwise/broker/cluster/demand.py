"""Host resources that a pod requests and a node provides, as numbers.

Quantities are cached: most pods are copies of few templates, so few different texts are parsed.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.pod_resources import combined, quantity
from linkwise.errors import InputError
from linkwise.model.ask import Capacity, Demand
from linkwise.model.verdict import Problem
from linkwise.model.views import Toleration

if TYPE_CHECKING:
    from linkwise.model.ask import Ask
    from linkwise.model.views import ContainerView, NodeTerm, NodeView, PodTerm, PodView

__all__ = ["MOST_TERMS", "capacity_of", "demand_of", "with_exclusive_cpus"]

MOST_TERMS: Final = 64
"""constraints of one kind that are considered of a pod, on each node and beside each pod there: others wait meanwhile.

kube-scheduler considers all of them, and a plan follows the nodes that it names, so what is left out never excludes a node.
"""

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_EPHEMERAL: Final = "ephemeral-storage"
_PODS: Final = "pods"

_EVERYTHING: Final = (Toleration(operator="Exists"),)

_MILLI: Final = 10**6  # of the billionths that sums are made in, so that only the whole is rounded
_ONE: Final = 10**9
_BROKEN: Final = -1


def demand_of(pod: PodView) -> tuple[Demand, tuple[Problem, ...]]:
    """Return the host resources of a pod; an invalid quantity counts as 0 and is a problem."""
    broken: list[Problem] = []
    demand = Demand(
        cpu=-(-_total(pod, _CPU, broken) // _MILLI),
        memory=-(-_total(pod, _MEMORY, broken) // _ONE),
        ephemeral=-(-_total(pod, _EPHEMERAL, broken) // _ONE),
        namespace=pod.namespace,
        labels=pod.labels,
        selector=pod.node_selector,
        affinity=_node_terms(pod.affinity),
        tolerations=pod.tolerations if len(pod.tolerations) <= MOST_TERMS else _EVERYTHING,
        ports=pod.ports[:MOST_TERMS],
        apart=_pod_terms(pod.apart),
        together=_pod_terms(pod.together),
    )
    return demand, tuple(broken)


def _node_terms(terms: tuple[NodeTerm, ...] | None) -> tuple[NodeTerm, ...] | None:
    """Return the terms of which a node meets one; None, which excludes no node, instead of too many."""
    if terms is None or max(len(terms), *(len(each.expressions) for each in terms), 0) <= MOST_TERMS:
        return terms
    return None


def _pod_terms(terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...]:
    """Return the first terms, which all have to be met, without those that have too many requirements themselves."""
    if not terms:
        return terms
    return tuple(term for term in terms[:MOST_TERMS] if len(term.expressions) <= MOST_TERMS)


def capacity_of(view: NodeView) -> Capacity:
    """Return the capacity of a node, rounded down; an invalid quantity counts as 0, so that nothing fits."""
    there, whole = view.allocatable.get, view.capacity.get
    return _capacity(
        there(_CPU, whole(_CPU)),
        there(_MEMORY, whole(_MEMORY)),
        there(_EPHEMERAL, whole(_EPHEMERAL)),
        there(_PODS, whole(_PODS)),
    )


def with_exclusive_cpus(ask: Ask, pod: PodView) -> Ask:
    """Return the ask with the CPUs that a static CPU Manager would allocate to the containers exclusively."""
    if not ask.devices or not is_guaranteed(pod):
        return ask
    cpus = {container.name: _exclusive_cpus(container) for container in pod.containers}
    total = combined(pod, _exclusive_cpus)
    if not total:
        return ask
    containers = tuple(replace(each, cpus=cpus.get(each.container, 0)) for each in ask.containers)
    return replace(ask, containers=containers, cpus=total)


def is_guaranteed(pod: PodView) -> bool:
    """Return whether all containers have limits of CPU and memory, and request no less."""
    return all(
        (limit := container.limits.get(resource)) is not None
        and _billionths(limit) > 0
        and _billionths(container.requests.get(resource, limit)) == _billionths(limit)
        for container in pod.containers
        for resource in (_CPU, _MEMORY)
    )


def _exclusive_cpus(container: ContainerView) -> int:
    """Return the CPUs of a container of a Guaranteed pod; none if it requests a fraction of one."""
    cpus, fraction = divmod(_billionths(container.limits.get(_CPU, "0")), _ONE)
    return 0 if fraction else cpus


def _total(pod: PodView, resource: str, broken: list[Problem]) -> int:
    """Return the effective amount in billionths; a pod-level request replaces the sum of its containers."""
    containers = pod.containers
    if len(containers) == 1 and not (containers[0].init or pod.requests or pod.overhead):
        # Most pods are so: one container, and nothing to add up.
        text = containers[0].requests.get(resource, containers[0].limits.get(resource))
        found = 0 if text is None else _billionths(text)
        if found >= 0:
            return found

    def read(where: str, text: str) -> int:
        found = _billionths(text)
        if found >= 0:
            return found
        broken.append(Problem(where_pod(pod), resource, f"{where}: {_complaint(text)}"))
        return 0

    def measure(container: ContainerView) -> int:
        text = container.requests.get(resource)
        if text is None and (text := container.limits.get(resource)) is None:
            return 0
        return read(f"container {container.name}", text)

    whole = pod.requests.get(resource) if pod.requests and resource != _EPHEMERAL else None
    total = read("the pod", whole) if whole is not None else combined(pod, measure)
    return total + (read("overhead", pod.overhead[resource]) if resource in pod.overhead else 0)


@lru_cache(maxsize=4096)
def _capacity(cpu: str | None, memory: str | None, ephemeral: str | None, pods: str | None) -> Capacity:
    return Capacity(_there(cpu, _MILLI), _there(memory, _ONE), _there(ephemeral, _ONE), _there(pods, _ONE))


def _there(text: str | None, unit: int) -> int | None:
    return None if text is None else max(0, _billionths(text)) // unit


@lru_cache(maxsize=4096)
def _billionths(text: str) -> int:
    """Round up to the resolution that Kubernetes uses."""
    try:
        number = quantity(text)
    except InputError:
        return _BROKEN
    return int((number * _ONE).to_integral_value(ROUND_CEILING)) if number >= 0 else _BROKEN


def _complaint(text: str) -> str:
    try:
        quantity(text)
    except InputError as error:
        return str(error)
    return f"{text!r} is below 0"
