"""The oldest large request is not starved by a stream of small ones: its nodes are drained, for a limited time."""

from __future__ import annotations

import pytest

from linkwise.model.settings import PlacingSettings, ReservationSettings
from linkwise.testing.cluster import FakeNode, device_pod, in_gang
from support.backlog import Backlog

FLEET = [FakeNode(f"n{number}", count=8) for number in range(4)]
OFF = PlacingSettings(reservation=ReservationSettings(after=0.0))


@pytest.mark.parametrize("priority", [0, 1000])
def test_a_large_pod_starts_soon_after_it_has_waited_long_enough(priority: int) -> None:
    backlog = Backlog(FLEET, [device_pod("large", 8, priority=priority)])
    backlog.run(600)
    assert backlog.started["large"] < 60 + 300 + 5 + 80
    assert backlog.idle < 8 * 80


def test_without_reservations_it_never_starts() -> None:
    backlog = Backlog(FLEET, [device_pod("large", 8)], OFF)
    backlog.run(600)
    assert "large" not in backlog.started


def test_a_gang_that_needs_two_nodes_starts_soon_after_it_has_waited_long_enough() -> None:
    backlog = Backlog(FLEET, in_gang(device_pod("a", 8), device_pod("b", 8), least=2))
    backlog.run(600)
    assert max(backlog.started["a"], backlog.started["b"]) < 60 + 300 + 5 + 80
    assert backlog.idle < 16 * 80
