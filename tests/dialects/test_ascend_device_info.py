"""The chips of a node in the forms of Huawei's device plugin, which its own tools check before they believe them."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from linkwise.dialects.ascend.dialect import Ascend, served_annotations
from linkwise.dialects.ascend.node import (
    ChipStates,
    DeviceInfo,
    chip_lists,
    config_map,
    is_current,
    no_annotations,
    node_annotations,
)
from linkwise.dialects.ascend.rank_table import ChipDetails
from linkwise.model.views import NodeView
from linkwise.testing.cluster import ASCEND, device_pod

STATES = ChipStates(ASCEND, frozenset({7, 0, 2}), frozenset({5}), frozenset({2}))


def info(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document["data"]["DeviceInfoCfg"])
    return found


def test_lists_are_ascending_with_commas_and_no_blanks() -> None:
    lists = chip_lists(STATES)
    assert lists[ASCEND] == "Ascend910-0,Ascend910-2,Ascend910-7"
    assert (lists[f"{ASCEND}-Unhealthy"], lists[f"{ASCEND}-NetworkUnhealthy"]) == ("Ascend910-5", "Ascend910-2")
    assert lists[f"{ASCEND}-Recovering"] == ""
    (fault,) = json.loads(lists[f"{ASCEND}-Fault"])
    assert (fault["fault_type"], fault["npu_name"]) == ("CardUnhealthy", "Ascend910-5")


@pytest.mark.rule("003.faulty")
def test_a_faulty_chip_is_never_free() -> None:
    assert chip_lists(ChipStates(ASCEND, frozenset({1, 2}), frozenset({2})))[ASCEND] == "Ascend910-1"


def test_the_check_code_is_the_hash_of_the_device_info_as_go_writes_it() -> None:
    lists = {"huawei.com/Ascend910-Unhealthy": "", "huawei.com/Ascend910": "Ascend910-0,Ascend910-1", "a": "<&>"}
    text = (
        r'{"DeviceList":{"a":"\u003c\u0026\u003e","huawei.com/Ascend910":"Ascend910-0,Ascend910-1",'
        r'"huawei.com/Ascend910-Unhealthy":""},"UpdateTime":1700000000}'
    )
    document = config_map(DeviceInfo("npu-1", lists), 1700000000)
    assert info(document)["CheckCode"] == sha256(text.encode()).hexdigest()
    assert list(info(document)) == ["DeviceInfo", "SuperPodID", "ServerIndex", "CheckCode"]


def test_the_config_map_is_written_again_after_a_change_or_five_minutes() -> None:
    desired = DeviceInfo("npu-1", chip_lists(STATES))
    document = config_map(desired, 1000)
    assert is_current(document, desired, 1299.0)
    assert not is_current(document, desired, 1300.0)
    assert not is_current(document, DeviceInfo("npu-1", chip_lists(ChipStates(ASCEND))), 1001.0)
    assert not is_current({"data": {"DeviceInfoCfg": "{"}}, desired, 1001.0)


@pytest.mark.rule("003.faulty")
def test_what_the_agent_writes_is_read_back_as_the_same_chips() -> None:
    details = {number: ChipDetails(f"10.0.0.{number}") for number in range(8)}
    written = {key: text for key, text in node_annotations(STATES, details).items() if text is not None}
    amounts = {ASCEND: "8"}
    view = NodeView("npu-1", annotations=written, capacity=amounts, allocatable={ASCEND: "7"})
    for facts in (
        Ascend().node(view, {}),
        Ascend().node(
            NodeView("npu-1", annotations={"baseDeviceInfos": written["baseDeviceInfos"]}, capacity=amounts),
            {"ConfigMap/mindx-dl-deviceinfo-npu-1": config_map(DeviceInfo("npu-1", chip_lists(STATES)), 5)},
        ),
    ):
        assert facts is not None
        assert [device.index for device in facts.devices if not device.healthy] == [5]
        assert [device.index for device in facts.devices if not device.reachable] == [2]
        assert (facts.labels["free"], facts.problems) == ("#0,#2,#7", ())


def test_all_annotations_that_are_written_can_be_removed() -> None:
    assert no_annotations(ASCEND).keys() == node_annotations(STATES, {}).keys()
    assert node_annotations(STATES, {})["baseDeviceInfos"] is None


@pytest.mark.rule("003.record")
def test_a_served_pod_gets_what_huaweis_plugin_would_write() -> None:
    pod = device_pod("train", 2, ASCEND)
    chosen = {ASCEND: "Ascend910-4,Ascend910-5", "predicate-time": "1700000000000000000"}
    pod = type(pod)(pod.namespace, pod.name, pod.uid, pod.containers, annotations=chosen)
    written = served_annotations(pod, [5, 4], {4: "10.0.0.4", 5: "10.0.0.5"}, "192.0.2.1")
    assert written["huawei.com/AscendReal"] == written["huawei.com/kltDev"] == "Ascend910-4,Ascend910-5"
    assert written["predicate-time"] == "18446744073709551615"
    assert written["ascend.kubectl.kubernetes.io/ascend-910-configuration"] == (
        '{"pod_name":"train","server_id":"192.0.2.1","host_ip":"192.0.2.1","devices":'
        '[{"device_id":"4","device_ip":"10.0.0.4"},{"device_id":"5","device_ip":"10.0.0.5"}]}'
    )
    again = type(pod)(pod.namespace, pod.name, pod.uid, pod.containers, annotations={**chosen, **written})
    assert served_annotations(again, [5, 4], {4: "10.0.0.4", 5: "10.0.0.5"}, "192.0.2.1") == {}


def test_without_addresses_there_is_no_entry_for_a_rank_table() -> None:
    written = served_annotations(device_pod("train", 1, ASCEND), [3], {3: ""}, "192.0.2.1")
    assert written == {"huawei.com/AscendReal": "Ascend910-3", "huawei.com/kltDev": "Ascend910-3"}


def test_pods_of_other_devices_get_none_of_these_annotations() -> None:
    assert served_annotations(device_pod("train", 1), [3], {}, "192.0.2.1") == {}


@pytest.mark.parametrize(
    ("names", "resource"),
    [
        (["Ascend310P-0", "Ascend310P-1"], "huawei.com/Ascend310P"),
        (["Ascend910-0"], ASCEND),
        (["ascend-node-0"], ASCEND),
        ([], ASCEND),
    ],
)
def test_chips_are_served_under_the_resource_in_their_names(names: list[str], resource: str) -> None:
    assert Ascend().resource_for(names) == resource
