"""Members of one node, in the layouts that its hardware requires."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import PickedHost, arranged
from linkwise.model.verdict import Offer
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.testing.nodes import ask, node
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.model.node import Node

POLICY = RingAffinity()
TIGHT = (4, 3, 3, 2, 2, 2)
"""fits two rings of 8 only as 4, 2, 2 and 3, 3, 2"""


def query(size: int, profile: str) -> Query:
    return Query(ask(size, profile=profile), "ascend", POLICY)


def asked(profile: str, sizes: tuple[int, ...]) -> list[Query]:
    return [query(size, profile) for size in sizes]


@pytest.mark.rule("003.ring")
def test_members_fill_two_rings_if_any_division_does() -> None:
    offers, proven = arranged(node(16, profile="ascend-910b-16"), asked("ascend-910b-16", TIGHT))
    assert offers is not None
    assert proven
    rings = [{int(device[1:]) // 8 for device in offer.devices} for offer in offers]
    assert all(len(ring) == 1 for ring in rings)


def test_a_refusal_after_too_many_layouts_is_not_called_proven() -> None:
    machine, queries = node(16, profile="ascend-910b-16"), asked("ascend-910b-16", (7, 6, 3))
    assert arranged(machine, queries) == (None, True)
    assert arranged(machine, queries, tries=1) == (None, False)


def test_a_host_says_whether_its_refusals_are_proven() -> None:
    host = PickedHost(node(16, profile="ascend-910b-16"), {size: query(size, "ascend-910b-16") for size in (2, 3, 4)})
    assert host.slots(3, floors=None) == 4  # type: ignore[arg-type]
    assert host.exact


PROFILES = ("ascend-910", "ascend-910c-8", "atlas-350-mesh-8", "ascend-910b", "ascend-310p-duo", "ascend-310-card")


@st.composite
def tight_nodes(draw: st.DrawFn) -> tuple[str, list[int], tuple[int, ...]]:
    profile = draw(st.sampled_from(PROFILES))
    free = sorted(draw(st.sets(st.integers(0, 7), min_size=3)))
    counts = [count for count in RING_PROFILES[profile].counts() if count <= len(free)]
    sizes = draw(st.lists(st.sampled_from(counts or [1]), min_size=2, max_size=5))
    return profile, free, tuple(sorted(sizes, reverse=True))


def layouts(machine: Node, size: int, profile: str) -> list[frozenset[str]]:
    """Every set of devices that the policy accepts if only they are free."""
    free = [device.id for device in machine.free()]
    sets = map(frozenset, combinations(free, size))
    return [own for own in sets if isinstance(POLICY.pick(ask(size, profile=profile), machine.with_only(own)), Offer)]


def possible(allowed: dict[int, list[frozenset[str]]], sizes: tuple[int, ...], used: frozenset[str]) -> bool:
    return not sizes or any(not own & used and possible(allowed, sizes[1:], used | own) for own in allowed[sizes[0]])


@settings(deadline=None, max_examples=examples(200))
@given(tight_nodes())
def test_members_fit_a_node_exactly_if_some_choice_of_devices_fits_them(
    tight: tuple[str, list[int], tuple[int, ...]],
) -> None:
    profile, free, sizes = tight
    machine = node(8, free=free, profile=profile)
    offers, proven = arranged(machine, asked(profile, sizes))
    allowed = {size: layouts(machine, size, profile) for size in set(sizes)}
    assert (offers is not None) == possible(allowed, sizes, frozenset())
    assert proven
    taken = [device for offer in offers or () for device in offer.devices]
    assert len(taken) == len(set(taken))
    assert all(frozenset(offer.devices) in allowed[size] for offer, size in zip(offers or (), sizes, strict=False))
