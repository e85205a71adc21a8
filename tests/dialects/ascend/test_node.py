"""What is read of a node with Ascend chips, from annotations as of old and from a ConfigMap as of today."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import Device, Grant, NodeView, Offer, Part
from linkwise.dialects.ascend.dialect import Ascend
from linkwise.dialects.ascend.node import PROFILES, node_facts
from linkwise.dialects.dialect import Held, Writing
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.policies.ring_profiles import ring_profile
from linkwise.wire.kubernetes.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.model.inventory import NodeFacts

NPU = "huawei.com/Ascend910"
EIGHT = NodeView("npu-1", capacity={NPU: "8"}, allocatable={NPU: "8"})
ALL = ",".join(f"Ascend910-{number}" for number in range(8))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def config_map(lists: object, separated: object = "", **more: object) -> dict[str, Mapping[str, object]]:
    problem_places = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1700000000}, **more}
    data = {"DeviceInfoCfg": json.dumps(problem_places), "ManuallySeparateNPU": separated}
    return {"ConfigMap/mindx-dl-deviceinfo-npu-1": {"data": data}}


def facts(view: NodeView = EIGHT, objects: Mapping[str, Mapping[str, object]] | None = None) -> NodeFacts:
    found = node_facts(view, objects or {})
    assert found is not None
    return found


def ill(found: NodeFacts) -> list[int]:
    return [device.index for device in found.devices if not device.healthy]


def problem_places(found: NodeFacts) -> list[tuple[str, str]]:
    return [(problem.where, problem.key) for problem in found.problems]


def test_a_node_without_ascend_chips_reports_nothing() -> None:
    assert node_facts(NodeView("n", labels={"host-arch": "huawei-arm"}, capacity={"cpu": "8"}), {}) is None


def test_chips_are_counted_by_capacity_where_nothing_else_is_reported() -> None:
    found = facts()
    assert [device.id for device in found.devices] == [f"#{number}" for number in range(8)]
    assert ill(found) == []
    assert found.problems == ()
    assert found.mode == "whole"


@pytest.mark.parametrize("resource", PROFILES)
def test_the_profile_of_a_resource_is_one_that_policies_know(resource: str) -> None:
    view = NodeView("n", capacity={resource: "4"})
    assert ring_profile(facts(view).profile).name


def test_the_accelerator_type_is_the_profile_and_other_labels_are_kept() -> None:
    labels = {"accelerator-type": "module-910b-16", "accelerator": "huawei-Ascend910", "host-arch": "huawei-x86"}
    tree = {"huawei.com/topotree": "t", "huawei.com/topotree.rackid": "9"}
    found = facts(replace(EIGHT, labels={**labels, **tree, "zone": "a", "node.kubernetes.io/npu.chip.name": "910B3"}))
    assert found.profile == "module-910b-16"
    assert found.labels == {"accelerator": "huawei-Ascend910", "host-arch": "huawei-x86", **tree}
    assert found.devices[0].model == "910B3"


def test_the_old_annotation_reports_which_chips_are_free() -> None:
    found = facts(replace(EIGHT, annotations={NPU: "Ascend910-5, Ascend910-0"}))
    assert found.labels["free"] == "#0,#5"
    assert (ill(found), found.problems) == ([], ())


def test_the_old_annotation_reports_the_unhealthy_chip_where_only_it_can_be_meant() -> None:
    view = replace(EIGHT, allocatable={NPU: "7"}, annotations={NPU: ALL.replace(",Ascend910-3", "")})
    assert (ill(facts(view)), facts(view).problems) == ([3], ())


def test_an_unhealthy_chip_that_could_be_any_of_several_is_a_problem() -> None:
    view = replace(EIGHT, allocatable={NPU: "7"}, annotations={NPU: "Ascend910-0,Ascend910-1"})
    assert (ill(facts(view)), problem_places(facts(view))) == ([], [("node npu-1", NPU)])


def test_no_chip_is_healthy_once_the_plugin_has_stopped() -> None:
    assert ill(facts(replace(EIGHT, allocatable={NPU: "0"}))) == list(range(8))


def test_the_config_map_reports_unhealthy_recovering_and_separated_chips() -> None:
    lists = {f"{NPU}-Unhealthy": "Ascend910-4", f"{NPU}-Recovering": "Ascend910-6"}
    found = facts(objects=config_map(lists, "Ascend910-1"))
    assert (ill(found), found.problems) == ([1, 4, 6], ())


def test_chips_with_a_bad_network_stay_healthy_and_are_not_reachable() -> None:
    found = facts(objects=config_map({f"{NPU}-NetworkUnhealthy": "Ascend910-0,Ascend910-2"}))
    assert ill(found) == []
    assert [device.index for device in found.devices if not device.reachable] == [0, 2]


def test_only_a_fault_that_separates_a_chip_makes_it_unhealthy() -> None:
    faults = [
        {"fault_type": "CardUnhealthy", "npu_name": "Ascend910-2", "fault_handling": "SeparateNPU"},
        {"fault_type": "CardUnhealthy", "npu_name": "Ascend910-3", "fault_handling": "NotHandleFault"},
        {"fault_type": "CardNetworkUnhealthy", "npu_name": "Ascend910-5", "fault_handling": "SeparateNPU"},
    ]
    found = facts(objects=config_map({f"{NPU}-Fault": json.dumps(faults)}))
    assert (ill(found), found.problems) == ([2], ())


def test_super_pod_and_server_are_reported_where_they_are_known() -> None:
    known = facts(objects=config_map({}, SuperPodID=3, ServerIndex=0, CheckCode="any"))
    assert (known.labels["super-pod"], known.labels["server-index"]) == ("3", "0")
    assert known.labels["update-time"] == "1700000000"
    assert "super-pod" not in facts(objects=config_map({}, SuperPodID=-2, ServerIndex=-2)).labels


def test_the_config_map_counts_where_annotations_say_something_else() -> None:
    view = replace(EIGHT, annotations={f"{NPU}-Unhealthy": "Ascend910-0"})
    assert ill(facts(view)) == [0]
    assert ill(facts(view, config_map({f"{NPU}-Unhealthy": "Ascend910-7"}))) == [7]


def test_a_lost_chip_leaves_a_gap_that_the_addresses_reveal() -> None:
    addresses = {f"Ascend910-{number}": {"IP": ""} for number in (0, 1, 2, 4, 5, 6, 7)}
    view = NodeView("npu-1", capacity={NPU: "7"}, annotations={"baseDeviceInfos": json.dumps(addresses)})
    assert [device.index for device in facts(view).devices] == [0, 1, 2, 4, 5, 6, 7]


def test_a_chip_both_free_and_unhealthy_is_a_problem_and_unhealthy() -> None:
    found = facts(objects=config_map({NPU: ALL, f"{NPU}-Unhealthy": "Ascend910-4"}))
    assert (ill(found), problem_places(found)) == ([4], [("node npu-1", NPU)])
    assert "#4" not in found.labels["free"]


def test_two_kinds_of_chips_on_a_node_are_a_problem() -> None:
    found = facts(replace(EIGHT, capacity={NPU: "8", "huawei.com/Ascend310P": "4"}))
    assert (found.devices, problem_places(found)) == ((), [("node npu-1", "huawei.com/Ascend310P")])


@pytest.mark.parametrize("count", ["many", "-1", "1.5", "65", "1e999"])
def test_a_count_that_no_machine_has_is_a_problem(count: str) -> None:
    found = facts(NodeView("npu-1", capacity={NPU: count}))
    assert (found.devices, problem_places(found)) == ((), [("node npu-1", NPU)])


@pytest.mark.parametrize("suffix", ["", "-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault"])
@pytest.mark.parametrize("text", ["Ascend910-x", "Ascend910-9", 5, ["Ascend910-1"], {"a": 1}])
def test_a_broken_list_is_a_problem_that_names_its_key(suffix: str, text: object) -> None:
    assert problem_places(facts(objects=config_map({f"{NPU}{suffix}": text}))) == [("node npu-1", f"{NPU}{suffix}")]


def test_broken_separated_chips_are_a_problem() -> None:
    assert problem_places(facts(objects=config_map({}, "all"))) == [("node npu-1", "ManuallySeparateNPU")]


@pytest.mark.parametrize(
    "found",
    [
        {"data": None},
        {"data": {}},
        {"data": {"DeviceInfoCfg": "{"}},
        {"data": {"DeviceInfoCfg": "[" * 100_000}},
        {"data": {"DeviceInfoCfg": '{"DeviceInfo":{"DeviceList":7}}'}},
    ],
)
def test_a_broken_config_map_is_a_problem_and_chips_are_still_counted(found: dict[str, object]) -> None:
    read = facts(objects={"ConfigMap/mindx-dl-deviceinfo-npu-1": found})
    assert (len(read.devices), problem_places(read)) == (8, [("node npu-1", "DeviceInfoCfg")])


@given(
    text=st.text(),
    value=json_values,
    key=st.sampled_from([NPU, f"{NPU}-Unhealthy", f"{NPU}-Fault", "baseDeviceInfos", "accelerator-type", "superPodID"]),
)
def test_nothing_that_stands_on_a_node_raises(text: str, value: object, key: str) -> None:
    view = replace(EIGHT, annotations={key: text}, labels={key: text}, allocatable={NPU: text})
    node_facts(view, {})
    node_facts(view, config_map({key: value}, value, SuperPodID=value))
    node_facts(view, {"ConfigMap/mindx-dl-deviceinfo-npu-1": {"data": value}})
    node_facts(view, {"ConfigMap/mindx-dl-deviceinfo-npu-1": {"data": {"DeviceInfoCfg": json.dumps(value)}}})


def test_the_nodes_that_volcano_sends_are_read(shared: Path) -> None:
    body = json.loads((shared / "data/recorded/volcano-1.14.1/predicate.json").read_text("utf-8"))
    found = facts(node_view(body["node"]["Node"]))
    assert (len(found.devices), found.problems) == (8, ())


@pytest.mark.rule("003.record")
def test_a_pod_that_volcano_sends_is_read_and_written(shared: Path) -> None:
    body = json.loads((shared / "data/recorded/volcano-1.14.1/allocateFunc.json").read_text("utf-8"))
    sent = pod_view(body["task"]["Pod"])
    ask = Ascend().ask(sent)
    assert isinstance(ask, Ask)
    assert (ask.resource, ask.containers) == (NPU, (ContainerAsk("c", devices=8),))
    devices = {f"#{number}": Device(f"#{number}", number) for number in range(8)}
    given_all = Grant(sent.uid, "", Offer(sent.node, (Part("c", tuple(devices)),)))
    written = Ascend().write(Writing(sent, given_all, devices, now=5))
    assert written[NPU] == ALL
    assert Ascend().held(replace(sent, annotations=written)) == Held(given_all)


def test_a_node_is_read_by_the_dialect() -> None:
    found = Ascend().node(NodeView("n", capacity={NPU: "8"}), {})
    assert found is not None
    assert (found.source, len(found.devices)) == (Ascend.name, 8)


@pytest.mark.parametrize(("count", "chips", "problems"), [("64", 64, 0), ("65", 0, 1)])
def test_a_machine_has_at_most_64_chips(count: str, chips: int, problems: int) -> None:
    found = facts(NodeView("npu-1", capacity={NPU: count}, allocatable={NPU: count}), config_map({NPU: ""}))
    said = [problem for problem in found.problems if "a machine has at most 64" in problem.sentence]
    assert (len(found.devices), len(said)) == (chips, problems)
