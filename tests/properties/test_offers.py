"""Over generated clusters: what filter leaves out would not have been chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import KOORDINATOR, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NOW = 100.0
BOXES = {
    NVIDIA: [FakeNode(f"n{number}", count=4) for number in range(5)],
    KOORDINATOR: [FakeNode(f"n{number}", "percent", count=4) for number in range(5)],
    MEMORY: [FakeNode(f"n{number}", "share", count=2) for number in range(5)],
}
SIZES = {
    NVIDIA: st.integers(1, 4),
    KOORDINATOR: st.sampled_from([30, 50, 100, 200]),
    MEMORY: st.integers(1, 8),
}
Story = tuple[str, list[tuple[int, int]], list[int], int]
"""the resource, what was placed where, what was offered nodes before, and what asks now"""


@st.composite
def stories(draw: st.DrawFn) -> Story:
    resource = draw(st.sampled_from(sorted(BOXES)))
    size = SIZES[resource]
    placed = draw(st.lists(st.tuples(size, st.integers(0, 4)), max_size=6))
    return resource, placed, draw(st.lists(size, max_size=4)), draw(size)


def played(story: Story) -> tuple[Broker, list[str], PodView]:
    resource, placed, offered, asks = story
    broker = broker_of(*BOXES[resource])
    names = [box.name for box in BOXES[resource]]
    for number, (size, node) in enumerate(placed):
        pod = device_pod(f"placed-{number}", size, resource=resource)
        if names[node] in broker.filter(pod, names[node : node + 1], 0.0, keep=False).nodes:
            place(broker, pod, names[node])
    for number, size in enumerate(offered):
        broker.filter(device_pod(f"offered-{number}", size, resource=resource), names, NOW)
    return broker, names, device_pod("asks", asks, resource=resource)


@given(stories())
def test_the_nodes_offered_are_those_of_the_class_that_rank_highest(story: Story) -> None:
    broker, names, pod = played(story)
    wide = type(broker).restore(replace(broker.snapshot(NOW), settings=PlacingSettings(offer="class")))
    offered, whole = broker.filter(pod, names, NOW).nodes, wide.filter(pod, names, NOW).nodes
    ranks = dict(wide.prioritize(pod, whole, NOW))
    assert set(offered) == {name for name, rank in ranks.items() if rank == max(ranks.values())}
