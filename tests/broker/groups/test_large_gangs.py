"""Large gangs cost in proportion to their members, counted by function calls: the same number on any machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, in_gang, seen_bound

if TYPE_CHECKING:
    from types import FrameType

    from linkwise.broker.broker import Broker

NODES = [f"n{number:02}" for number in range(64)]
FEW, MANY = 256, 512  # members, of one device each
LINEAR = 2.2  # twice, and a little for what sorting adds; four times would be quadratic


def run_gang(members: int, *, in_flight: int) -> None:
    """Observe a gang at once; filter, bind and observe its members one by one, as many of them in flight."""
    broker = broker_of(*(FakeNode(name, count=8) for name in NODES))
    pods = in_gang(*(device_pod(f"m{number:03}") for number in range(members)), least=members)
    broker.observe(pods, 1.0)
    written = []
    for pod in pods:
        (bound,) = binds(broker.bind(pod.uid, home_of(broker, pod.uid), 1.0).effects)
        broker.outcome(bound, "written", 1.0)
        written.append(seen_bound(pod, bound))
        if len(written) == in_flight:
            broker.observe([written.pop(0)], 1.0)
    for each in written:
        broker.observe([each], 1.0)
    assert sum(entry.state == "ASSIGNED" for entry in broker.entries()) == members


def home_of(broker: Broker, uid: str) -> str:
    """The node that filter names; the first call of a large gang ends before its plan does."""
    while not (names := broker.filter(broker.pods[uid], NODES, 1.0).nodes):
        assert broker.is_planning(broker.group_of(uid))
        broker.step(1.0, 1000)
    return names[0]


def calls_of(members: int, *, in_flight: int) -> int:
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        run_gang(members, in_flight=in_flight)
    finally:
        sys.setprofile(previous)
    return calls


@pytest.mark.parametrize("in_flight", [1, 16])
def test_a_gang_of_twice_as_many_members_costs_twice_as_much(in_flight: int) -> None:
    nodes = calls_of(0, in_flight=in_flight)
    few, many = (calls_of(members, in_flight=in_flight) - nodes for members in (FEW, MANY))
    assert many / few < LINEAR
