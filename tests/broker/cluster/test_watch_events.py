"""What follows from what the watch shows: the same in any order, and nothing of it twice."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeGone, NodeObject, PodDeleted, PodListComplete
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.testing.cluster import MEMORY, FakeNode, binds, broker_of, device_pod, place, seen_bound
from support.profile import examples
from support.properties.broker_invariants import claims
from support.properties.broker_world import MOVES, World
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.usage import DriftKind
    from linkwise.model.views import PodView

NOW = 100.0


def bound(pod: PodView, box: FakeNode, *indices: int) -> PodView:
    """A pod that was given these devices of a box, as its record tells."""
    maker = broker_of(replace(box, unhealthy=frozenset(range(box.count)) - frozenset(indices)))
    maker.observe([pod], NOW)
    (effect,) = binds(maker.bind(pod.uid, box.name, NOW).effects)
    return seen_bound(pod, effect)


def broker_after(sights: Iterable[WatchEvent]) -> Broker:
    broker = Broker()
    for sight in sights:
        broker.observe([sight], NOW)
    return broker


def drift(broker: Broker, node: str = "n") -> list[DriftKind]:
    return [found.kind for found in broker.drift.get(node, ())]


def used(broker: Broker, node: str = "n") -> set[str]:
    return set(broker.usage[node].used)


BOX = FakeNode("n", count=4)


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_the_order_of_different_objects_does_not_matter(order: Sequence[int]) -> None:
    box = replace(BOX, allocations={"uid-b": ("n-d3",), "ghost": ("n-d2",)})
    sights = [*box.events(), bound(device_pod("a"), BOX, 0), bound(device_pod("b"), BOX, 1), PodDeleted("uid-c")]
    broker = broker_after([sights[place] for place in order])
    assert claims(broker) == claims(broker_after(sights))
    assert used(broker) == {"n-d0", "n-d3", "n-d2"}
    assert sorted(drift(broker)) == ["record", "stranger"]


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_happened_is_understood_in_any_order(seed: int) -> None:
    chance, names = random.Random(seed), list(MOVES)
    world = World(chance.randrange(256), chance.randrange(256))
    for _ in range(40):
        world.step(chance.choice(names), chance.randrange(256), chance.randrange(256), chance.randrange(256))
    sights = world.api.everything()
    first = broker_after(sights)
    chance.shuffle(sights)
    assert claims(broker_after(sights)) == claims(first)
    at_once = Broker()
    at_once.observe(sights, NOW)
    assert claims(at_once) == claims(first)


def test_news_that_come_again_change_nothing() -> None:
    sights = [*BOX.events(), bound(device_pod("a"), BOX, 0), replace(device_pod("b"), node="n")]
    broker = broker_after(sights)
    before = claims(broker)
    for sight in sights * 2:
        assert broker.observe([sight], NOW) == ()
    assert claims(broker) == before


def test_news_that_are_older_than_what_is_known_change_nothing() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after(
        [replace(BOX, version=5).view(), BOX.inventory_object(), replace(pod, version=9, phase="Succeeded")]
    )
    before = claims(broker)
    broker.observe([replace(pod, version=8), replace(BOX, count=1, version=4).view()], NOW)
    assert claims(broker) == before
    broker.observe([replace(pod, version=10)], NOW)
    assert used(broker) == {"n-d0"}


def test_late_news_of_a_pod_that_is_gone_are_ignored() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), pod, PodDeleted(pod.uid), replace(pod, version=99)])
    assert used(broker) == set()
    assert pod.uid not in broker.pods


@pytest.mark.rule("002.release")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_its_devices_back(phase: str) -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), pod])
    assert used(broker) == {"n-d0"}
    broker.observe([replace(pod, phase=phase, version=3)], NOW)
    assert used(broker) == set()


@pytest.mark.rule("003.between")
def test_devices_of_a_leaving_pod_are_kept_until_its_containers_have_stopped() -> None:
    pod = replace(bound(device_pod("a"), BOX, 0), deleting=True)
    broker = broker_after([*BOX.events(), replace(pod, version=3)])
    entry = state_of(broker).cluster.ledger.get(pod.uid)
    assert entry is not None
    assert entry.state == "RELEASING"
    assert used(broker) == {"n-d0"}
    broker.observe([replace(pod, version=4, stopped=True)], NOW)
    assert used(broker) == set()


def test_a_pod_deleted_by_force_keeps_what_its_agent_still_sees_in_use() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*replace(BOX, allocations={pod.uid: ("n-d0",)}).events(), pod, PodDeleted(pod.uid)])
    assert (used(broker), drift(broker)) == ({"n-d0"}, ["stranger"])
    broker.observe([BOX.inventory_object()], NOW)
    assert (used(broker), drift(broker)) == (set(), [])


def test_an_agent_that_still_lists_a_pod_that_has_ended_keeps_nothing_of_it() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    listing = replace(BOX, allocations={pod.uid: ("n-d0",)})
    ended = replace(pod, phase="Succeeded", version=3)
    gone = PodDeleted(pod.uid)
    for sights in (
        [*listing.events(), pod, ended],
        [ended, *listing.events()],
        [pod, ended, gone],
        [ended, gone, gone],
    ):
        broker = broker_after([*sights, *listing.events()])
        assert (used(broker), drift(broker)) == (set(), [])


def test_a_pod_that_the_agent_sees_before_the_watch_shows_it_bound_has_its_devices() -> None:
    broker = broker_after([*replace(BOX, allocations={"uid-a": ("n-d0",)}).events(), device_pod("a")])
    assert used(broker) == {"n-d0"}
    broker.observe([replace(device_pod("a"), node="n", version=2)], NOW)
    assert (used(broker), drift(broker)) == ({"n-d0"}, [])


def test_a_pod_that_another_scheduler_bound_is_counted() -> None:
    broker = broker_after([*BOX.events(), replace(device_pod("a", 3), node="n", version=2)])
    node = state_of(broker).cluster.index.nodes["n"]
    assert (node.used, node.unattributed) == ({}, 3)
    assert broker.filter(device_pod("b", 2), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("c", 1), ["n"], NOW).nodes == ["n"]


def test_a_pod_that_another_scheduler_took_from_under_a_promise_is_where_it_is_seen() -> None:
    broker = broker_of(FakeNode("n", count=1), FakeNode("m", count=1))
    broker.observe([device_pod("a")], NOW)
    broker.bind("uid-a", "n", NOW)
    effects = broker.observe([replace(device_pod("a"), node="m", version=2)], NOW)
    assert used(broker, "n") == set()
    assert broker.usage["m"].unattributed == 1
    assert [effect.sentence for effect in effects if isinstance(effect, Event)] == [
        "pod default/a was assumed on node n, but is bound to m"
    ]


def test_a_record_that_is_changed_later_is_reported_and_not_believed() -> None:
    pod, other = bound(device_pod("a"), BOX, 0), bound(device_pod("a"), BOX, 1)
    broker = broker_after([*BOX.events(), pod])
    effects = broker.observe([replace(other, version=3)], NOW)
    assert (used(broker), drift(broker)) == ({"n-d0"}, ["changed"])
    assert any(
        "was changed to n-d1; n-d0 still counts" in effect.sentence for effect in effects if isinstance(effect, Event)
    )
    broker.observe([replace(pod, version=4)], NOW)
    assert drift(broker) == []


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_record_that_is_removed_later_keeps_its_devices(times: int) -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), pod])
    for number in range(times):
        broker.observe([replace(pod, annotations={}, version=3 + number)], NOW)
    node = broker.usage["n"]
    assert (set(node.used), node.unattributed, drift(broker)) == ({"n-d0"}, 0, ["changed"])


@pytest.mark.parametrize("first", ["record", "agent"])
def test_a_changed_record_that_is_what_the_agent_saw_is_a_correction(first: str) -> None:
    pod, other = bound(device_pod("a"), BOX, 0), replace(bound(device_pod("a"), BOX, 1), version=3)
    seen = replace(BOX, allocations={pod.uid: ("n-d1",)}).inventory_object()
    news: list[WatchEvent] = [other, seen] if first == "record" else [seen, other]
    broker = broker_after([*BOX.events(), pod, *news])
    assert (used(broker), drift(broker)) == ({"n-d1"}, [])
    broker.observe([BOX.inventory_object()], NOW)
    assert (used(broker), drift(broker)) == ({"n-d1"}, [])


def test_a_correction_by_index_is_one_too() -> None:
    box = FakeNode("n", "share", 2)
    pod = bound(device_pod("a", 4, MEMORY), box, 0)
    keys = {key: text for key, text in pod.annotations.items() if key != GRANT} | {"ALIYUN_COM_GPU_MEM_IDX": "1"}
    broker = broker_after([*box.events(), pod, replace(pod, annotations=keys, version=3)])
    assert drift(broker) == ["changed"]
    broker.observe([replace(box, allocations={pod.uid: ("n-d1",)}).inventory_object()], NOW)
    assert (used(broker), drift(broker)) == ({"n-d1"}, [])


def test_a_record_that_appears_later_is_believed() -> None:
    pod = bound(device_pod("a"), BOX, 2)
    broker = broker_after([*BOX.events(), replace(pod, annotations={}, version=1), pod])
    assert (used(broker), state_of(broker).cluster.index.nodes["n"].unattributed) == ({"n-d2"}, 0)


def test_an_agent_that_sees_other_devices_than_recorded_frees_the_recorded_ones() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*replace(BOX, count=2, allocations={pod.uid: ("n-d1",)}).events(), pod])
    broker.observe([device_pod("b")], NOW)
    (effect,) = binds(broker.bind("uid-b", "n", NOW).effects)
    assert effect.grant is not None
    assert effect.grant.offer.devices == ("n-d0",)


def test_every_disagreement_is_reported_once() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    listing = replace(BOX, allocations={pod.uid: ("n-d1",)})
    broker = broker_after([*BOX.events(), pod])
    assert len(broker.observe([listing.inventory_object()], NOW)) == 1
    assert broker.observe([listing.inventory_object(), pod], NOW) == ()
    assert broker.observe([BOX.inventory_object()], NOW) == ()
    assert len(broker.observe([listing.inventory_object()], NOW)) == 1


def test_what_pods_hold_outlives_their_node() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), pod, NodeGone("n")])
    assert "n" not in state_of(broker).cluster.index.nodes
    assert state_of(broker).cluster.ledger.get(pod.uid)
    broker.observe(BOX.events(), NOW)
    assert used(broker) == {"n-d0"}


def test_a_pod_on_a_node_that_is_not_there_does_not_stop_the_start() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([pod])
    assert [entry.node for entry in broker.entries()] == ["n"]
    assert broker.usage == {}


def test_an_inventory_that_comes_and_goes_takes_nothing_from_pods() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), pod, NodeObject("n", KIND, None)])
    node = state_of(broker).cluster.index.nodes["n"]
    assert ([device.id for device in node.devices], node.unattributed) == (["n-d0", "n-d1", "n-d2", "n-d3"], 0)
    broker.observe([BOX.inventory_object()], NOW)
    assert (used(broker), drift(broker)) == ({"n-d0"}, [])


def test_pods_without_a_uid_and_nodes_without_a_name_are_not_seen() -> None:
    nameless = replace(device_pod("a"), uid="", node="n", version=2)
    broker = broker_after([*BOX.events(), nameless, PodDeleted(""), replace(BOX, name="").view()])
    assert set(state_of(broker).cluster.nodes) == {"n"}
    assert (dict(state_of(broker).cluster.pods), used(broker)) == ({}, set())


def test_of_two_pods_of_one_uid_the_last_seen_counts() -> None:
    one, two = bound(device_pod("a", uid="u"), BOX, 0), bound(device_pod("b", uid="u"), BOX, 1)
    broker = broker_after([*BOX.events(), one, replace(two, version=3)])
    assert len(list(state_of(broker).cluster.ledger.entries())) == 1
    assert drift(broker) == ["changed"]
    assert used(broker) == {"n-d0"}


def test_a_uid_observed_on_two_nodes_counts_on_the_first_and_is_reported() -> None:
    pod = bound(device_pod("a"), BOX, 0)
    broker = broker_after([*BOX.events(), *FakeNode("m").events(), pod, replace(pod, node="m", version=3)])
    assert (used(broker), drift(broker)) == ({"n-d0"}, ["changed"])
    broker.observe([PodDeleted(pod.uid)], NOW)
    assert claims(broker)[0] == {}


def test_a_pod_that_took_the_name_of_another_says_that_the_other_is_gone() -> None:
    broker = broker_of(BOX)
    old = place(broker, device_pod("a", created=1.0), "n")
    broker.observe([replace(device_pod("a", uid="new", created=2.0), version=5)], NOW)
    broker.observe([replace(old, version=9)], NOW)
    assert used(broker) == set()
    assert set(broker.pods) == {"new"}


def test_late_news_of_a_pod_whose_name_was_taken_are_ignored() -> None:
    new = replace(device_pod("a", uid="new"), version=7)
    broker = broker_after([*BOX.events(), new, bound(device_pod("a"), BOX, 0)])
    assert (used(broker), set(state_of(broker).cluster.pods)) == (set(), {"new"})


def test_a_matrix_that_is_rejected_is_reported_at_the_node_once_and_again_when_it_comes_back() -> None:
    good = FakeNode("n")
    document = good.inventory_object().document
    assert isinstance(document, dict)
    bad = NodeObject("n", KIND, {**document, "spec": {**document["spec"], "links": [["X"], ["X", "X"]]}})
    broker = broker_of(good)
    first = [effect for effect in broker.observe([bad], NOW) if isinstance(effect, Event)]
    assert [(event.reason, event.node) for event in first] == [("InventoryProblem", "n")]
    assert "row 0" in first[0].sentence
    assert broker.observe([bad], NOW) == ()
    assert broker.observe([good.inventory_object()], NOW) == ()
    assert len(broker.observe([bad], NOW)) == 1


def test_a_complete_list_shows_that_pods_are_gone_whose_deletion_was_missed() -> None:
    broker = broker_of(FakeNode("a", count=8))
    unobserved = device_pod("never-shown", 8)
    broker.filter(unobserved, ["a"], NOW)
    (effect,) = binds(broker.bind(unobserved.uid, "a", NOW).effects)
    broker.outcome(effect, "written", NOW)
    broker.filter(device_pod("asked"), ["a"], NOW)
    broker.observe([PodListComplete(frozenset())], NOW)
    assert len(state_of(broker).queue) == 0
    assert broker.filter(device_pod("next", 8), ["a"], NOW).nodes == ["a"]


def test_nothing_is_kept_of_nodes_that_are_gone() -> None:
    broker = broker_of(FakeNode("a", count=8))
    pod = device_pod("x")
    broker.filter(pod, ["a"], NOW)
    broker.bind(pod.uid, "a", NOW)
    broker.observe([PodDeleted(pod.uid), NodeGone("a"), NodeObject("a", KIND, None)], NOW)
    assert (state_of(broker).writer.times(), state_of(broker).cluster.objects.documents) == ({}, {})
