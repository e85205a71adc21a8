"""What a node has, as all that tell of it agree or disagree."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.broker.cluster.inventory import merge_inventory
from linkwise.dialects.registry import by_priority, vendor_group
from linkwise.model.node import NumaAlignment
from support.builders.inventory_facts import (
    AMD,
    ASCEND,
    COUNT,
    GFD,
    MEMORY,
    NVIDIA,
    card,
    cards,
    ids,
    inventory,
    keys,
    listed,
    node,
    stock,
    words_of,
)

GIB = 2**30


def test_every_dialect_has_its_place_in_the_order_and_its_vendor() -> None:
    order = ["linkwise", "koordinator", "ascend", "aliyun", "nvidia", "amd"]
    assert [dialect.name for dialect in by_priority() if dialect.name in order] == order
    assert all(dialect.vendor for dialect in by_priority() if dialect.name != "linkwise")
    assert vendor_group("nvidia") == vendor_group("aliyun") == {"koordinator", "aliyun", "nvidia"}
    assert vendor_group("ascend") == {"ascend"}


def test_a_node_without_any_report_has_no_devices() -> None:
    found = stock(node({"cpu": "8"}))
    assert found == type(found)("n1")


@pytest.mark.parametrize(
    ("amounts", "objects", "expected"),
    [
        ({NVIDIA: "2"}, {"DeviceInventory": inventory(listed(0)), "Device": cards(card(1))}, ["GPU-0"]),
        ({NVIDIA: "2", COUNT: "3", MEMORY: "48"}, {"Device": cards(card(1))}, ["GPU-1"]),
        ({ASCEND: "1", NVIDIA: "2"}, {}, ["#0"]),
        ({NVIDIA: "2", COUNT: "3", MEMORY: "48"}, {}, ["#0", "#1", "#2"]),
        ({NVIDIA: "2", AMD: "1"}, {}, ["#0", "#1"]),
        ({AMD: "1"}, {}, ["#0"]),
        ({NVIDIA: "1"}, {"DeviceInventory": inventory()}, ["#0"]),
    ],
    ids=["inventory", "Device", "ascend", "aliyun", "nvidia", "amd", "an empty inventory"],
)
def test_the_first_that_lists_devices_says_which_they_are(
    amounts: dict[str, str], objects: dict[str, Any], expected: list[str]
) -> None:
    assert ids(stock(node(amounts), **objects)) == expected


def test_others_fill_in_what_the_first_leaves_empty_but_never_ids() -> None:
    device = card(0, id="GPU-other", topology={"nodeID": 1, "busID": "0000:3b:00.0"})
    found = stock(
        node({NVIDIA: "1"}, labels=GFD), DeviceInventory=inventory(listed(0, numa=0)), Device=cards(device)
    ).devices[0]
    assert (found.id, found.minor, found.numa, found.bus_id) == ("GPU-0", 0, 0, "0000:3b:00.0")
    assert (found.model, found.bytes) == ("A100", 16 * GIB)


def test_a_device_is_known_again_by_its_id_before_its_number() -> None:
    swapped = cards(card(0, id="GPU-1", health=False), card(1, id="GPU-0"))
    found = stock(node({}), DeviceInventory=inventory(listed(0), listed(1)), Device=swapped)
    assert [device.healthy for device in found.devices] == [True, False]


def test_devices_of_two_sources_are_matched_by_minor_number() -> None:
    published = inventory(listed(0, minor=1), listed(1, minor=0))
    found = stock(node({}), DeviceInventory=published, Device=cards(card(0, id="", health=False), card(1, id="")))
    assert [device.healthy for device in found.devices] == [True, False]


def test_a_device_is_healthy_only_if_all_sources_report_it_so() -> None:
    both = stock(
        node({NVIDIA: "3"}),
        DeviceInventory=inventory(listed(0), listed(1, healthy=False), listed(2)),
        Device=cards(card(0, health=False), card(1), card(2)),
    )
    assert [device.healthy for device in both.devices] == [False, False, True]
    unhealthy = {"ConfigMap/unhealthy-gpu-n1": {"data": {"gpus": "1"}}}
    shared = stock(node({MEMORY: "48", COUNT: "3"}), Device=cards(*map(card, range(3))), **unhealthy)
    assert [device.healthy for device in shared.devices] == [True, False, True]


def test_a_koordinator_node_that_shows_whole_devices_too_serves_both_words() -> None:
    amounts = {NVIDIA: "2", "koordinator.sh/gpu": "200", "koordinator.sh/gpu-memory": "32Gi"}
    found = stock(node(amounts, labels=GFD), Device=cards(card(0), card(1)))
    assert (words_of(found), found.mode, found.unit) == ({"koordinator", "nvidia"}, "any", "%")
    assert [(device.memory, device.bytes, device.model) for device in found.devices] == [(100, 16 * GIB, "A100")] * 2
    assert found.problems == ()


@pytest.mark.parametrize(
    ("amounts", "allocatable", "words"),
    [
        ({NVIDIA: "2"}, None, {"nvidia"}),
        ({NVIDIA: "2"}, {NVIDIA: "0"}, set()),
        ({NVIDIA: "2"}, {}, {"nvidia"}),
        ({NVIDIA: "0", "cpu": "8"}, None, set()),
        ({MEMORY: "48", COUNT: "3"}, None, {"aliyun"}),
        ({"kubernetes.io/gpu-core": "100"}, None, {"koordinator"}),
        ({ASCEND: "8"}, None, {"ascend"}),
        ({"nvidia.com/mig-1g.5gb": "7"}, None, set()),
    ],
)
def test_words_are_of_what_is_allocatable(
    amounts: dict[str, str], allocatable: dict[str, str] | None, words: set[str]
) -> None:
    assert words_of(stock(node(amounts, allocatable))) == words


def test_labels_alone_are_no_words_and_a_device_object_is() -> None:
    labels = {**GFD, "gpushare": "true", "node.koordinator.sh/gpu-model": "A100", "accelerator-type": "module"}
    assert stock(node({}, labels=labels)).words == set()
    assert stock(node({}), Device=cards(card(0))).words == {"koordinator"}
    assert stock(node({}), Device=cards()).words == set()
    assert stock(node({}), DeviceInventory=inventory(listed(0))).words == set()


def test_an_amount_that_is_no_number_is_a_problem_and_no_word() -> None:
    found = stock(node({"koordinator.sh/gpu": "lots"}))
    assert (words_of(found), keys(found)) == (set(), ["koordinator.sh/gpu"])


@pytest.mark.parametrize(
    ("mode", "amounts", "expected"),
    [
        ("whole", {MEMORY: "48", COUNT: "1"}, "whole"),
        ("any", {MEMORY: "48", COUNT: "1"}, "share"),
        ("any", {NVIDIA: "1"}, "any"),
        ("percent", {}, "percent"),
    ],
)
def test_the_inventory_says_the_mode_and_else_memory_does(mode: str, amounts: dict[str, str], expected: str) -> None:
    assert stock(node(amounts), DeviceInventory=inventory(listed(0), mode=mode)).mode == expected


def test_memory_is_counted_in_units_of_what_is_shared() -> None:
    shared = stock(node({MEMORY: "48", COUNT: "3", NVIDIA: "3"}, labels=GFD))
    assert ([device.memory for device in shared.devices], shared.unit, shared.mode) == ([16] * 3, "GiB", "share")
    with_ids = stock(node({MEMORY: "48", COUNT: "3"}), Device=cards(*map(card, range(3))))
    assert (ids(with_ids)[0], with_ids.devices[0].memory, with_ids.unit) == ("GPU-0", 16, "GiB")
    uncounted = stock(node({MEMORY: "48"}), Device=cards(card(0)))
    assert (uncounted.devices[0].memory, uncounted.unit) == (0, "")


def test_an_inventory_reports_memory_and_unit() -> None:
    published = inventory(listed(0, memory=81559), listed(1), mode="share", unit="MiB")
    found = stock(node({MEMORY: "158", COUNT: "2"}), DeviceInventory=published)
    assert ([device.memory for device in found.devices], found.unit) == ([81559, 0], "MiB")
    silent = stock(node({MEMORY: "158", COUNT: "2"}), DeviceInventory=inventory(listed(0), listed(1)))
    assert ([device.memory for device in silent.devices], silent.unit) == ([79, 79], "GiB")


@pytest.mark.parametrize(
    ("published", "size"),
    [
        (inventory(listed(0, memory=81559), unit="MiB"), 81559 * 2**20),
        (inventory(listed(0, memory=100), unit="%"), 40960 * 2**20),
        (inventory(), 40960 * 2**20),
    ],
    ids=["in MiB", "in percent", "without an inventory"],
)
def test_where_percents_are_asked_for_devices_count_percents(published: dict[str, Any], size: int) -> None:
    found = stock(node({NVIDIA: "1", "koordinator.sh/gpu": "100"}, labels=GFD), DeviceInventory=published)
    assert (found.devices[0].memory, found.devices[0].bytes, found.unit) == (100, size, "%")


def test_devices_missing_from_allocatable_are_unhealthy_and_unidentified() -> None:
    assert stock(node({NVIDIA: "8"}, {NVIDIA: "6"})).unidentified == 2
    assert stock(node({AMD: "8"}, {AMD: "7"})).unidentified == 1
    lists = {f"{ASCEND}-Unhealthy": "Ascend910-3"}
    chips = stock(node({ASCEND: "8"}, {ASCEND: "5"}, annotations=lists))
    assert ([device.index for device in chips.devices if not device.healthy], chips.unidentified) == ([3], 2)


def test_devices_known_to_be_unhealthy_are_not_counted_again() -> None:
    unhealthy = {"ConfigMap/unhealthy-gpu-n1": {"data": {"gpus": "0,1"}}}
    view = node({MEMORY: "48", COUNT: "3", NVIDIA: "3"}, {MEMORY: "48", COUNT: "3", NVIDIA: "2"})
    assert stock(view, **unhealthy).unidentified == 0
    assert stock(node({NVIDIA: "2"}, {NVIDIA: "1"}), DeviceInventory=inventory(listed(0), listed(1))).unidentified == 0
    assert stock(node({NVIDIA: "2"}, {NVIDIA: "1"}), Device=cards(card(0), card(1))).unidentified == 0


def test_what_the_inventory_saw_in_use_counts_before_the_device_object() -> None:
    held = [{"podUID": "uid-1", "devices": ["GPU-1"]}]
    entries = [{"uuid": "uid-2", "minors": [0]}]
    device = cards(card(0, id="GPU-cut"), card(1), status={"allocations": [{"type": "gpu", "entries": entries}]})
    seen = inventory(listed(0), listed(1), allocations=held)
    assert stock(node({}), DeviceInventory=seen, Device=device).allocations == {"uid-1": ("GPU-1",)}
    assert stock(node({}), Device=device).allocations == {"uid-2": ("GPU-cut",)}
    unseen = inventory(listed(0), listed(1))
    assert stock(node({}), DeviceInventory=unseen, Device=device).allocations == {"uid-2": ("GPU-0",)}


@pytest.mark.parametrize("enforced", [True, False])
def test_the_inventory_says_whether_our_agent_hands_out_the_devices(*, enforced: bool) -> None:
    assert stock(node({}), DeviceInventory=inventory(listed(0), enforced=enforced)).enforced == enforced


def test_facts_in_plain_words_and_the_profile_are_those_of_the_first_that_reports_them() -> None:
    found = stock(
        node({ASCEND: "8"}, labels={"accelerator-type": "module", "host-arch": "arm"}),
        DeviceInventory=inventory(facts={"host-arch": "x86", "driver": "7.1"}, profile="ascend-910"),
    )
    assert (found.profile, found.labels["host-arch"], found.labels["driver"]) == ("ascend-910", "x86", "7.1")
    assert stock(node({ASCEND: "8"}, labels={"accelerator-type": "module"})).profile == "module"


@pytest.mark.parametrize(
    ("amounts", "words", "others"),
    [
        ({AMD: "4", NVIDIA: "2"}, {"nvidia"}, [AMD]),
        ({NVIDIA: "2", ASCEND: "8"}, {"ascend"}, [NVIDIA]),
        ({AMD: "4", NVIDIA: "2", ASCEND: "8", "koordinator.sh/gpu": "200"}, {"nvidia", "koordinator"}, [ASCEND, AMD]),
    ],
)
def test_of_two_vendors_devices_one_is_served(amounts: dict[str, str], words: set[str], others: list[str]) -> None:
    found = stock(node(amounts))
    assert (words_of(found), keys(found)) == (words, others)
    served = "koordinator.sh/gpu" if "koordinator" in words else NVIDIA if "nvidia" in words else ASCEND
    assert all(served in problem.sentence for problem in found.problems)
    assert len(found.devices) == int(amounts[NVIDIA if "nvidia" in words else ASCEND])


def test_a_vendor_that_has_nothing_left_leaves_the_node_to_the_other() -> None:
    found = stock(node({NVIDIA: "8", AMD: "2"}, {NVIDIA: "0", AMD: "2"}))
    assert (words_of(found), ids(found), keys(found)) == ({"amd"}, ["#0", "#1"], [])


@pytest.mark.parametrize(("count", "right"), [("1", False), ("2", True), ("3", True), ("4", False), ("0", True)])
def test_an_inventory_that_counts_otherwise_than_kubelet_is_a_problem(count: str, *, right: bool) -> None:
    published = inventory(listed(0), listed(1), listed(2, healthy=False))
    assert keys(stock(node({NVIDIA: count}), DeviceInventory=published)) == ([] if right else [NVIDIA])


def test_problems_of_all_dialects_are_reported_once() -> None:
    found = stock(node({NVIDIA: "x", AMD: "y"}), DeviceInventory=inventory(listed(0), mode="odd"))
    assert keys(found) == ["DeviceInventory", NVIDIA, AMD]


def test_a_chip_of_another_name_is_another_resource() -> None:
    found = merge_inventory(node({"huawei.com/Ascend910B3": "8"}), {})
    assert {word for word in found.words if "/" in word} == {"huawei.com/Ascend910B3"}


@pytest.mark.rule("002.affinity")
def test_the_agent_knows_the_topology_manager_and_a_node_resource_topology_its_cpus() -> None:
    exported = {
        "attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}],
        "zones": [
            {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "8", "available": "6"}]}
        ],
    }
    own = inventory(listed(0, numa=0))
    assert stock(node({NVIDIA: "1"}), DeviceInventory=own).alignment is None
    other = stock(node({NVIDIA: "1"}), DeviceInventory=own, NodeResourceTopology=exported).alignment
    assert other == NumaAlignment("restricted", "container", ((0, 6),), ((0, 8),))
    own["spec"]["kubelet"] = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}
    both = stock(node({NVIDIA: "1"}), DeviceInventory=own, NodeResourceTopology=exported).alignment
    assert both == NumaAlignment("single-numa-node", "pod", ((0, 6),), ((0, 8),))
    own["spec"]["kubelet"]["cpuManagerPolicy"] = "none"
    shared = stock(node({NVIDIA: "1"}), DeviceInventory=own, NodeResourceTopology=exported).alignment
    assert shared == NumaAlignment("single-numa-node", "pod", static_cpus=False)
