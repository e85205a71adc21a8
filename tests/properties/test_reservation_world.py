"""Nodes are drained while anything may happen: nothing is allocated twice, and every reservation ends; `make soak` goes on."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.reservation_world import ReservationWorld

CHOICE = st.integers(0, 255)
SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


class ReservationMachine(RuleBasedStateMachine):
    world: ReservationWorld

    @initialize(families=CHOICE, nodes=CHOICE, kind=CHOICE)
    def begin(self, families: int, nodes: int, kind: int) -> None:
        self.world = ReservationWorld(families, nodes, kind)

    @rule(move=st.sampled_from(list(ReservationWorld.moves)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)


ReservationMachine.TestCase.settings = settings(
    max_examples=examples(30),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,  # the same worlds every time; `make soak` looks for new ones
)
TestReservationMachine = ReservationMachine.TestCase


@pytest.mark.parametrize("seed", range(examples(12)))
def test_worlds_with_reservations_are_lived_to_their_end(seed: int) -> None:
    assert SOAK["live"](seed, 80, kind="reservation") == 80
