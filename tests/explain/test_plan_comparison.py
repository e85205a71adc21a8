"""Why a plan lost, in words."""

from __future__ import annotations

from math import inf

import pytest

from linkwise.engine.planning.planner import Level
from linkwise.explain.group.group import Compared, best_of, compared


def levels(**worth: tuple[float, ...]) -> list[Level]:
    """A plan's levels, the usual ones where nothing is said."""
    usual: dict[str, tuple[float, ...]] = {
        "placed": (4.0,),
        "nodes": (2.0,),
        "network": (1.0, 2.0),
        "bottleneck": (96.0,),
        "per pod": (96.0,),
        "residual": (0.0, 1.0, 2.0, 4.0),
        "left-over": (3.0,),
    }
    named = {name.replace("_", " ").replace("left over", "left-over"): value for name, value in worth.items()}
    return [Level(name, value) for name, value in (usual | named).items()]


CHOSEN = levels()


@pytest.mark.parametrize(
    ("other", "level", "sentence"),
    [
        (levels(placed=(3.0,)), "placed", "places 3 members instead of 4"),
        (levels(nodes=(3.0,)), "nodes", "uses 3 nodes instead of 2"),
        (levels(network=(2.0,)), "network", "spans 2 domains of zone instead of 1"),
        (levels(network=(1.0, 3.0)), "network", "spans 3 domains of rack instead of 2"),
        (levels(bottleneck=(46.4,)), "bottleneck", "its slowest pair has 46.4 GB/s instead of 96 GB/s"),
        (levels(bottleneck=(0.0,)), "bottleneck", "no link data"),
        (levels(per_pod=(46.4,)), "per pod", "the slowest pair of a member has 46.4 GB/s instead of 96 GB/s"),
        (levels(residual=(0.0, 1.0, 4.0, 4.0)), "residual", "leaves 2 fewer good sets of 4 to other pods"),
        (levels(residual=(1.0, 0.0, 0.0, 0.0)), "residual", "leaves 1 fewer good set of 16 to other pods"),
        (levels(left_over=(5.0,)), "left-over", "leaves 5 devices free on its nodes instead of 3"),
        (levels(), "", "tie broken by node name"),
    ],
)
def test_the_first_level_that_differs_says_why(other: list[Level], level: str, sentence: str) -> None:
    assert compared(CHOSEN, other, ("zone", "rack")) == Compared(level, sentence)


def test_what_is_within_five_percent_counts_as_equal() -> None:
    assert compared(CHOSEN, levels(bottleneck=(92.0,), left_over=(4.0,))).level == "left-over"


def test_a_plan_that_is_better_later_was_too_slow_before() -> None:
    near = levels(bottleneck=(92.0,), residual=(0.0, 0.0, 0.0, 0.0))
    sentence = "its slowest pair has less than 91.2 GB/s, more than 5% below the best"
    assert compared(CHOSEN, near) == Compared("bottleneck", sentence)
    both = levels(bottleneck=(92.0,), per_pod=(92.0,), residual=(0.0, 0.0, 0.0, 0.0))
    assert compared(CHOSEN, both).sentence == (
        "its slowest pair, or that of a member, is more than 5% slower than the best"
    )


def test_a_plan_that_is_better_now_is_said_to_be() -> None:
    assert compared(CHOSEN, levels(nodes=(1.0,))) == Compared("nodes", "uses 1 node instead of 2", better=True)


def test_devices_without_a_pair_have_no_bottleneck() -> None:
    alone = levels(bottleneck=(inf,), per_pod=(inf,))
    assert compared(alone, levels(bottleneck=(48.0,))).sentence == "its slowest pair has 48 GB/s; the plan has no pairs"


def test_the_best_of_some_plans_is_the_best_level_by_level() -> None:
    slow, near, wide = levels(bottleneck=(10.0,)), levels(bottleneck=(93.0,), left_over=(1.0,)), levels(nodes=(3.0,))
    assert best_of([wide, slow, levels(), near]) == 3
    assert best_of([levels(), levels()]) == 0
