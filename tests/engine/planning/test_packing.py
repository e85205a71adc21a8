"""Groups of unequal members that are too many for the exact table."""

from __future__ import annotations

from linkwise.engine.planning.hosts import CountedHost, Floors
from linkwise.engine.planning.planner import fits, outline
from linkwise.engine.planning.problem import GroupProblem, MemberKind, Rack, Region, Spot
from linkwise.engine.planning.spread_packed import Budget, packed_on
from support.properties.group_problems import run

TIGHT = (MemberKind(4, 1), MemberKind(3, 2), MemberKind(2, 3))
"""16 devices, which fill two nodes of 8 only as 4, 2, 2 and 3, 3, 2; best fit puts 3 beside 4"""


def problem(*rooms: int, kinds: tuple[MemberKind, ...] = TIGHT) -> GroupProblem:
    caps = tuple(kind.count for kind in kinds)
    return GroupProblem(kinds, tuple(Spot(f"n{i}", CountedHost(room), caps) for i, room in enumerate(rooms)))


def region(asked: GroupProblem) -> Region:
    return Region((), [Rack((), asked.spots)])


def test_members_that_best_fit_can_not_place_are_placed_by_backtracking() -> None:
    asked = problem(8, 8)
    found, _ = run(outline([asked], table=0))
    assert found is not None
    assert sorted(asked.devices(counts) for counts in found.counts.values()) == [8, 8]


def test_members_that_best_fit_places_need_no_search() -> None:
    asked = problem(8, 8, kinds=(MemberKind(5, 2), MemberKind(3, 2)))
    packed, _ = run(packed_on(asked, region(asked), 2, Floors(), Budget(0)))
    assert packed.counts == {"n0": (1, 1), "n1": (1, 1)}


def test_a_search_that_ends_within_its_limit_proves_a_refusal() -> None:
    asked = problem(7, 7, kinds=(MemberKind(5, 1), MemberKind(3, 3)))
    assert run(packed_on(asked, region(asked), 2, Floors(), Budget()))[0] == (None, True)
    assert run(packed_on(asked, region(asked), 2, Floors(), Budget(3)))[0] == (None, False)
    assert run(fits(asked, table=0))[0] == (False, True)


def test_levels_found_without_a_proof_do_not_claim_one() -> None:
    found, _ = run(
        outline([problem(*(8, 7, 5) * 9, kinds=tuple(MemberKind(size, 3) for size in (5, 4, 3, 2)))], table=0)
    )
    assert found is not None
    proven = {level.name: level.proven for level in found.levels}
    assert proven["placed"]
    assert not proven["left-over"]
