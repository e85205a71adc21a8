"""Over generated clusters: filter names the node that ranks highest, and bursts fill the nodes that single pods would."""

from __future__ import annotations

from hypothesis import given, strategies as st

from linkwise.broker.broker import Broker
from linkwise.model.views import PodView
from linkwise.testing.cluster import (
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    place,
    seen_bound,
)

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
def test_the_node_offered_ranks_highest(story: Story) -> None:
    broker, names, pod = played(story)
    fitting = [name for name, _ in broker.dry_run(pod, NOW).ranking]
    ranks = dict(broker.prioritize(pod, fitting, NOW))
    offered = broker.filter(pod, names, NOW).nodes
    assert len(offered) == bool(fitting)
    assert all(ranks[name] == max(ranks.values()) for name in offered)


@given(stories(), st.lists(st.booleans(), max_size=20), st.integers(1, 10))
def test_any_interleaving_of_filters_and_binds_of_equal_pods_fills_the_same_nodes(
    story: Story, turns: list[bool], count: int
) -> None:
    resource, placed, _, size = story
    start = played((resource, placed, [], size))[0].snapshot(NOW)
    pods = [device_pod(f"p{number}", size, resource) for number in range(count)]
    names = [box.name for box in BOXES[resource]]

    def homes(turns: list[bool]) -> list[str]:
        """The node of each pod; True binds the oldest pod that is under way, False filters the next one."""
        broker, under_way, found = Broker.restore(start), list[tuple[PodView, str]](), dict[str, str]()
        waiting = list(pods)
        while waiting or under_way:
            turn = turns.pop(0) if turns else True
            if under_way and (turn or not waiting):
                pod, node = under_way.pop(0)
                (bound,) = binds(broker.bind(pod.uid, node, NOW).effects)
                broker.observe([seen_bound(pod, bound)], NOW)
                found[pod.uid] = bound.node
                continue
            pod = waiting.pop(0)
            under_way += [(pod, node) for node in broker.filter(pod, names, NOW).nodes]
        return sorted(found.values())

    assert homes(list(turns)) == homes([])
