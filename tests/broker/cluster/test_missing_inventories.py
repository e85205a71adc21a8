"""Inventories that vanish and return: the devices in use stay in use, under the names they had."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.explain.node import explain_node, node_lines
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import NodeView
from linkwise.testing.cluster import ASCEND, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, place
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import PodView

NOW = 1_000_000.0
GRACE = PlacingSettings().inventory_grace
BOX = FakeNode("n", count=4)
GONE = NodeObject("n", KIND, None)


def device_ids(broker: Broker) -> list[str]:
    return [device.id for device in broker.usage["n"].devices]


def used(broker: Broker) -> set[str]:
    return set(broker.usage["n"].used)


def devices_of(pod: PodView) -> list[str]:
    containers = json.loads(pod.annotations[GRANT])["containers"].values()
    return [device for part in containers for device in part["devices"]]


def at(broker: Broker, now: float) -> Broker:
    broker.step(now)
    return broker


def test_a_device_in_use_is_not_granted_again_while_its_inventory_is_away() -> None:
    broker = broker_of(BOX)
    first = place(broker, device_pod("w", 2), "n", NOW)
    broker.observe([GONE], NOW)
    second = place(broker, device_pod("w2", 2), "n", NOW + 1)
    assert not {*devices_of(first)} & {*devices_of(second)}
    assert device_ids(broker) == ["n-d0", "n-d1", "n-d2", "n-d3"]
    broker.observe([BOX.inventory_object()], NOW + 2)
    assert (len(used(broker)), dict(broker.drift)) == (4, {})


def test_links_decide_as_before_while_an_inventory_is_away() -> None:
    broker = broker_of(BOX)
    broker.observe([GONE], NOW)
    assert set(devices_of(place(broker, device_pod("w", 2), "n", NOW))) in ({"n-d0", "n-d1"}, {"n-d2", "n-d3"})


@pytest.mark.parametrize("back", [GRACE - 1, GRACE + 1, 100 * GRACE])
def test_no_device_is_recorded_twice_however_long_the_inventory_is_away(back: float) -> None:
    broker = broker_of(BOX)
    pods = [place(broker, device_pod("w", 2), "n", NOW)]
    broker.observe([GONE], NOW)
    pods.append(place(broker, device_pod("w2"), "n", NOW + back))
    assert broker.filter(device_pod("large", 2), ["n"], NOW + back).nodes == []
    pods.append(place(broker, device_pod("w3"), "n", NOW + back))
    broker.observe([BOX.inventory_object()], NOW + back)
    assert (used(broker), dict(broker.drift)) == ({"n-d0", "n-d1", "n-d2", "n-d3"}, {})


def test_after_the_grace_period_devices_are_known_by_their_index() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("w", 2), "n", NOW)
    broker.observe([GONE], NOW)
    assert broker.next_deadline() == NOW + GRACE
    assert device_ids(at(broker, NOW + GRACE - 0.1))[0] == "n-d0"
    assert device_ids(at(broker, NOW + GRACE)) == ["#0", "#1", "#2", "#3"]
    assert (used(broker), broker.usage["n"].unattributed, dict(broker.drift)) == ({"#0", "#1"}, 0, {})
    assert broker.next_deadline() is None


def test_a_service_that_starts_while_the_inventory_is_away_grants_no_device_in_use() -> None:
    first = place(broker_of(BOX), device_pod("w", 2), "n")
    restarted = Broker()
    restarted.observe([first, BOX.view()], NOW)
    second = place(restarted, device_pod("w2", 2), "n", NOW)
    assert devices_of(second) == ["#2", "#3"]
    assert restarted.filter(device_pod("w3"), ["n"], NOW).nodes == []
    restarted.observe([BOX.inventory_object()], NOW)
    assert (len(used(restarted)), dict(restarted.drift)) == (4, {})


@pytest.mark.parametrize(("family", "resource", "amount"), [("share", MEMORY, 8), ("ring", ASCEND, 2)])
def test_shares_and_chips_are_not_granted_again_after_a_restart_either(family: Any, resource: str, amount: int) -> None:  # noqa: ANN401
    box = FakeNode("n", family, 8)
    first = place(broker_of(box), device_pod("w", amount, resource), "n")
    for inventories in ([], [box.inventory_object(), NodeObject("n", KIND, None)]):
        broker = Broker()
        broker.observe([first, box.view(), *inventories], NOW)
        place(broker, device_pod("w2", amount, resource), "n", NOW + 2 * GRACE)
        broker.observe([box.inventory_object()], NOW + 2 * GRACE)
        assert dict(broker.drift) == {}


def test_a_record_without_indices_counts_as_devices_that_are_not_known() -> None:
    pod = place(broker_of(BOX), device_pod("w", 2), "n")
    record = json.loads(pod.annotations[GRANT])
    del record["containers"]["main"]["indices"]
    broker = Broker()
    broker.observe([replace(pod, annotations={GRANT: json.dumps(record)}), BOX.view()], NOW)
    assert (used(broker), broker.usage["n"].unattributed) == (set(), 2)


@pytest.mark.parametrize("indices", ["[0]", "[0,0]", "[0,-1]", '"0,1"', "[0,1.5]", "null", "[0,1,2]", "[99,98]"])
def test_indices_that_make_no_sense_never_free_a_device(indices: str) -> None:
    pod = place(broker_of(BOX), device_pod("w", 2), "n")
    text = pod.annotations[GRANT].replace('"indices":[0,1]', f'"indices":{indices}')
    assert text != pod.annotations[GRANT]
    broker = Broker()
    broker.observe([replace(pod, annotations={GRANT: text}), BOX.view()], NOW)
    assert broker.filter(device_pod("large", 3), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("small", 2), ["n"], NOW).nodes == ["n"]


def test_other_hardware_takes_over_at_once() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("w", 2), "n", NOW)
    broker.observe([GONE], NOW)
    broker.observe([replace(BOX, registered=False).view()], NOW + 1)  # the device plugin restarts
    assert device_ids(broker)[0] == "n-d0"
    broker.observe([replace(BOX, count=8).view()], NOW + 2)
    assert device_ids(broker) == [f"#{index}" for index in range(8)]
    assert used(broker) == {"#0", "#1"}
    broker.observe([replace(BOX, ids=("a", "b", "c", "d")).inventory_object(), BOX.view()], NOW + 3)
    assert (device_ids(broker), broker.usage["n"].unattributed) == (["a", "b", "c", "d"], 2)


def test_a_node_that_is_deleted_takes_its_missing_inventory_with_it() -> None:
    broker = broker_of(BOX)
    broker.observe([GONE], NOW)
    broker.observe([NodeGone("n"), BOX.view()], NOW)
    assert device_ids(broker) == ["#0", "#1", "#2", "#3"]
    assert broker.next_deadline() is None


def test_devices_that_kubelet_finds_unhealthy_meanwhile_are_not_granted() -> None:
    broker = broker_of(BOX)
    broker.observe([GONE], NOW)
    broker.observe([replace(BOX, unhealthy=frozenset({3})).view()], NOW)
    assert broker.filter(device_pod("w", 4), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("w", 3), ["n"], NOW).nodes == ["n"]


def test_a_grace_period_of_zero_drops_an_inventory_at_once() -> None:
    broker = broker_of(BOX, settings=PlacingSettings(inventory_grace=0.0))
    broker.observe([GONE], NOW)
    assert device_ids(broker) == ["#0", "#1", "#2", "#3"]


def test_a_clock_that_is_set_back_does_not_prolong_the_grace_period_for_long() -> None:
    broker = broker_of(BOX)
    broker.observe([GONE], NOW)
    at(broker, NOW - 1e6)
    assert device_ids(at(broker, NOW - 1e6 + GRACE))[0] == "#0"


def test_an_inventory_that_flaps_has_the_whole_grace_period_each_time() -> None:
    broker = broker_of(BOX)
    for round_ in range(50):
        broker.observe([GONE], NOW + round_ * GRACE * 0.9)
        broker.observe([BOX.inventory_object()], NOW + round_ * GRACE * 0.9 + 1)
    broker.observe([GONE, GONE], NOW + 50 * GRACE)
    assert device_ids(at(broker, NOW + 51 * GRACE - 1))[0] == "n-d0"
    assert device_ids(at(broker, NOW + 51 * GRACE))[0] == "#0"


def test_a_missing_inventory_is_reported_once_with_the_time() -> None:
    broker = broker_of(BOX)
    effects = (*broker.observe([GONE], NOW), *broker.observe([GONE], NOW + 5), *broker.step(NOW + 9))
    (event,) = [effect for effect in effects if isinstance(effect, Event)]
    assert event.sentence.startswith("DeviceInventory: missing since 1970-01-12T13:46:40Z; the devices last reported")
    explained = explain_node(broker, "n", NOW + 9)
    assert explained is not None
    assert event.sentence in node_lines(explained)
    broker.observe([BOX.inventory_object()], NOW + 10)
    assert broker.inventories["n"].problems == ()


def test_a_reader_without_history_reports_ids_that_no_inventory_lists() -> None:
    first = place(broker_of(BOX), device_pod("w", 2), "n")
    reader = Broker()
    reader.observe([first, BOX.view()], NOW)
    explained = explain_node(reader, "n", NOW)
    assert explained is not None
    said = "the record of 1 pod has device ids that the node does not report; its inventory may be missing"
    assert any(line.startswith(said) for line in node_lines(explained))
    reader.observe([BOX.inventory_object()], NOW)
    explained = explain_node(reader, "n", NOW)
    assert explained is not None
    assert explained.devices.by_index == 0


def test_a_deleted_crd_takes_no_device_from_any_pod() -> None:
    boxes = [FakeNode(f"n{number}", count=4) for number in range(50)]
    broker = broker_of(*boxes)
    for box in boxes:
        place(broker, device_pod(f"w-{box.name}", 3), box.name, NOW)
    broker.observe([NodeObject(box.name, KIND, None) for box in boxes], NOW)
    assert broker.filter(device_pod("large", 2), [box.name for box in boxes], NOW).nodes == []
    for number in range(50):
        pod = device_pod(f"small-{number}")
        (node,) = broker.filter(pod, [box.name for box in boxes], NOW).nodes
        assert devices_of(place(broker, pod, node, NOW)) == [f"{node}-d3"]
    broker.observe([box.inventory_object() for box in boxes], NOW + 60)
    assert dict(broker.drift) == {}


def test_the_usage_that_the_agent_reported_last_still_counts() -> None:
    broker = broker_of(BOX)
    pod = place(broker, device_pod("w"), "n", NOW)
    broker.observe([replace(BOX, allocations={pod.uid: ("n-d3",)}).inventory_object(), GONE], NOW)
    assert used(broker) == {"n-d3"}


def test_an_inventory_is_merged_again_unless_only_the_usage_differs() -> None:
    """Agents write the usage of their devices every minute, which must not cost as much as a change of devices."""
    broker = broker_of(BOX)
    merged, document = at(broker, NOW).inventories["n"], BOX.inventory_object().document
    assert isinstance(document, dict)
    busier = {
        **document,
        "status": {**document.get("status", {}), "usage": {"devices": [{"id": "n-d0", "percent": 90}]}},
    }
    broker.observe([NodeObject("n", KIND, busier)], NOW + 60)
    assert at(broker, NOW + 60).inventories["n"] is merged
    broker.observe([replace(BOX, unhealthy=frozenset({1})).inventory_object()], NOW + 120)
    assert [device.healthy for device in at(broker, NOW + 120).inventories["n"].devices] == [True, False, True, True]


def test_a_snapshot_knows_what_is_missing_and_since_when() -> None:
    broker = broker_of(BOX)
    place(broker, device_pod("w", 2), "n", NOW)
    broker.observe([GONE], NOW)
    data = encode_snapshot(broker.snapshot(NOW + 1))
    restored = Broker.restore(decode_snapshot(data, BrokerState))
    assert encode_snapshot(restored.snapshot(NOW + 1)) == data
    assert restored.inventories == broker.inventories
    assert device_ids(at(restored, NOW + GRACE))[0] == "#0"


KOORDINATOR = {"spec": {"devices": [{"type": "gpu", "id": f"GPU-{n}", "minor": n, "health": True} for n in range(2)]}}
ASCEND_INFO = {
    "data": {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": {f"{ASCEND}-Unhealthy": "Ascend910-1"}}})}
}


@pytest.mark.parametrize(
    ("resource", "kind", "document", "expected"),
    [
        (NVIDIA, "Device", KOORDINATOR, [("GPU-0", True), ("GPU-1", True)]),
        (ASCEND, "ConfigMap/mindx-dl-deviceinfo-n", ASCEND_INFO, [("#0", True), ("#1", False)]),
    ],
)
def test_inventories_of_other_systems_are_kept_too(
    resource: str, kind: str, document: Mapping[str, object], expected: list[tuple[str, bool]]
) -> None:
    broker = Broker()
    amounts = {resource: "2"}
    broker.observe([NodeView("n", capacity=amounts, allocatable=amounts), NodeObject("n", kind, document)], NOW)
    broker.observe([NodeObject("n", kind, None)], NOW)
    assert [(device.id, device.healthy) for device in broker.usage["n"].devices] == expected
    assert [(device.id, device.healthy) for device in at(broker, NOW + GRACE).usage["n"].devices] == [
        ("#0", True),
        ("#1", True),
    ]


def test_a_list_of_unhealthy_devices_ends_when_it_is_deleted() -> None:
    box = FakeNode("n", "share", 2, inventory=False)
    kind = "ConfigMap/unhealthy-gpu-n"
    broker = broker_of(box)
    broker.observe([NodeObject("n", kind, {"data": {"gpus": "1"}})], NOW)
    assert [device.healthy for device in broker.usage["n"].devices] == [True, False]
    broker.observe([NodeObject("n", kind, None)], NOW)
    assert [device.healthy for device in broker.usage["n"].devices] == [True, True]


def test_annotations_that_identify_chips_are_kept_for_the_grace_period() -> None:
    chips = {"baseDeviceInfos": json.dumps({f"Ascend910-{n}": {"IP": f"10.0.0.{n}"} for n in (0, 2)})}
    amounts = {ASCEND: "2"}
    listed = NodeView("n", annotations=chips, capacity=amounts, allocatable=amounts)
    broker = Broker()
    broker.observe([listed], NOW)
    for later in (1.0, 2.0):
        broker.observe([replace(listed, annotations={"other": str(later)})], NOW + later)
    assert device_ids(broker) == ["#0", "#2"]
    assert "baseDeviceInfos: missing" in "".join(f"{p.key}: {p.sentence}" for p in broker.inventories["n"].problems)
    assert device_ids(at(broker, NOW + 1 + GRACE)) == ["#0", "#1"]
    broker.observe([listed], NOW + 2 * GRACE)
    assert (device_ids(broker), broker.inventories["n"].problems) == (["#0", "#2"], ())
