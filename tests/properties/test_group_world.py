"""Anything may happen to groups of pods, in any order, and what must be true stays true; `make soak` does it for longer."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.group_world import GroupWorld

CHOICE = st.integers(0, 255)
SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


class GroupMachine(RuleBasedStateMachine):
    world: GroupWorld

    @initialize(families=CHOICE, nodes=CHOICE, kind=CHOICE)
    def begin(self, families: int, nodes: int, kind: int) -> None:
        self.world = GroupWorld(families, nodes, kind)

    @rule(move=st.sampled_from(list(GroupWorld.moves)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)


GroupMachine.TestCase.settings = settings(
    max_examples=examples(50), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroupMachine = GroupMachine.TestCase


def test_a_world_with_groups_is_lived_from_its_seed_as_long_as_asked() -> None:
    assert SOAK["live"](7, 60, kind="group") == 60


@pytest.mark.parametrize(
    "seed",
    [
        1794818268671502222,
        1794819036324386487,
        1794820112640560269,
        1794829670472058008,
        1794831281881333312,
        1794832025979523827,
    ],
)
def test_worlds_that_once_went_wrong_are_lived_to_their_end(seed: int) -> None:
    assert SOAK["live"](seed, 80, kind="group") == 80
