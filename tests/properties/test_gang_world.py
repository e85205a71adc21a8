"""Gangs as a real scheduler sees them: whatever happens, no pod waits in vain; `make soak` does it for longer."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.gang_world import GangWorld

CHOICE = st.integers(0, 255)
SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


class GangMachine(RuleBasedStateMachine):
    world: GangWorld

    @initialize(families=CHOICE, nodes=CHOICE, kind=CHOICE)
    def begin(self, families: int, nodes: int, kind: int) -> None:
        self.world = GangWorld(families, nodes, kind)

    @rule(move=st.sampled_from(list(GangWorld.moves)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)


GangMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    derandomize=True,  # `make soak` lives through new ones
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGangMachine = GangMachine.TestCase


@pytest.mark.parametrize(
    "seed",
    [8, 19, 26, 48, 63, 130, 138, 5052, 5122, 5146, 5200427, 900000173, 900000227, 900001176, 1794937163760828837],
)
def test_worlds_in_which_a_gang_once_went_wrong_are_lived_to_their_end(seed: int) -> None:
    assert SOAK["live"](seed, 80, kind="gang") == 80


@pytest.mark.parametrize("seed", [100000175, 100000185, 200000718, 100000676])
def test_worlds_in_which_members_once_moved_into_trouble_are_lived_to_their_end(seed: int) -> None:
    assert SOAK["live"](seed, 80, kind="membership") == 80
