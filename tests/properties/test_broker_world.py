"""Anything may happen to a broker, in any order, and what must be true stays true; `make soak` does it for longer."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.broker_world import MOVES, World

CHOICE = st.integers(0, 255)
SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


class BrokerMachine(RuleBasedStateMachine):
    world: World

    @initialize(families=CHOICE, nodes=CHOICE)
    def begin(self, families: int, nodes: int) -> None:
        self.world = World(families, nodes)

    @rule(move=st.sampled_from(list(MOVES)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)


BrokerMachine.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBrokerMachine = BrokerMachine.TestCase


def test_a_world_is_lived_from_its_seed_as_long_as_asked() -> None:
    assert SOAK["live"](7, 30) == 30
