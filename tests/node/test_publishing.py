"""What a node publishes is what its driver found, in the forms that others read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.dialects.linkwise.inventory import inventory_enforced, inventory_facts
from linkwise.dialects.nvidia import TOPOLOGY, Nvidia
from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.model.link import SELF, UNKNOWN_LINK, Link
from linkwise.model.topology import Topology
from linkwise.model.views import NodeView
from linkwise.node.publishing import (
    Condition,
    Serving,
    annotations_of,
    capacity_of,
    conditions_of,
    device_of,
    inventory_of,
    label_value,
    labels_of,
    memory_in,
)
from support.builders.discoveries import SHARED, WHOLE, box, dgx1

ALONE = Serving("any", "MiB", enforced=False)


def spec_of(document: dict[str, object]) -> Any:  # noqa: ANN401 - JSON
    return document["spec"]


def status_of(found: Discovery, kind: str) -> Condition:
    return next(condition for condition in conditions_of(found) if condition.type == kind)


@pytest.mark.rule("001.report")
def test_devices_links_and_bandwidth_are_read_back_as_they_were_found() -> None:
    found = dgx1()
    read = inventory_facts(json.loads(json.dumps(inventory_of("n", found, WHOLE))), "n")
    assert (read.devices, read.topology, read.labels) == (found.devices, found.topology, found.facts)
    assert (read.mode, read.unit, read.problems) == ("whole", "MiB", ())


@pytest.mark.parametrize(("mebibytes", "gibibytes"), [(16276, 15), (22919, 22), (12196, 11), (81920, 80), (1023, 0)])
def test_memory_to_share_is_rounded_down(mebibytes: int, gibibytes: int) -> None:
    document = inventory_of("n", box(1, memory=mebibytes), SHARED)
    assert spec_of(document)["devices"][0]["memory"] == gibibytes == memory_in("GiB", mebibytes)


def test_an_agent_that_serves_nothing_enforces_nothing() -> None:
    document = inventory_of("n", box(2), ALONE)
    assert (spec_of(document)["mode"], inventory_enforced(document)) == ("any", False)


def test_allocations_have_the_names_of_pods_and_a_fixed_order() -> None:
    allocations, pods = {"u2": ("GPU-1",), "u1": ("GPU-0",)}, {"u1": ("team", "trainer")}
    document = inventory_of("n", box(2), WHOLE, allocations, pods)
    assert document["status"] == {
        "allocations": [
            {"podUID": "u1", "namespace": "team", "name": "trainer", "devices": ["GPU-0"]},
            {"podUID": "u2", "devices": ["GPU-1"]},
        ]
    }


def test_the_fault_of_a_device_is_among_its_facts_and_no_problem_for_readers() -> None:
    found = box(2)
    found = replace(found, devices=(found.devices[0], replace(found.devices[1], healthy=False)))
    document = inventory_of("n", replace(found, faults={"GPU-1": "Xid 79:\nit has fallen off the bus"}), WHOLE)
    assert spec_of(document)["devices"][1]["facts"] == {"fault": "Xid 79: it has fallen off the bus"}
    read = inventory_facts(document)
    assert ([device.healthy for device in read.devices], read.problems) == ([True, False], ())


def test_a_machine_without_devices_has_an_inventory_without_devices() -> None:
    document = inventory_of("n", Discovery(""), ALONE)
    assert (spec_of(document)["devices"], spec_of(document)["deviceCount"]) == ([], 0)
    assert (labels_of(Discovery("")), annotations_of(Discovery(""))) == ({}, {})
    assert inventory_facts(document).problems == ()


def test_of_65_devices_64_are_listed_and_a_condition_says_so() -> None:
    found = box(65)
    assert len(spec_of(inventory_of("n", found, WHOLE))["devices"]) == 64
    condition = status_of(found, "InventoryComplete")
    assert (condition.status, condition.reason) == ("False", "TooManyDevices")
    assert condition.message == "65 devices were found; an inventory lists the first 64"


@pytest.mark.rule("002.inventory")
def test_labels_tell_how_many_devices_there_are_and_which() -> None:
    assert labels_of(box(8)) == {
        "linkwise.dev/accelerator-vendor": "nvidia",
        "linkwise.dev/accelerator-model": "Tesla-V100-SXM2-16GB",
        "linkwise.dev/accelerator-count": "8",
        "linkwise.dev/accelerator-memory": "16276",
    }


def test_what_differs_between_devices_is_no_label() -> None:
    found = replace(box(2), devices=(*box(1).devices, Device("GPU-1", 1, model="A100", memory=81920)))
    assert set(labels_of(found)) == {"linkwise.dev/accelerator-vendor", "linkwise.dev/accelerator-count"}


def test_a_device_of_which_nothing_is_known_changes_no_label() -> None:
    dead = Device("GPU-1", 1, healthy=False)
    assert labels_of(replace(box(2), devices=(*box(1).devices, dead))) == labels_of(box(2))


@pytest.mark.parametrize(
    ("model", "value"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("Tesla V100/SXM2 (rev. A)", "Tesla-V100-SXM2-rev.-A"),
        ("  _odd_ ", "odd"),
        ("显卡", ""),
        ("x" * 62 + "--" + "y", "x" * 62),
        ("", ""),
    ],
)
def test_odd_names_of_models_become_values_of_labels(model: str, value: str) -> None:
    assert label_value(model) == value
    assert labels_of(box(1, model=model)).get("linkwise.dev/accelerator-model", "") == value


@given(st.text())
def test_every_text_becomes_a_valid_value_of_a_label(text: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", label_value(text))


@pytest.mark.rule("000.publish")
def test_the_scheduler_reads_the_matrix_from_the_annotation() -> None:
    found = dgx1()
    resources = {"nvidia.com/gpu": "8"}
    facts = Nvidia().node(
        NodeView("n", annotations=annotations_of(found), capacity=resources, allocatable=resources), {}
    )
    assert found.topology
    assert facts
    assert facts.topology
    assert (facts.topology.links, facts.problems) == (found.topology.links, ())


def test_a_machine_that_lost_a_device_in_the_middle_has_no_matrix() -> None:
    found = dgx1()
    left = tuple(device for device in found.devices if device.index != 3)
    rows = [place for place in range(8) if place != 3]
    assert found.topology
    links = tuple(tuple(found.topology.links[i][j] for j in rows) for i in rows)
    topology = Topology(tuple(device.id for device in left), links)
    assert annotations_of(replace(found, devices=left, topology=topology)) == {}


@pytest.mark.parametrize("links", [(), ((SELF, UNKNOWN_LINK), (UNKNOWN_LINK, SELF))])
def test_a_matrix_that_is_not_complete_is_not_published(links: tuple[tuple[Link, ...], ...]) -> None:
    found = replace(box(2), topology=Topology(("GPU-0", "GPU-1"), links))
    assert annotations_of(found) == {}


def test_rows_in_another_order_than_the_indices_are_not_published() -> None:
    links = ((SELF, Link("NV2")), (Link("NV2"), SELF))
    assert TOPOLOGY in annotations_of(replace(box(2), topology=Topology(("GPU-0", "GPU-1"), links)))
    assert annotations_of(replace(box(2), topology=Topology(("GPU-1", "GPU-0"), links))) == {}


def test_the_matrix_of_other_vendors_is_only_in_the_inventory() -> None:
    assert annotations_of(replace(dgx1(), vendor="amd")) == {}


@pytest.mark.rule("004.count")
def test_the_number_of_shared_devices_is_reported_beside_their_memory() -> None:
    assert capacity_of(box(2), SHARED) == {"aliyun.com/gpu-count": "2"}


def test_a_device_without_known_memory_is_not_counted_as_shared() -> None:
    found = box(2)
    assert capacity_of(replace(found, devices=(*found.devices, Device("GPU-2", 2, healthy=False))), SHARED) == {
        "aliyun.com/gpu-count": "2"
    }


def test_the_count_is_removed_by_who_allocates_whole_devices_and_left_to_other_plugins() -> None:
    assert capacity_of(box(2), WHOLE) == {"aliyun.com/gpu-count": None}
    assert capacity_of(box(2), ALONE) == capacity_of(box(2), replace(SHARED, enforced=False)) == {}


def test_a_healthy_machine_has_true_conditions() -> None:
    found = conditions_of(dgx1())
    assert [(one.type, one.status) for one in found] == [
        ("DevicesDiscovered", "True"),
        ("DevicesHealthy", "True"),
        ("InventoryComplete", "True"),
    ]
    assert found[0].message == "8 devices were found"


def test_conditions_name_unhealthy_devices_and_what_is_missing() -> None:
    found = box(2)
    found = replace(
        found,
        devices=(found.devices[0], replace(found.devices[1], healthy=False)),
        topology=Topology(("GPU-0", "GPU-1"), problems=("the table is cut off",)),
        faults={"GPU-0": "device 0: its NUMA node is not known", "GPU-1": "device 1 is unhealthy: Xid 79"},
        problems=("NVLink states can't be read",),
    )
    assert status_of(found, "DevicesHealthy") == Condition(
        "DevicesHealthy", "False", "UnhealthyDevices", "GPU-1: device 1 is unhealthy: Xid 79"
    )
    assert status_of(found, "InventoryComplete").message == (
        "NVLink states can't be read; GPU-0: device 0: its NUMA node is not known; the table is cut off"
    )


def test_a_machine_whose_driver_is_unloaded_says_so() -> None:
    found = Discovery("", problems=("the NVIDIA driver is not loaded",))
    condition = status_of(found, "DevicesDiscovered")
    assert (condition.status, condition.message) == ("False", "the NVIDIA driver is not loaded")
    assert status_of(Discovery(""), "DevicesDiscovered").message == "no devices were found"
    assert status_of(found, "DevicesHealthy").status == "Unknown"


@pytest.mark.rule("001.report")
def test_koordinators_object_has_the_same_devices_and_the_bandwidth() -> None:
    found = dgx1()
    facts = Koordinator().node(NodeView("n"), {"Device": device_of("n", found)})
    assert found.topology
    assert facts
    assert facts.topology
    assert (facts.problems, facts.topology.bandwidth) == ((), found.topology.bandwidth)
    assert [(one.id, one.minor, one.numa, one.bytes) for one in facts.devices] == [
        (one.id, one.minor, one.numa, 16276 << 20) for one in found.devices
    ]
    assert facts.labels == {"vendor": "nvidia", "model": "Tesla-V100-SXM2-16GB", "driver": "550.54.15"}


def test_the_rows_of_koordinators_matrix_are_in_the_order_of_the_minors() -> None:
    first, second = box(2).devices
    devices = (replace(first, minor=1), replace(second, minor=0))
    found = replace(box(2), devices=devices, topology=Topology(("GPU-0", "GPU-1"), bandwidth=((0, 10), (20, 0))))
    facts = Koordinator().node(NodeView("n"), {"Device": device_of("n", found)})
    assert facts
    assert facts.topology
    assert (facts.topology.devices, facts.topology.bandwidth) == (("GPU-1", "GPU-0"), ((0, 20), (10, 0)))
