"""Gated gangs: whatever is written late, in part or never, gangs are whole or nothing, and no pod is stuck behind our gate."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.gated_world import GatedWorld

CHOICE = st.integers(0, 255)
SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


class GatedMachine(RuleBasedStateMachine):
    world: GatedWorld

    @initialize(families=CHOICE, nodes=CHOICE, kind=CHOICE)
    def begin(self, families: int, nodes: int, kind: int) -> None:
        self.world = GatedWorld(families, nodes, kind)

    @rule(move=st.sampled_from(list(GatedWorld.moves)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)


GatedMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    derandomize=True,  # `make soak` lives through new ones
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGatedMachine = GatedMachine.TestCase


@pytest.mark.parametrize("seed", [5, 8, 13, 17, 32, 39, 50, 61, 66])
def test_worlds_in_which_a_gate_once_went_wrong_are_lived_to_their_end(seed: int) -> None:
    assert SOAK["live"](seed, 80, kind="gated") == 80
