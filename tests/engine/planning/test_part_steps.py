"""Planning parts of devices pauses often and looks only at what decides, counted by function calls: the same on any machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import PartSize
from linkwise.engine.planning.parts import Amount, Card, PartsHost, at_least
from linkwise.engine.planning.plan import Member
from linkwise.engine.planning.planner import outline
from linkwise.engine.planning.problem import GroupProblem, MemberKind, Spot
from linkwise.engine.planning.seating import seated
from linkwise.model.ask import Demand
from linkwise.policies.memory_share import MemoryShare
from linkwise.testing.nodes import share_ask, share_node

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

PERCENTS = (60, 45, 35, 20)
MANY_PERCENTS = (75, 70, 65, 60, 55, 50, 45, 40, 35, 30, 25, 20)
LIMIT = 30_000  # function calls: less than ten milliseconds; without pauses inside a node it is several times as many


def host(seed: int, devices: int = 8, percents: tuple[int, ...] = PERCENTS) -> PartsHost:
    """Devices with different room."""
    rooms = [100 if (place + seed) % 3 == 0 else 30 + (place * 17 + seed * 11) % 60 for place in range(devices)]
    needs = [tuple(Amount(percent) if percent <= room else None for percent in percents) for room in rooms]
    cards = {
        place: Card(Amount(room), need, idle=room == 100, size=100)
        for place, (room, need) in enumerate(zip(rooms, needs, strict=True))
    }
    values = tuple(tuple(0.0 if i == j else 25.0 * (1 + (i ^ j) % 3) for j in range(devices)) for i in range(devices))
    return PartsHost(values, cards, ("",) * len(percents), distinct=False)


def problem(nodes: int, each: int = 2, percents: tuple[int, ...] = PERCENTS) -> GroupProblem:
    kinds = tuple(
        MemberKind(PartSize(number, at_least(percent / 100)), each) for number, percent in enumerate(percents)
    )
    spots = (Spot(f"n{number}", host(number, percents=percents), (each,) * len(kinds)) for number in range(nodes))
    return GroupProblem(kinds, tuple(spots))


def calls_per_step(steps: Generator[None, None, object]) -> list[int]:
    """Function calls of each step."""
    counts, calls = [], 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in steps:
            counts.append(calls)
            calls = 0
    finally:
        sys.setprofile(previous)
    return [*counts, calls]


def seating(each: int, percents: tuple[int, ...]) -> Generator[None, None, object]:
    """The devices of one node for members with these shares of 100, as many of each."""
    wanted = [Query(share_ask(percent), "shares", MemoryShare()) for percent in percents]
    members = [Member(f"{n}-{query.ask.share}", "m", query, Demand()) for query in wanted for n in range(each)]
    return seated(share_node(100, (100, 95, 90, 85, 80, 75, 70, 100)), (), members)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(lambda: outline([problem(2)]), id="four-kinds"),
        pytest.param(lambda: outline([problem(20, each=3)]), id="twenty-nodes"),
        pytest.param(lambda: outline([problem(20, each=12)]), id="too-many-for-the-table"),
        pytest.param(lambda: outline([problem(2, 1, MANY_PERCENTS)]), id="twelve-kinds"),
        pytest.param(lambda: seating(2, PERCENTS), id="seating"),
        pytest.param(lambda: seating(1, MANY_PERCENTS), id="seating-twelve-kinds"),
    ],
)
def test_no_step_of_planning_unequal_parts_takes_long(steps: Callable[[], Generator[None, None, object]]) -> None:
    assert max(calls_per_step(steps())) < LIMIT


def test_only_combinations_that_can_decide_are_searched() -> None:
    assert sum(calls_per_step(outline([problem(20)]))) < 1_000_000
