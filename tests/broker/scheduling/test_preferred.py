"""Which devices kubelet should hand out: those that were promised, else those that the scheduler would pick."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import ContainerView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import ASCEND, NVIDIA, FakeNode, Family, binds, broker_of, device_pod, place
from linkwise.vendors.machines import profile
from support.state import state_of

NOW = 100.0
BOX = FakeNode("n", count=8)


def test_what_was_promised_comes_first() -> None:
    broker = broker_of(BOX)
    broker.observe([device_pod("a", 2)], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert bound.grant
    assert broker.preferred("n", BOX.devices(*reversed(range(8))), (), 2, NOW) == bound.grant.offer.devices


def test_of_two_promises_of_one_size_the_older_comes_first_and_then_what_is_left() -> None:
    broker = broker_of(BOX)
    broker.observe([device_pod("late", 2, created=1.0), device_pod("early", 2, created=9.0)], NOW)
    (first,) = binds(broker.bind("uid-early", "n", NOW).effects)
    (second,) = binds(broker.bind("uid-late", "n", NOW).effects)
    assert first.grant
    assert second.grant
    given = broker.preferred("n", BOX.devices(*range(8)), (), 2, NOW)
    assert given == first.grant.offer.devices
    left = [device for device in BOX.devices(*range(8)) if device not in given]
    assert broker.preferred("n", left, (), 2, NOW) == second.grant.offer.devices


def test_a_promise_of_another_size_or_of_devices_that_are_taken_is_passed_over() -> None:
    broker = broker_of(BOX)
    held = place(broker, device_pod("a", 2), "n")
    assert held.node == "n"
    assert len(broker.preferred("n", BOX.devices(*range(8)), (), 4, NOW)) == 4
    assert broker.preferred("n", BOX.devices(6, 7), (), 2, NOW) == BOX.devices(6, 7)


def test_a_promise_without_the_required_devices_is_passed_over() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("a", 2), "n")
    given = broker.preferred("n", BOX.devices(*range(8)), BOX.devices(5), 2, NOW)
    assert given == BOX.devices(4, 5)


def test_each_container_is_given_the_part_that_was_promised_to_it() -> None:
    broker = broker_of(BOX)
    parts = tuple(ContainerView(name, limits={NVIDIA: str(size)}) for name, size in [("one", 1), ("three", 3)])
    broker.observe([replace(device_pod("a"), containers=parts)], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert bound.grant
    for part in bound.grant.offer.parts:
        assert broker.preferred("n", BOX.devices(*range(8)), (), len(part.devices), NOW) == part.devices


def test_devices_of_a_terminating_pod_are_reserved_for_no_other_pod() -> None:
    broker = broker_of(BOX)
    seen = place(broker, device_pod("a", 2), "n")
    broker.observe([replace(seen, deleting=True, version=9)], NOW)
    given = broker.preferred("n", BOX.devices(4, 5, 0, 2), (), 2, NOW)
    assert given == BOX.devices(4, 5)


@pytest.mark.parametrize("required", [(3,), (2, 5), (0, 1, 2, 3)])
def test_required_devices_are_among_those_given(required: tuple[int, ...]) -> None:
    given = broker_of(BOX).preferred("n", BOX.devices(*range(8)), BOX.devices(*required), 4, NOW)
    assert set(given) >= set(BOX.devices(*required))
    assert len(given) == len(set(given)) == 4


def test_devices_that_are_joined_are_given_together() -> None:
    broker = broker_of(BOX)
    assert broker.preferred("n", BOX.devices(1, 2, 3, 4), (), 2, NOW) == BOX.devices(2, 3)


def test_only_what_is_available_is_given_whatever_the_records_say() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("a", 6), "n")
    given = broker.preferred("n", BOX.devices(0, 1, 2, 3), (), 4, NOW)
    assert set(given) == set(BOX.devices(0, 1, 2, 3))


@pytest.mark.parametrize(
    ("available", "required", "size"),
    [((0, 1), (), 3), ((0, 1), (), 0), ((0, 1), (), -1), ((0, 1), (5,), 2), ((0, 1, 2), (0, 1), 1), ((), (), 1)],
)
def test_nothing_is_given_where_that_is_not_possible(
    available: tuple[int, ...], required: tuple[int, ...], size: int
) -> None:
    broker = broker_of(BOX)
    assert broker.preferred("n", BOX.devices(*available), BOX.devices(*required), size, NOW) == ()


def test_nothing_is_given_of_a_node_or_of_devices_that_are_not_known() -> None:
    broker = broker_of(BOX)
    assert broker.preferred("never-seen", ["x"], (), 1, NOW) == ()
    assert broker.preferred("n", ["x", "y"], (), 1, NOW) == ()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize(("family", "resource"), [("linked", NVIDIA), ("ring", ASCEND)])
def test_without_a_promise_kubelet_is_given_what_the_scheduler_would_pick(
    family: Family, resource: str, size: int
) -> None:
    box = FakeNode("n", family, 8)
    broker = broker_of(box)
    offer = broker.dry_run(device_pod("a", size, resource), NOW).offer
    assert offer
    assert broker.preferred("n", box.devices(*range(8)), (), size, NOW) == offer.devices


@pytest.mark.parametrize(("family", "resource"), [("linked", NVIDIA), ("ring", ASCEND)])
def test_with_some_devices_taken_both_still_agree(family: Family, resource: str) -> None:
    box = FakeNode("n", family, 8)
    broker = broker_of(box)
    held = place(broker, device_pod("a", 1, resource), "n")
    entry = broker.entry(held.uid)
    assert entry
    left = [device for device in box.devices(*range(8)) if device not in entry.grant.offer.devices]
    for size in (2, 4):
        offer = broker.dry_run(device_pod(f"b{size}", size, resource), NOW).offer
        assert offer
        assert broker.preferred("n", left, (), size, NOW) == offer.devices


def test_nothing_is_kept_of_what_kubelet_asks() -> None:
    broker = broker_of(BOX)
    before = broker.snapshot(NOW)
    assert broker.preferred("n", BOX.devices(*range(8)), (), 2, NOW)
    assert broker.snapshot(NOW) == before


@pytest.mark.parametrize("policy", ["whole-device", "link-affinity", "bandwidth"])
def test_the_agent_prefers_what_the_scheduler_would_pick_under_every_policy(policy: str) -> None:
    broker = Broker(PlacingSettings(policies={NVIDIA: policy}))
    broker.observe(fleet_node(profile("dgx1-v100"), "a"), NOW)
    devices = [device.id for device in state_of(broker).cluster.index.nodes["a"].devices]
    offer = broker.dry_run(device_pod("x", 3), NOW).offer
    assert offer is not None
    assert broker.preferred("a", devices, (), 3, NOW) == offer.devices
