"""A search for victims of a large gang looks only at what can help, counted by function calls: the same on any machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from linkwise.broker.effects import Evict
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place

if TYPE_CHECKING:
    from types import FrameType

    from linkwise.broker.effects import Effect

DEVICES = 8
CALLS_PER_NODE = (
    6_000  # about a millisecond, the plans included; to try every set of eight pods takes five times as many
)
PRIORITIES = 3


def evictions(members: int) -> tuple[list[Evict], int]:
    """The pods that are evicted for a gang of whole nodes, all full of pods of one device, and the calls that took."""
    names = [f"n{number:02}" for number in range(members)]
    nodes = [FakeNode(name, count=DEVICES) for name in names]
    broker = broker_of(*nodes, settings=PlacingSettings(preemption=PreemptionSettings(evict=True)))
    for number, name in enumerate(names):
        for device in range(DEVICES):
            place(broker, device_pod(f"{name}-{device}", priority=(number + device) % PRIORITIES), name)
    gang = in_gang(*(device_pod(f"m{number}", DEVICES, priority=9) for number in range(members)), least=members)
    broker.observe(gang, 1.0)
    broker.filter(gang[0], names, 1.0)
    calls, effects = 0, list["Effect"]()

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        for now in (1.1, 2.0, 4.1):
            effects += broker.step(now, 1000)
    finally:
        sys.setprofile(previous)
    return [effect for effect in effects if isinstance(effect, Evict)], calls


def test_victims_of_a_large_gang_are_found_without_trying_sets_that_have_too_few_devices() -> None:
    for members in (8, 32):
        victims, calls = evictions(members)
        assert len(victims) == members * DEVICES
        assert calls < CALLS_PER_NODE * members
