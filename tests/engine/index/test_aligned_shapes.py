"""Nodes of one shape have equal verdicts, also where NUMA nodes and NICs matter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.engine.index.node_index import Index, Query, judge
from linkwise.model.node import TOPOLOGY_POLICIES, NumaAlignment
from linkwise.model.settings import PlacingSettings
from linkwise.policies.registry import policies_with
from linkwise.testing.nodes import ask, node
from linkwise.vendors.machines import profile
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.model.node import Node

WORDS = frozenset({"nvidia"})
MACHINES = st.builds(
    node,
    st.just(8),
    free=st.sets(st.integers(0, 7)),
    numa=st.lists(st.sampled_from([0, 1, None]), min_size=8, max_size=8),
    nics=st.sets(st.integers(0, 7)),
    alignment=st.none() | st.builds(NumaAlignment, st.sampled_from(TOPOLOGY_POLICIES)),
    topology=st.just(profile("hgx-h100").topology),
)


@pytest.mark.rule("002.affinity")
@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(MACHINES, min_size=2, max_size=6),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(["link-affinity", "bandwidth"]),
)
def test_a_table_has_the_verdict_of_every_single_node(machines: list[Node], size: int, nic: bool, name: str) -> None:  # noqa: FBT001 - hypothesis
    placing = PlacingSettings(nic=nic)
    index, query = Index(placing), Query(ask(size), "nvidia", policies_with(placing)[name])
    named = [replace(machine, name=f"n{number}") for number, machine in enumerate(machines)]
    for machine in named:
        index.put(machine, WORDS)
    table = index.table(query)
    for machine in named:
        verdict = judge(query, machine, WORDS)
        if isinstance(verdict, tuple):
            assert table.codes[machine.name] == verdict
        else:
            assert table.refused[machine.name].reason == verdict.reason
