"""Plans of one pod: the index finds the node that the planner finds among all nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hypothesis import event, given, strategies as st

from linkwise.broker.groups.planning.input import network_of, planning_input
from linkwise.broker.groups.planning.runs import planning
from linkwise.engine.planning.make_plan import make_plan
from linkwise.model.settings import PlacingSettings
from linkwise.model.verdict import Offer
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import NVIDIA, FakeNode
from linkwise.vendors.machines import profile
from support.state import state_of
from support.volcano_cluster import VolcanoCluster, single

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

T = TypeVar("T")

kinds = st.builds(
    FakeNode,
    name=st.just("x"),
    family=st.sampled_from(["ring", "ring", "ring", "linked"]),
    count=st.just(8),
    unhealthy=st.frozensets(st.integers(0, 7)),
    ready=st.sampled_from([True, True, True, False]),
    cordoned=st.sampled_from([False, False, False, True]),
    cpu=st.sampled_from(["64", "64", "1"]),
)


machines = st.tuples(
    st.sampled_from(["dgx1-v100-measured", "dgx1-v100", "hgx-h100", "a100-bridged", "v100-pcie"]),
    st.frozensets(st.integers(0, 7), max_size=6),
)
"""a machine and its broken devices"""


def ended(steps: Generator[None, None, T]) -> T:
    """What a computation in steps returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def among_all(state: State, view: GroupView) -> Plan | None:
    """The plan by the planner, which ranks all nodes."""
    task, sites = ended(planning_input(state, view, network_of(state.cluster, view.group)))
    return ended(make_plan(task, sites, state.hosts))


def both(cluster: VolcanoCluster, pod: PodView) -> tuple[Plan | None, Plan | None]:
    """The plan by the index, and the plan among all nodes."""
    cluster.submit(replace(pod, gates=()))
    state = state_of(cluster.broker)
    view = state.groups.view(state.groups.key_of(pod.uid))
    assert view
    plan = ended(planning(state, view))
    event("planned" if plan else "does not fit")
    return plan, among_all(state, view)


@given(st.lists(kinds, min_size=1, max_size=60), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["", "2"]))
def test_one_pod_is_planned_where_the_planner_would_place_it_among_all_nodes(
    nodes: list[FakeNode], chips: int, cpu: str
) -> None:
    named = [replace(node, name=f"n{number:02d}") for number, node in enumerate(nodes)]
    (main,) = single("p", chips).containers
    limits = {**main.limits, **({"cpu": cpu} if cpu else {})}
    pod = replace(single("p", chips), containers=(replace(main, limits=limits),))
    plan, expected = both(VolcanoCluster(*named, settings=PlacingSettings()), pod)
    assert plan == expected


@given(st.lists(machines, min_size=1, max_size=12), st.sampled_from([1, 2, 3, 4, 8]))
def test_one_pod_with_gpus_is_planned_on_the_node_that_its_policy_prefers(
    nodes: list[tuple[str, frozenset[int]]], gpus: int
) -> None:
    cluster = VolcanoCluster(settings=PlacingSettings())
    for number, (machine, unhealthy) in enumerate(nodes):
        found = profile(machine)
        broken = [device for device in unhealthy if device < found.devices]
        cluster.see(*fleet_node(found, f"n{number:02d}", unhealthy=broken))
    plan, _ = both(cluster, single("p", gpus, NVIDIA))
    assert list(plan.nodes if plan else ()) == preferred(cluster, gpus)


def preferred(cluster: VolcanoCluster, gpus: int) -> list[str]:
    """The first of the nodes that the policy scores best, as for a pod without a group; none if it refuses all."""
    state = state_of(cluster.broker)
    query = state.query(single("p", gpus, NVIDIA))
    assert query
    offers = {name: query.policy.pick(query.ask, node) for name, node in state.cluster.index.nodes.items()}
    scores = {
        name: query.policy.score(query.ask, state.cluster.index.nodes[name], offer)
        for name, offer in offers.items()
        if isinstance(offer, Offer)
    }
    best = [name for name, score in sorted(scores.items()) if score == max(scores.values())]
    return best[:1]
