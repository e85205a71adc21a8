"""Over generated clusters: the index of rooms says of every node what the policy does, the best first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Ask, Node, Offer
from linkwise.engine.index.share_index import ShareIndex
from linkwise.model.settings import ShareSettings
from linkwise.policies.memory_share import MemoryShare
from support.profile import examples
from support.properties.strategies import asks, nodes

if TYPE_CHECKING:
    from linkwise.model.node import Mode

WORLD = settings(max_examples=examples(200), deadline=None)
STRANGERS = [f"x{number}" for number in range(1100)]  # with so many names no node is looked up by itself
SETTINGS = st.builds(
    ShareSettings,
    order=st.sampled_from(["binpack", "spread"]),
    within=st.sampled_from(["namespace", "any"]),
)
LENGTHS = st.sampled_from([[], STRANGERS])
MODES: list[Mode] = ["share", "share", "any", "percent", "whole"]


def in_bytes(ask: Ask) -> Ask:
    containers = tuple(replace(container, share=container.share * 40) for container in ask.containers)
    return replace(ask, containers=containers, in_bytes=True)


SHARES = (asks("share") | asks("percent")).filter(lambda ask: MemoryShare().admit(ask) is None)
ASKS = SHARES | SHARES.map(in_bytes)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Node]:
    drawn = draw(st.lists(st.one_of([nodes(mode, most=3) for mode in MODES]), max_size=8))
    return {f"n{number}": draw(varied(node, f"n{number}")) for number, node in enumerate(drawn)}


@st.composite
def varied(draw: st.DrawFn, node: Node, name: str) -> Node:
    size = st.sampled_from([0, 1000, 2000])
    devices = tuple(replace(device, bytes=draw(size)) for device in node.devices)
    unknown = draw(st.sampled_from([(0, 0), (0, 0), (3, 0), (0, 30)]))
    return replace(node, name=name, devices=devices, unattributed_share=unknown[0], unattributed_core=unknown[1])


def rooms_of(cluster: dict[str, Node], chosen: ShareSettings) -> ShareIndex:
    rooms = ShareIndex(chosen)
    for node in cluster.values():
        rooms.put(node)
    return rooms


def scores(cluster: dict[str, Node], ask: Ask, chosen: ShareSettings) -> dict[str, tuple[int, ...]]:
    """What the policy says of each node that it offers a device of."""
    policy = MemoryShare(chosen)
    offers = {name: policy.pick(ask, node) for name, node in cluster.items()}
    return {name: policy.score(ask, cluster[name], offer) for name, offer in offers.items() if isinstance(offer, Offer)}


@pytest.mark.rule("004.filter", "004.binpack", "004.mode", "002.segregate")
@WORLD
@given(clusters(), ASKS, SETTINGS, LENGTHS)
def test_a_node_fits_and_is_as_good_as_the_policy_says(
    cluster: dict[str, Node], ask: Ask, chosen: ShareSettings, others: list[str]
) -> None:
    rooms, left = rooms_of(cluster, chosen), scores(cluster, ask, chosen)
    names = [*cluster, *others]
    assert rooms.scores(names, ask) == left
    assert rooms.all_fitting(names, ask) == [name for name in names if name in left]


@WORLD
@given(clusters(), ASKS, SETTINGS, st.integers(1, 9), st.sets(st.integers(0, 7)), LENGTHS)
def test_nodes_come_by_score_and_name_without_those_left_out(  # noqa: PLR0913, PLR0917 - what a request is made of
    cluster: dict[str, Node], ask: Ask, chosen: ShareSettings, breadth: int, left_out: set[int], others: list[str]
) -> None:
    without = {f"n{number}" for number in left_out}
    code = {name: score for name, score in scores(cluster, ask, chosen).items() if name not in without}
    expected = sorted(code, key=lambda name: ([-term for term in code[name]], name))[:breadth]
    for names in ([*others, *cluster], [*reversed(cluster), *others]):
        assert rooms_of(cluster, chosen).fitting(names, ask, breadth, without) == expected


@WORLD
@given(clusters(), clusters(), st.lists(st.integers(0, 7)), ASKS, SETTINGS)
def test_what_was_before_leaves_no_trace(
    before: dict[str, Node], after: dict[str, Node], gone: list[int], ask: Ask, chosen: ShareSettings
) -> None:
    changed, now = rooms_of(before, chosen), before | after
    for node in after.values():
        changed.put(node)
    for name in {f"n{number}" for number in gone}:
        changed.drop(name)
        now.pop(name, None)
    rebuilt = rooms_of(dict(reversed(now.items())), chosen)
    for names in ([*before, *after], [*reversed(now), *STRANGERS]):
        assert changed.fitting(names, ask, 3, {"n0"}) == rebuilt.fitting(names, ask, 3, {"n0"})
        assert changed.all_fitting(names, ask) == rebuilt.all_fitting(names, ask)
