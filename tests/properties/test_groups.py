"""Plans of groups equal the best of all plans there are, level by level."""

from __future__ import annotations

from itertools import accumulate, permutations

import pytest
from hypothesis import assume, given, settings

from linkwise.engine.planning.seating import Room, share_out
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import NEAR, fabric_of
from support.profile import examples
from support.properties.enumeration import Place, Share, best_values
from support.properties.group_problems import Question, planned, problem_of, questions, values_of
from support.properties.random_plans import assert_best_of_a_gang, assert_best_of_all_members, assert_honest


@pytest.mark.rule("001.fewest-nodes")
@pytest.mark.rule("001.left-over")
@settings(deadline=None, max_examples=examples(400))
@given(questions())
def test_a_plan_is_as_good_as_the_best_of_all_plans_in_every_level(question: Question) -> None:
    assert_best_of_all_members(question)


@pytest.mark.rule("001.tolerant")
@settings(deadline=None, max_examples=examples(200))
@given(questions())
def test_a_gang_that_does_not_fit_places_the_most_members_as_well_as_any_plan(question: Question) -> None:
    assert_best_of_a_gang(question)


@settings(deadline=None, max_examples=examples(300))
@given(questions())
def test_a_plan_made_without_the_table_claims_no_proof_where_it_is_worse(question: Question) -> None:
    assert_honest(question)


@settings(deadline=None, max_examples=examples(60))
@given(questions())
def test_a_plan_does_not_depend_on_the_order_of_nodes(question: Question) -> None:
    outlines = [planned(problem_of(question._replace(places=order)))[0] for order in permutations(question.places)]
    assert all(one == outlines[0] for one in outlines)


@settings(deadline=None, max_examples=examples(60))
@given(questions())
def test_a_plan_made_without_the_table_does_not_depend_on_the_order_of_nodes(question: Question) -> None:
    orders = permutations(question.places)
    outlines = [planned(problem_of(question._replace(places=order)), table=0)[0] for order in orders]
    assert all(one == outlines[0] for one in outlines)


@settings(deadline=None, max_examples=examples(150))
@given(questions())
def test_a_large_group_of_equals_is_planned_like_a_small_one(question: Question) -> None:
    """Without its table the planner spreads equal members by slots: as few nodes, as fast, at no less loss."""
    equal = question._replace(sizes=(question.sizes[0],) * len(question.sizes), seed_order=False)
    exact, _ = planned(problem_of(equal))
    spread, _ = planned(problem_of(equal), table=0)
    assert (exact is None) == (spread is None)
    if exact and spread:
        mine, best = values_of(spread), values_of(exact)
        assert mine[:4] == best[:4]
        proven = all(level.proven for level in spread.levels)
        assert (mine[4:] == best[4:]) if proven else (mine[4:] >= best[4:])


@pytest.mark.rule("001.split")
@settings(deadline=None, max_examples=examples(200))
@given(questions())
def test_devices_of_a_node_are_shared_out_as_fast_as_can_be(question: Question) -> None:
    first = question.places[0]
    assume(first.free and not first.profile and not first.rooms)
    place = first._replace(most=99, path=())
    whole = [size for size in question.sizes if not isinstance(size, Share)]
    sizes = [size for size, used in zip(whole, accumulate(whole), strict=True) if used <= len(place.free)] or [1]
    best = best_values([place], sizes, floor=question.floor) or best_values([place], sizes)
    fabric = fabric_of(place.values)
    shares = share_out(fabric, Room(mask_of(place.free), mask_of(place.held)), sizes, question.floor)
    union = [device for share in shares for device in share]
    assert best is not None
    assert [len(share) for share in shares] == sizes
    assert len(set(union)) == len(union)
    assert fabric.bottleneck(mask_of((*union, *place.held))) >= NEAR * best.bottleneck
    assert min(fabric.bottleneck(mask_of(share)) for share in shares) >= max(
        NEAR * best.member, min(question.floor, best.member)
    )


def test_in_seed_order_a_part_goes_to_a_used_device_even_if_that_loses_a_good_pair() -> None:
    """One whole device and 30% of one: the used device is fast enough only beside a device of the best pair."""
    values = (
        (0.0, 50.0, 51.0, 51.0, 51.0),
        (50.0, 0.0, 50.0, 51.0, 50.0),
        (51.0, 50.0, 0.0, 10.0, 10.0),
        (51.0, 51.0, 10.0, 0.0, 100.0),
        (51.0, 50.0, 10.0, 100.0, 0.0),
    )
    rooms = ((100, 100), (70, 10), (100, 100), (100, 100), (100, 100))
    place = Place("n0", values, (0, 1, 2, 3, 4), rooms=rooms)
    assert_best_of_all_members(Question((place,), (1, Share(30)), seed_order=True))
