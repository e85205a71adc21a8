"""Random plans against brute force: the levels of a plan, of a gang that does not fit completely, and of large groups."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from linkwise.engine.planning.planner import fits
from support.properties.enumeration import best_values
from support.properties.group_problems import planned, planned_gang, problem_of, random_question, run, values_of

if TYPE_CHECKING:
    from linkwise.engine.planning.planner import Outline
    from support.properties.enumeration import Values
    from support.properties.group_problems import Question

__all__ = ["assert_best_of_a_gang", "assert_best_of_all_members", "assert_honest", "check_random_plans"]


def check_random_plans(seed: int) -> None:
    """Plan one random group in every way; an AssertionError has the question."""
    question = random_question(random.Random(seed))
    assert_best_of_all_members(question)
    assert_best_of_a_gang(question)
    assert_honest(question)


def best_of(question: Question, least: int | None = None) -> Values | None:
    """The values of the best plans, by brute force."""
    return best_values(
        question.places,
        question.sizes,
        required=question.required,
        seed_order=question.seed_order,
        floor=question.floor,
        least=least,
        distinct=question.distinct,
    )


def assert_best_of_all_members(question: Question) -> None:
    """All members are placed as well as possible in every level."""
    found, _ = planned(problem_of(question))
    assert _values(found) == best_of(question), question
    assert found is None or all(level.proven for level in found.levels), question


def assert_best_of_a_gang(question: Question) -> None:
    """As many members as fit are placed, as well as possible in every level."""
    assert _values(planned_gang(problem_of(question))) == best_of(question, least=1), question


def assert_honest(question: Question) -> None:
    """Without its exact table, as for large groups, a plan may be worse, but then the first worse level is not proven."""
    problem, best = problem_of(question), best_of(question)
    found, _ = planned(problem, table=0)
    if found is None:
        fit, proven = run(fits(problem, table=0))[0]
        assert not fit, question
        assert best is None or not proven, question
        return
    assert best is not None, question
    proven_levels = {level.name: level.proven for level in found.levels}
    mine = _by_level(values_of(found), seed_order=question.seed_order)
    ideal = _by_level(best, seed_order=question.seed_order)
    worse = next((name for name in mine if mine[name] != ideal[name]), None)
    assert worse is None or not proven_levels[worse], (worse, question)


def _by_level(values: Values, *, seed_order: bool) -> dict[str, object]:
    """The values by the name of their level, in the order of the levels."""
    left = {"left-over": values.left}
    speeds = {"bottleneck": values.bottleneck, "per pod": values.member}
    first = {"placed": values.placed, "nodes": values.nodes, "network": values.network}
    residual = {"residual": values.loss}
    return {**first, **left, **speeds, **residual} if seed_order else {**first, **speeds, **residual, **left}


def _values(found: Outline | None) -> Values | None:
    return None if found is None else values_of(found)
