"""Plans of one pod: the index finds the node that the planner finds among all nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hypothesis import event, given, strategies as st

from linkwise.broker.groups.planning import planning
from linkwise.broker.groups.planning_input import network_of, planning_input
from linkwise.engine.planning.make_plan import make_plan
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import FakeNode
from support.state import state_of
from support.volcano_cluster import VolcanoCluster, single

if TYPE_CHECKING:
    from collections.abc import Generator

    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan

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


@given(st.lists(kinds, min_size=1, max_size=60), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["", "2"]))
def test_one_pod_is_planned_where_the_planner_would_place_it_among_all_nodes(
    nodes: list[FakeNode], chips: int, cpu: str
) -> None:
    named = [replace(node, name=f"n{number:02d}") for number, node in enumerate(nodes)]
    cluster = VolcanoCluster(*named, settings=PlacingSettings())
    (main,) = single("p", chips).containers
    limits = {**main.limits, **({"cpu": cpu} if cpu else {})}
    cluster.submit(replace(single("p", chips), gates=(), containers=(replace(main, limits=limits),)))
    state = state_of(cluster.broker)
    view = state.groups.view(state.groups.key_of("uid-p"))
    assert view
    plan = ended(planning(state, view))
    event("planned" if plan else "does not fit")
    assert plan == among_all(state, view)
