"""What pods need and nodes have, as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import ContainerView, NodeView, PodView, Toleration
from linkwise.broker.cluster.demand import MOST_TERMS, capacity_of, demand_of
from linkwise.dialects.pod_resources import combined, quantity
from linkwise.engine.selectors import meets, tolerates
from linkwise.model.ask import Capacity, Demand
from linkwise.model.views import HostPort, NodeTerm, PodTerm, SelectorRequirement, Taint

if TYPE_CHECKING:
    from decimal import Decimal

MIB = 1 << 20


def container(cpu: str = "0", memory: str = "0", *, init: bool = False, sidecar: bool = False) -> ContainerView:
    return ContainerView("c", {"cpu": cpu, "memory": memory}, init=init, sidecar=sidecar)


def pod(*containers: ContainerView, **more: str) -> PodView:
    return PodView("ns", "p", "u", containers, overhead=more)


def amounts(view: PodView) -> tuple[int, int, int]:
    demand, problems = demand_of(view)
    assert problems == ()
    return demand.cpu, demand.memory, demand.ephemeral


def test_containers_add_up_and_what_the_runtime_adds_is_added() -> None:
    both = pod(container("500m", "1Mi"), container("2", "1M"), cpu="250m", memory="1")
    assert amounts(both) == (2750, MIB + 10**6 + 1, 0)


def test_init_containers_reuse_and_sidecars_add() -> None:
    side, init, main = container("1", sidecar=True, init=True), container("4", init=True), container("2")
    assert amounts(pod(side, init, main)) == (5000, 0, 0)
    assert amounts(pod(init, side, main)) == (4000, 0, 0)


def test_a_limit_stands_for_a_request_that_is_not_there() -> None:
    limits = {"cpu": "2", "memory": "1Mi", "ephemeral-storage": "5"}
    assert amounts(pod(ContainerView("c", {"cpu": "1"}, limits))) == (1000, MIB, 5)


def test_only_the_sum_is_rounded_up() -> None:
    assert amounts(pod(container("100u", "100m"), container("100u", "100m"))) == (1, 1, 0)


def test_what_the_pod_as_a_whole_asks_for_counts_instead_of_its_containers() -> None:
    whole = replace(pod(container("1", "1"), cpu="500m"), requests={"cpu": "4", "ephemeral-storage": "9"})
    assert amounts(whole) == (4500, 1, 0)


@pytest.mark.parametrize("text", ["two", "", "-1", "1e999x"])
def test_a_broken_quantity_counts_as_nothing_and_is_reported(text: str) -> None:
    demand, problems = demand_of(pod(container(text, "1Mi"), container("1"), memory=text))
    assert (demand.cpu, demand.memory) == (1000, MIB)
    assert [(found.where, found.key, found.sentence.split(":")[0]) for found in problems] == [
        ("pod ns/p", "cpu", "container c"),
        ("pod ns/p", "memory", "overhead"),
    ]


def test_a_demand_refers_to_the_rest_of_the_view() -> None:
    view = PodView(
        *("ns", "p", "u"),
        labels={"app": "web"},
        node_selector={"zone": "a"},
        tolerations=(Toleration("k"),),
        affinity=(NodeTerm(),),
        ports=(HostPort(80),),
        apart=(PodTerm("host"),),
        together=(PodTerm("zone"),),
    )
    assert demand_of(view)[0] == Demand(
        namespace="ns",
        labels=view.labels,
        selector=view.node_selector,
        affinity=view.affinity,
        tolerations=view.tolerations,
        ports=view.ports,
        apart=view.apart,
        together=view.together,
    )


def test_a_node_is_limited_by_what_it_reports() -> None:
    allocatable = {"cpu": "15500m", "memory": "64Gi", "pods": "110"}
    assert capacity_of(NodeView("n", allocatable=allocatable)) == Capacity(15_500, 64 << 30, None, 110)
    assert capacity_of(NodeView("n", capacity={"cpu": "16"}, allocatable={"pods": "1.5"})) == Capacity(16_000, pods=1)
    assert capacity_of(NodeView("n")) == Capacity()


@pytest.mark.parametrize("text", ["many", "-1"])
def test_a_node_with_a_broken_quantity_takes_nothing(text: str) -> None:
    assert capacity_of(NodeView("n", allocatable={"cpu": text})) == Capacity(cpu=0)


QUANTITIES = st.builds("{}{}".format, st.integers(0, 5000), st.sampled_from(["", "m", "k", "Mi", "e3", "Gi"]))
CONTAINERS = st.builds(container, QUANTITIES, QUANTITIES, init=st.booleans(), sidecar=st.booleans())


def exact(view: PodView, resource: str) -> Decimal:
    own = combined(view, lambda found: quantity(found.requests.get(resource, found.limits.get(resource, "0"))))
    return own + quantity(view.overhead.get(resource, "0"))


@given(st.lists(CONTAINERS, max_size=4), QUANTITIES)
def test_numbers_are_the_effective_quantities(containers: list[ContainerView], extra: str) -> None:
    view = pod(*containers, cpu=extra)
    cpu, memory, _ = amounts(view)
    assert cpu - 1 < exact(view, "cpu") * 1000 <= cpu
    assert memory - 1 < exact(view, "memory") <= memory


@given(st.text(), st.text())
def test_no_text_is_an_error(one: str, other: str) -> None:
    demand, problems = demand_of(pod(container(one, other)))
    assert problems or demand.cpu >= 0
    assert (capacity_of(NodeView("n", allocatable={"cpu": one})).cpu or 0) >= 0


def test_of_thousands_of_constraints_so_many_are_considered_that_no_other_pod_waits_for_long() -> None:
    many = range(40 * MOST_TERMS)
    apart = tuple(PodTerm("kubernetes.io/hostname", {f"k{number}": "v"}) for number in many)
    ports = tuple(HostPort(1 + number, "TCP") for number in many)
    demand, _ = demand_of(PodView("ns", "p", "u", (), apart=apart, together=apart, ports=ports))
    assert (demand.apart, demand.together, demand.ports) == (
        apart[:MOST_TERMS],
        apart[:MOST_TERMS],
        ports[:MOST_TERMS],
    )
    wide = PodTerm("kubernetes.io/hostname", {}, tuple(SelectorRequirement(f"k{number}", "Exists") for number in many))
    assert demand_of(PodView("ns", "p", "u", (), apart=(wide, apart[0])))[0].apart == apart[:1]


def test_alternatives_that_are_too_many_to_be_considered_exclude_no_node() -> None:
    terms = [NodeTerm((SelectorRequirement(f"k{number}", "Exists"),)) for number in range(MOST_TERMS + 1)]
    few, many = (demand_of(PodView("ns", "p", "u", (), affinity=tuple(terms[:end])))[0] for end in (MOST_TERMS, None))
    assert few.affinity is not None
    assert not any(meets(NodeView("n"), term) for term in few.affinity)
    assert many.affinity is None
    tolerations = tuple(Toleration(f"k{number}", "Exists") for number in range(MOST_TERMS + 1))
    demand, _ = demand_of(PodView("ns", "p", "u", (), tolerations=tolerations))
    assert tolerates(demand.tolerations, Taint("other", "x", "NoSchedule"))


def test_terms_that_differ_in_their_labels_alone_are_different_keys() -> None:
    """Pods on a node are counted by term, and thousands of equal hashes would take as long as their square."""
    terms = [PodTerm("kubernetes.io/hostname", {f"k{number}": "v"}) for number in range(1000)]
    assert len(set(map(hash, terms))) > 900
    assert hash(PodTerm("zone", {"a": "1", "b": "2"})) == hash(PodTerm("zone", {"b": "2", "a": "1"}))
