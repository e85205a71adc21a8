"""Planning parts of devices pauses often, counted by function calls: the same number on any machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from linkwise.engine.planning.hosts import PartSize
from linkwise.engine.planning.parts import Amount, Card, PartsHost, at_least
from linkwise.engine.planning.planner import outline
from linkwise.engine.planning.problem import GroupProblem, MemberKind, Spot

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

PERCENTS = (60, 45, 35, 20)
LIMIT = 50_000  # function calls: about ten milliseconds; without pauses inside a node it is several times as many


def host(seed: int, devices: int = 8) -> PartsHost:
    """Devices with different room."""
    rooms = [100 if (place + seed) % 3 == 0 else 30 + (place * 17 + seed * 11) % 60 for place in range(devices)]
    needs = [tuple(Amount(percent) if percent <= room else None for percent in PERCENTS) for room in rooms]
    cards = {
        place: Card(Amount(room), need, idle=room == 100, size=100)
        for place, (room, need) in enumerate(zip(rooms, needs, strict=True))
    }
    values = tuple(tuple(0.0 if i == j else 25.0 * (1 + (i ^ j) % 3) for j in range(devices)) for i in range(devices))
    return PartsHost(values, cards, ("",) * len(PERCENTS), distinct=False)


def problem(nodes: int) -> GroupProblem:
    kinds = tuple(MemberKind(PartSize(number, at_least(percent / 100)), 2) for number, percent in enumerate(PERCENTS))
    return GroupProblem(kinds, tuple(Spot(f"n{number}", host(number), (2,) * len(kinds)) for number in range(nodes)))


def longest_step(steps: Generator[None, None, object]) -> int:
    """Function calls of the longest step."""
    longest = calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in steps:
            longest, calls = max(longest, calls), 0
    finally:
        sys.setprofile(previous)
    return max(longest, calls)


def test_no_step_of_planning_unequal_parts_takes_long() -> None:
    assert longest_step(outline([problem(2)])) < LIMIT
