"""A node that did not let a pod in comes last for it, however good its devices are."""

from __future__ import annotations

from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod

NOW = 100.0


def test_a_node_that_refused_the_bind_ranks_last() -> None:
    broker, pod, names = (
        broker_of(FakeNode("near", count=2), FakeNode("far", inventory=False)),
        device_pod("a", 2),
        ["far", "near"],
    )
    assert broker.prioritize(pod, names, NOW) == [("far", 0), ("near", 1)]
    broker.observe([pod], NOW)
    (bound,) = binds(broker.bind(pod.uid, "near", NOW).effects)
    broker.outcome(bound, "refused", NOW)
    assert broker.prioritize(pod, names, NOW) == [("far", 1), ("near", 0)]
