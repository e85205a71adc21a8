"""What PodGroup objects do to the groups that they tell of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import ClusterObject
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import woken
from linkwise.vendors.machines import profile
from support.state import state_of

VOLCANO = "PodGroup.scheduling.volcano.sh"


def member(number: int, devices: int = 8) -> PodView:
    asks = (ContainerView("main", limits={"nvidia.com/gpu": str(devices)}),)
    words = {"scheduling.volcano.sh/group-name": "g"}
    return PodView("team", f"g{number}", f"u{number}", asks, annotations=words, created=float(number), version=1)


def pod_group(minimum: int | None, **spec: object) -> ClusterObject:
    return ClusterObject(VOLCANO, "team/g", None if minimum is None else {"spec": {"minMember": minimum, **spec}})


def cluster(nodes: int = 2) -> Broker:
    broker = Broker()
    for number in range(nodes):
        broker.observe(fleet_node(profile("dgx1-v100"), f"n{number}"), 0.0)
    return broker


def said(broker: Broker, pod: PodView, now: float = 1.0) -> set[str]:
    answer = broker.filter(pod, list(broker.nodes), now)
    return {*answer.failed.values(), *answer.unresolvable.values()}


@pytest.mark.rule("001.group")
def test_a_pod_group_makes_a_gang_of_its_pods() -> None:
    broker = cluster()
    broker.observe([pod_group(2), member(0)], 1.0)
    assert said(broker, member(0)) == {"node(s): the gang is incomplete"}
    broker.observe([member(1)], 1.0)
    assert said(broker, member(0)) == set()


def test_a_pod_group_may_be_seen_after_its_pods() -> None:
    broker = cluster()
    broker.observe([member(0), member(1)], 1.0)
    assert said(broker, member(0)) == {"node(s): the group's PodGroup doesn't exist"}
    broker.observe([pod_group(2)], 1.0)
    assert woken(broker.step(1.0, 1000)) == ["g0"]
    assert said(broker, member(0)) == set()


def test_a_pod_group_that_asks_for_less_wakes_its_pods() -> None:
    broker = cluster()
    broker.observe([pod_group(2), member(0)], 1.0)
    said(broker, member(0))
    broker.observe([pod_group(1)], 2.0)
    assert woken(broker.step(2.0, 1000)) == ["g0"]
    assert said(broker, member(0), 2.0) == set()


def test_a_pod_group_whose_status_alone_changes_wakes_no_pod() -> None:
    broker = cluster()
    broker.observe([pod_group(2), member(0)], 1.0)
    changed = ClusterObject(VOLCANO, "team/g", {"spec": {"minMember": 2}, "status": {"phase": "Pending"}})
    assert broker.observe([changed], 2.0) == ()


def test_a_gang_that_runs_when_its_pod_group_is_seen_has_started() -> None:
    broker = cluster(3)
    bound = [replace(member(number), node=f"n{number}") for number in range(2)]
    broker.observe([*bound, pod_group(2)], 1.0)
    broker.observe([member(2)], 2.0)
    assert said(broker, member(2), 2.0) == set()


def test_a_pod_group_that_is_gone_asks_for_nothing() -> None:
    broker = cluster()
    broker.observe([pod_group(2), member(0)], 1.0)
    broker.observe([pod_group(None)], 2.0)
    assert said(broker, member(0), 2.0) == {"node(s): the group's PodGroup doesn't exist"}
    assert said(broker, member(0), 12.0) == set()


def test_a_pod_group_of_another_system_or_name_is_ignored() -> None:
    broker = cluster()
    spec = {"spec": {"minMember": 5}}
    other = ClusterObject("PodGroup.scheduling.x-k8s.io", "team/g", spec), ClusterObject(VOLCANO, "team/h", spec)
    broker.observe([*other, ClusterObject("Secret.example.com", "team/g", spec), member(0)], 1.0)
    assert said(broker, member(0)) == {"node(s): the group's PodGroup doesn't exist"}
    assert said(broker, member(0), 11.0) == set()
    assert "Secret.example.com" not in {
        kind for kind, named in state_of(broker).cluster.shared.documents.items() if named
    }


def test_a_network_that_is_known_at_last_wakes_a_group_that_had_no_place_in_it() -> None:
    broker = cluster()
    tier = {"mode": "hard", "highestTierAllowed": 1}
    broker.observe([pod_group(1, networkTopology=tier), member(0)], 1.0)
    assert said(broker, member(0)) != set()
    found = {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]}
    broker.observe([ClusterObject("HyperNode.topology.volcano.sh", "s0", {"spec": found})], 2.0)
    assert woken(broker.step(2.0, 1000)) == ["g0"]
    assert broker.filter(member(0), ["n0", "n1"], 2.0).nodes == ["n1"]


def test_an_invalid_pod_group_is_reported_to_its_pods() -> None:
    broker = cluster()
    broker.observe([member(0)], 1.0)
    effects = broker.observe([ClusterObject(VOLCANO, "team/g", {"spec": {"minMember": "two"}})], 1.0)
    (event,) = (effect for effect in effects if isinstance(effect, Event))
    assert (event.reason, event.uid) == ("GroupObjects", "u0")
    assert event.sentence.startswith("PodGroup team/g: spec.minMember is 'two'")
