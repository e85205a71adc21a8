"""A cordoned device gets no new pods, with or without an agent, and stays with the pods that use it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.dialects.linkwise.cordon import CORDONED
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, in_gang, place, woken_set
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.model.views import NodeView

BOX = FakeNode("n", count=4)
WHY = "ticket 4711"


def cordoned(box: FakeNode, **devices: str) -> NodeView:
    """The node with these devices cordoned; `d0` is device 0 by its id, `i0` by its index."""
    keys = {f"#{key[1:]}" if key[0] == "i" else box.device(int(key[1:])): why for key, why in devices.items()}
    return replace(box.view(), annotations={CORDONED: json.dumps(keys)} if keys else {})


def events(effects: Sequence[Effect]) -> dict[tuple[str, str], str]:
    """By reason and pod, empty for the node."""
    return {(each.reason, each.name): each.sentence for each in effects if isinstance(each, Event)}


def devices_of(broker: Broker, name: str, size: int) -> set[str]:
    bound = place(broker, device_pod(name, size), "n")
    return {device for entry in broker.entries() if entry.pod == bound.uid for device in entry.grant.offer.devices}


def test_a_new_pod_gets_other_devices() -> None:
    broker = broker_of(BOX)
    broker.observe([cordoned(BOX, d0=WHY, i2="")], 0.0)
    assert devices_of(broker, "a", 2) == {"n-d1", "n-d3"}


def test_a_request_for_all_devices_is_refused_with_the_reason() -> None:
    broker = broker_of(BOX)
    broker.observe([cordoned(BOX, d0=WHY), device_pod("a", 4)], 0.0)
    answer = broker.filter(device_pod("a", 4), ["n"], 0.0)
    assert dict(answer.unresolvable) == {"n": "node(s) had too few usable devices"}
    explained = explain_pod(broker, "uid-a", 0.0)
    assert explained is not None
    said = "\n".join(explanation_lines(explained))
    assert f"1 of 4 is unhealthy or cordoned: 0; device 0 is cordoned: {WHY}" in said


def test_a_node_without_an_agent_is_served_by_the_rest_of_its_devices() -> None:
    bare = replace(BOX, inventory=False)
    broker = broker_of(bare)
    broker.observe([cordoned(bare, i1=WHY)], 0.0)
    assert broker.filter(device_pod("a", 4), ["n"], 0.0).nodes == []
    assert devices_of(broker, "b", 3) == {"#0", "#2", "#3"}


def test_the_pod_that_uses_it_keeps_it_and_gets_an_event() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("a", 4), "n")
    reported = events(broker.observe([cordoned(BOX, d0=WHY)], 0.0))
    assert reported == {
        ("DeviceCordoned", ""): f"device 0 (n-d0) was cordoned: {WHY}; 3 of 4 devices are usable",
        ("DeviceCordoned", "a"): f"device 0 (n-d0) on node n, which this pod keeps using, was cordoned: {WHY}",
    }
    (entry,) = broker.entries()
    assert "n-d0" in entry.grant.offer.devices


def test_a_device_may_fail_and_recover_while_it_is_cordoned() -> None:
    broker = broker_of(BOX)
    broker.observe([cordoned(BOX, d0="")], 0.0)
    failed = replace(BOX, unhealthy=frozenset({0}))
    assert ("DeviceFailed", "") in events(broker.observe([failed.inventory_object()], 0.0))
    assert ("DeviceRecovered", "") in events(broker.observe([BOX.inventory_object()], 0.0))
    assert not broker.inventories["n"].devices[0].healthy
    reported = events(broker.observe([cordoned(BOX)], 0.0))
    assert reported == {("DeviceUncordoned", ""): "device 0 (n-d0) is no longer cordoned; 4 of 4 devices are usable"}


def test_a_waiting_pod_is_woken_when_the_device_is_uncordoned() -> None:
    broker = broker_of(BOX)
    broker.observe([cordoned(BOX, d0=WHY), device_pod("a", 4)], 0.0)
    assert broker.filter(device_pod("a", 4), ["n"], 0.0).nodes == []
    assert woken_set(broker.observe([cordoned(BOX)], 1.0)) == {"a"}


def test_a_plan_that_includes_it_is_made_again() -> None:
    broker = broker_of(BOX)
    pods = in_gang(device_pod("a"), device_pod("b"), least=2)
    broker.observe(pods, 0.0)
    assert broker.filter(pods[0], ["n"], 0.0).nodes == ["n"]
    planned = {device for entry in broker.entries() for device in entry.grant.offer.devices}
    first, second = (BOX.devices(0, 1, 2, 3).index(device) for device in sorted(planned))
    reported = events(broker.observe([cordoned(BOX, **{f"d{first}": WHY, f"d{second}": WHY})], 1.0))
    assert ("PlanBroken", "a") in reported
    assert not state_of(broker).groups.plans
    assert broker.filter(pods[0], ["n"], 30.0).nodes == ["n"]
    again = {device for entry in broker.entries() for device in entry.grant.offer.devices}
    assert len(again) == 2
    assert again.isdisjoint(planned)


def test_a_pod_that_was_offered_it_is_bound_to_another_one() -> None:
    broker, pod = broker_of(BOX), device_pod("a")
    broker.observe([pod], 0.0)
    broker.filter(pod, ["n"], 0.0)
    ((offered,),) = (entry.grant.offer.devices for entry in broker.entries())
    broker.observe([cordoned(BOX, **{f"d{BOX.devices(0, 1, 2, 3).index(offered)}": WHY})], 1.0)
    (bound,) = binds(broker.bind(pod.uid, "n", 1.0).effects)
    assert bound.grant is not None
    assert offered not in bound.grant.offer.devices


def test_the_kubelets_lower_count_is_no_disagreement() -> None:
    broker = broker_of(BOX)
    view = cordoned(BOX, d0=WHY)
    broker.observe([replace(view, allocatable={**view.allocatable, "nvidia.com/gpu": "3"})], 0.0)
    inventory = broker.inventories["n"]
    assert (inventory.problems, inventory.unidentified) == ((), 0)


def test_a_device_that_the_node_does_not_have_is_reported_with_the_fix() -> None:
    broker = broker_of(BOX)
    reported = events(broker.observe([replace(BOX.view(), annotations={CORDONED: '{"GPU-old": "dead"}'})], 0.0))
    assert "linkwise uncordon node/n --device GPU-old" in reported["InventoryProblem", ""]
    assert all(device.healthy for device in broker.inventories["n"].devices)


def test_an_invalid_annotation_is_reported_and_cordons_nothing() -> None:
    broker = broker_of(BOX)
    reported = events(broker.observe([replace(BOX.view(), annotations={CORDONED: "3"})], 0.0))
    assert CORDONED in reported["InventoryProblem", ""]
    assert devices_of(broker, "a", 4) == set(BOX.devices(0, 1, 2, 3))


def test_a_share_of_a_cordoned_device_is_not_allocated() -> None:
    box = FakeNode("n", "share", count=2, memory=16)
    broker = broker_of(box)
    broker.observe([cordoned(box, d0=WHY)], 0.0)
    bound = place(broker, device_pod("a", 4, "aliyun.com/gpu-mem"), "n")
    ((device,),) = (entry.grant.offer.devices for entry in broker.entries() if entry.pod == bound.uid)
    assert device == "n-d1"
