"""The decision table of the Ascend 910: every request, every state of both rings, every number of unhealthy chips."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from linkwise import Node, Offer, Reason, Reject
from linkwise.policies.ring_affinity import RingAffinity, group_letter, place_in_rings, single_number
from linkwise.policies.ring_profiles import ring_profile
from linkwise.testing.nodes import ask, node

POLICY = RingAffinity()
PROFILE = ring_profile("ascend-910")

# Rows: idle chips of ring 0; columns: of ring 1. The group, and the ring that is chosen.
TABLE = {
    1: """
    -  A1 C1 B1 D1
    A0 A0 A0 A0 A0
    C0 A1 C0 B1 C0
    B0 A1 B0 B0 B0
    D0 A1 C1 B1 D0""",
    2: """
    -  -  A1 C1 B1
    -  -  A1 C1 B1
    A0 A0 A0 A0 A0
    C0 C0 A1 C0 B1
    B0 B0 A1 B0 B0""",
    4: """
    -  -  -  -  A1
    -  -  -  -  A1
    -  -  -  -  A1
    -  -  -  -  A1
    A0 A0 A0 A0 A0""",
}

# The same by group, in the seed's words: chosen ring ~ other ring, the best first.
ORDER = {
    1: "1~0 1~1 1~2 1~3 1~4 3~0 3~2 3~3 3~4 2~0 2~2 2~4 4~0 4~4",
    2: "2~0 2~1 2~2 2~3 2~4 4~0 4~1 4~3 4~4 3~0 3~1 3~3",
    4: "4~0 4~1 4~2 4~3 4~4",
}

# The vendor's formula: how badly a ring with 1, 2, 3 or 4 idle chips fits; 4 means not at all.
VENDOR = {1: (0, 2, 1, 3), 2: (4, 0, 2, 1), 4: (4, 4, 4, 0)}


def machine(left: int, right: int, faulty: int = 0, name: str = "n") -> Node:
    """A 910 node with so many idle chips in each ring; faulty ones are among those not idle."""
    idle = {*range(left), *range(4, 4 + right)}
    bad = [chip for chip in range(8) if chip not in idle][:faulty]
    return node(8, name=name, free=idle, faulty=bad, profile="ascend-910")


def states() -> list[tuple[int, int, int]]:
    return [(left, right, bad) for left, right in product(range(5), repeat=2) for bad in range(9 - left - right)]


def score(size: int, state: tuple[int, int, int]) -> tuple[int, ...]:
    found = machine(*state)
    offer = POLICY.pick(ask(size), found)
    assert isinstance(offer, Offer)
    return POLICY.score(ask(size), found, offer)


def fitting(size: int) -> list[tuple[int, int, int]]:
    return [state for state in states() if isinstance(POLICY.pick(ask(size), machine(*state)), Offer)]


@pytest.mark.rule("003.groups", "003.ring", "003.one", "003.two", "003.four")
@pytest.mark.parametrize("size", TABLE)
def test_every_cell_of_the_decision_table(size: int) -> None:
    cells = [row.split() for row in TABLE[size].strip().splitlines()]
    for (left, right), faulty in product(product(range(5), repeat=2), (0, 1)):
        found, cell = machine(left, right, faulty if left + right < 8 else 0), cells[left][right]
        offer, lying = POLICY.pick(ask(size), found), place_in_rings(PROFILE, found, size)
        if cell == "-":
            assert isinstance(offer, Reject)
        else:
            assert isinstance(offer, Offer)
            assert lying is not None
            ring = int(cell[1])
            lowest = [f"d{chip}" for chip in range(4 * ring, 4 * ring + size)]
            assert (group_letter(lying), list(offer.devices)) == (cell[0], lowest)


@pytest.mark.rule("003.eight")
def test_eight_chips_are_the_whole_node() -> None:
    assert fitting(8) == [(4, 4, 0)]
    offer = POLICY.pick(ask(8), machine(4, 4))
    assert isinstance(offer, Offer)
    assert len(offer.devices) == 8


@pytest.mark.rule("003.groups", "003.full", "003.order")
@pytest.mark.parametrize("size", ORDER)
def test_the_order_of_states_is_the_seeds(size: int) -> None:
    order = [tuple(map(int, state.split("~"))) for state in ORDER[size].split()]
    scores = [score(size, (chosen, other, 0)) for chosen, other in order]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)
    assert {tuple(sorted(state)) for state in order} == {tuple(sorted(state[:2])) for state in fitting(size)}


@pytest.mark.rule("003.faulty")
@pytest.mark.parametrize("size", TABLE)
def test_a_sounder_node_goes_first_whatever_the_group(size: int) -> None:
    for first, second in combinations(fitting(size), 2):
        if first[2] != second[2]:
            assert (score(size, first) > score(size, second)) == (first[2] < second[2])


@pytest.mark.rule("003.order", "003.groups")
@pytest.mark.parametrize("size", TABLE)
def test_all_states_stand_in_the_order_of_the_vendors_formula(size: int) -> None:
    def vendor(state: tuple[int, int, int]) -> int:
        left, right, bad = state
        fit = min(VENDOR[size][idle - 1] for idle in (left, right) if idle)
        return 8 * (4 * (8 - bad) - fit) + (8 - left - right)

    for state in fitting(size):
        assert single_number(PROFILE, score(size, state)) == vendor(state)
    for first, second in combinations(fitting(size), 2):
        assert (score(size, first) > score(size, second)) == (vendor(first) > vendor(second))


@pytest.mark.rule("003.even")
@pytest.mark.parametrize("size", TABLE)
def test_preferring_even_rings_never_changes_the_order(size: int) -> None:
    # Two states that tie in everything before it have the same rings, left and right apart: nothing is left to prefer.
    for first, second in combinations(fitting(size), 2):
        if score(size, first) == score(size, second):
            assert sorted(first[:2]) == sorted(second[:2])


@pytest.mark.rule("003.predicate")
def test_enough_chips_and_no_ring_that_fits_is_a_reject_with_both_numbers() -> None:
    assert POLICY.pick(ask(2), machine(1, 1)) == Reject(
        "n", Reason("003.predicate", asked=2, found=(1, 1), kind="one group", noun="ring")
    )


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("size", [0, 3, 5, 6, 7, 9, 12, 16, -1, 10**9])
def test_counts_that_no_row_has_are_refused(size: int) -> None:
    reason = Reason("003.count", asked=size, found=(1, 2, 4, 8), noun="ascend-910")
    assert POLICY.admit(ask(size)) == reason
    assert POLICY.pick(ask(size), machine(4, 4)) == Reject("n", reason, final=True)


@pytest.mark.rule("003.ring")
def test_four_or_fewer_chips_never_cross_a_ring() -> None:
    for size, state in product((1, 2, 4), states()):
        offer = POLICY.pick(ask(size), machine(*state))
        if isinstance(offer, Offer):
            assert len({int(device[1:]) // 4 for device in offer.devices}) == 1


@pytest.mark.rule("003.faulty")
def test_a_faulty_chip_is_never_offered() -> None:
    for bad in combinations(range(8), 2):
        offer = POLICY.pick(ask(1), node(8, faulty=bad, profile="ascend-910"))
        assert isinstance(offer, Offer)
        assert not {f"d{chip}" for chip in bad} & set(offer.devices)


def test_a_chip_by_any_index_order_lies_in_the_ring_of_its_index() -> None:
    found = machine(1, 2)
    backwards = Node("n", found.devices[::-1], found.used, profile="ascend-910")
    offer = POLICY.pick(ask(2), backwards)
    assert isinstance(offer, Offer)
    assert offer.devices == ("d4", "d5")
