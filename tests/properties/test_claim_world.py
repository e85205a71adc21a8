"""Claims of planned pods: whatever is written late, in part or never, nothing is allocated twice, and no pod is stuck."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.profile import examples
from support.properties.claim_world import ClaimWorld

CHOICE = st.integers(0, 255)


class ClaimMachine(RuleBasedStateMachine):
    world: ClaimWorld

    @initialize(nodes=CHOICE)
    def begin(self, nodes: int) -> None:
        self.world = ClaimWorld(nodes)

    @rule(move=st.sampled_from(list(ClaimWorld.moves)), a=CHOICE, b=CHOICE, c=CHOICE)
    def step(self, move: str, a: int, b: int, c: int) -> None:
        self.world.step(move, a, b, c)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


ClaimMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestClaimMachine = ClaimMachine.TestCase


@pytest.mark.parametrize("seed", range(examples(20)))
def test_worlds_of_a_hundred_moves_come_to_their_end(seed: int) -> None:
    chance = Random(seed)
    world = ClaimWorld(seed)
    for _ in range(100):
        world.step(chance.choice(list(world.moves)), *(chance.randrange(256) for _ in range(3)))
    world.end()
