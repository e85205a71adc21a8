from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Offer, Topology
from linkwise.model.node import Use
from linkwise.model.topology import MAX_VALUE, numbered
from linkwise.policies.registry import POLICIES
from linkwise.testing.machines import DGX1
from linkwise.testing.nodes import ask, node, share_ask
from linkwise.topology.fabric import LARGEST_LOSS, NO_LOSS, SIZES, by_least_loss, fabric_of, least_lost, loss, losses
from linkwise.vendors.machines import profile
from support.profile import examples

TAKEN = Use(whole=True)
KINDS = (0.0, 16.0, 48.0, 96.0)


Values = tuple[tuple[float, ...], ...]


def matrix(draw: st.DrawFn, count: int) -> Values:
    rows = [[0.0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        rows[i][j] = rows[j][i] = draw(st.sampled_from(KINDS))
    return tuple(map(tuple, rows))


@st.composite
def machines(draw: st.DrawFn) -> tuple[Values, list[int]]:
    count = draw(st.integers(1, 6))
    free = draw(st.lists(st.integers(0, count - 1), unique=True, min_size=1))
    return matrix(draw, count), sorted(free)


def good(values: Values, size: int) -> list[tuple[int, ...]]:
    """The sets within 5% of the best of the empty machine."""
    slowest = {
        members: min(values[i][j] for i, j in combinations(members, 2))
        for members in combinations(range(len(values)), size)
    }
    return [members for members, value in slowest.items() if value >= 0.95 * max(slowest.values())]


def most_disjoint(sets: list[tuple[int, ...]]) -> int:
    rests = [[other for other in sets if not set(other) & set(one)] for one in sets]
    return max((1 + most_disjoint(rest) for rest in rests), default=0)


@settings(max_examples=examples(100), deadline=None)
@given(machines())
def test_the_loss_is_what_counting_all_good_sets_finds(machine: tuple[Values, list[int]]) -> None:
    values, free = machine
    lost = fabric_of(values).losses(sum(1 << one for one in free))
    for place, size in enumerate(SIZES):
        sets = good(values, size)
        worth = max((round(sum(values[i][j] for i, j in combinations(members, 2))) for members in sets), default=0)
        here = [members for members in sets if set(members) <= set(free)]
        for taken in free:
            left = [members for members in here if taken not in members]
            assert lost[taken][place] == worth * (most_disjoint(here) - most_disjoint(left))


@settings(max_examples=examples(150), deadline=None)
@given(machines(), st.sampled_from(["link-affinity", "bandwidth", "memory-share"]))
def test_whatever_needs_no_link_takes_a_device_of_least_loss(machine: tuple[Values, list[int]], policy: str) -> None:
    values, free = machine
    built = node(len(values), free=free, topology=Topology(numbered(len(values)), bandwidth=values))
    built = replace(built, mode="any", devices=tuple(replace(device, memory=10) for device in built.devices))
    wish = share_ask(5) if policy == "memory-share" else ask(1)
    offer = POLICIES[policy].pick(wish, built)
    assert isinstance(offer, Offer)
    lost = losses(built)
    assert lost[offer.devices[0]] == min(lost.values())


@pytest.mark.rule("002.pack")
@pytest.mark.parametrize("name", ["dgx1-v100", "v100-pcie", "a100-bridged", "dgx-a100", "dgx2-v100", "unknown"])
@pytest.mark.parametrize("policy", ["link-affinity", "bandwidth", "memory-share"])
def test_single_devices_fill_one_of_three_equal_machines_before_the_next(name: str, policy: str) -> None:
    topology = None if name == "unknown" else profile(name).topology
    count = len(topology.devices) if topology else 8
    fleet = [node(count, name=f"n{number}", topology=topology) for number in range(3)]
    fleet = [replace(one, devices=tuple(replace(each, memory=1) for each in one.devices)) for one in fleet]
    wish = share_ask(1) if policy == "memory-share" else ask(1)
    for placed in range(count):
        offers = [(one, POLICIES[policy].pick(wish, one)) for one in fleet]
        _, best, offer = max(
            (POLICIES[policy].score(wish, one, offer), -number, offer)
            for number, (one, offer) in enumerate(offers)
            if isinstance(offer, Offer)
        )
        assert -best == 0, f"pod {placed} opens another machine"
        fleet[0] = replace(fleet[0], used={**fleet[0].used, offer.devices[0]: TAKEN})


def test_a_machine_without_link_data_loses_no_small_set_but_a_whole_machine() -> None:
    assert loss(node(), ["d0"]) == (0, 1, 0, 0)
    assert loss(node(free=range(7)), ["d0"]) == NO_LOSS


def test_a_device_that_the_links_do_not_tell_of_loses_nothing() -> None:
    six = Topology(numbered(6), links=tuple(row[:6] for row in DGX1.links[:6]))
    assert loss(node(topology=six), ["d7"]) == NO_LOSS
    assert "d7" not in losses(node(topology=six))


@pytest.mark.parametrize("count", [0, 1, 2, 17, 40])
def test_machines_of_any_size_have_a_loss(count: int) -> None:
    topology = Topology(numbered(count), bandwidth=((5.0,) * count,) * count)
    for machine in (node(count, topology=topology), node(count)):
        lost = losses(machine)
        assert set(lost) == {f"d{index}" for index in range(count)}
        assert count <= 16 or set(lost.values()) == {NO_LOSS}


def test_absurd_bandwidths_do_not_exceed_the_largest_loss() -> None:
    topology = Topology(numbered(8), bandwidth=((float(MAX_VALUE),) * 8,) * 8)
    assert max(loss(node(topology=topology), ["d0"])) == LARGEST_LOSS


@settings(max_examples=examples(100), deadline=None)
@given(machines())
def test_the_device_that_is_taken_is_the_first_of_the_order_that_is_explained(
    machine: tuple[Values, list[int]],
) -> None:
    values, free = machine
    topology = Topology(numbered(len(values)), bandwidth=values)
    assert least_lost(topology, values, free) == by_least_loss(topology, values, free)[0]
