"""Names and addresses of Ascend chips, and the annotation rank tables are made of."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from linkwise import InputError, NodeView, PodView
from linkwise.dialects.ascend.rank_table import (
    ChipDetails,
    Ranks,
    Server,
    chip_details,
    chip_names,
    chip_numbers,
    rank_key,
    rank_text,
    ranks,
    read_ranks,
)
from linkwise.model.verdict import Problem

NPU = "huawei.com/Ascend910"
KEY = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
POD = PodView("default", "worker-0", "u1")
NODE = NodeView(
    "npu-1",
    annotations={
        "baseDeviceInfos": json.dumps({f"Ascend910-{n}": {"IP": f"10.0.0.{n}", "SuperDeviceID": n} for n in range(4)})
    },
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["devices", "device_id", "device_ip", "super_pod_id", "server_id", "IP", "Ascend910-1"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def pod(text: str, key: str = KEY) -> PodView:
    return PodView("default", "worker-0", "u1", annotations={key: text})


def test_chips_are_written_ascending_with_commas_and_no_blanks() -> None:
    assert chip_names({10, 2, 0}, NPU) == "Ascend910-0,Ascend910-2,Ascend910-10"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), (" ", ()), ("Ascend910-3", (3,)), (" Ascend910-7 , Ascend910-1", (1, 7))],
)
def test_a_list_of_chips_is_read_with_blanks_and_in_any_order(text: str, numbers: tuple[int, ...]) -> None:
    assert chip_numbers(text, NPU) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "Ascend910-0,",
        "Ascend910-0;Ascend910-1",
        "Ascend910-0,Ascend310-1",
        "Ascend910-00",
        "Ascend910--1",
        "Ascend910-٣",
        "Ascend910-2c-100-1",
        "Ascend910-0,Ascend910-0",
        "0,1",
        5,
        None,
    ],
)
def test_one_wrong_item_spoils_a_list(text: object) -> None:
    with pytest.raises(InputError):
        chip_numbers(text, NPU)


@given(st.sets(st.integers(0, 9999), max_size=64))
def test_a_written_list_is_read_back(numbers: set[int]) -> None:
    assert chip_numbers(chip_names(numbers, NPU), NPU) == tuple(sorted(numbers))


def test_an_entry_holds_ids_as_texts_and_the_super_pod_as_a_number() -> None:
    entry = ranks(POD, NODE, NPU, {1, 0}, Server("192.168.0.7", super_pod=3))
    assert isinstance(entry, Ranks)
    assert json.loads(rank_text(entry)) == {
        "pod_name": "worker-0",
        "server_id": "192.168.0.7",
        "super_pod_id": 3,
        "devices": [
            {"device_id": "0", "device_ip": "10.0.0.0", "super_device_id": "0"},
            {"device_id": "1", "device_ip": "10.0.0.1", "super_device_id": "1"},
        ],
    }


def test_what_is_not_known_is_left_out() -> None:
    text = rank_text(Ranks("worker-0", Server("n"), {5: ChipDetails("")}))
    assert text == '{"pod_name":"worker-0","server_id":"n","devices":[{"device_id":"5","device_ip":""}]}'


def test_a_chip_without_an_address_is_a_problem_of_the_node() -> None:
    found = ranks(POD, NODE, NPU, [3, 6], Server("n"))
    assert isinstance(found, Problem)
    assert (found.where, found.key) == ("node npu-1", "baseDeviceInfos")
    assert "chip 6" in found.sentence


@given(
    st.builds(
        Ranks,
        st.text(),
        st.builds(Server, st.text(), st.none() | st.integers(0, 2**31 - 1)),
        st.dictionaries(
            st.integers(0, 9999),
            st.builds(ChipDetails, st.text(), st.none() | st.integers(0, 2**32 - 1)),
            max_size=8,
        ),
    ),
    st.sampled_from(["huawei.com/Ascend910", "huawei.com/npu"]),
)
def test_a_written_entry_is_read_back(entry: Ranks, resource: str) -> None:
    assert read_ranks(pod(rank_text(entry), rank_key(resource)), resource) == entry


def test_numbers_are_read_as_texts_and_as_numbers_and_below_zero_as_unknown() -> None:
    text = '{"pod_name":"p","server_id":"s","super_pod_id":%s,"devices":[]}'
    found = [read_ranks(pod(text % number), NPU) for number in ('"4"', "4", "-2", '""')]
    assert [entry.server.super_pod for entry in found if isinstance(entry, Ranks)] == [4, 4, None, None]


def test_the_newest_generation_has_a_key_of_its_own() -> None:
    assert rank_key("huawei.com/npu").endswith("/ascend-npu-configuration")
    assert read_ranks(pod("{", KEY), "huawei.com/npu") is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        '{"devices":{}}',
        '{"devices":[4]}',
        '{"devices":[{}]}',
        '{"devices":[{"device_id":"x"}]}',
        '{"devices":[{"device_id":true}]}',
        '{"devices":[{"device_id":"1","device_ip":7}]}',
        '{"devices":[{"device_id":"1"},{"device_id":1}]}',
        '{"devices":[],"super_pod_id":"many"}',
    ],
)
def test_a_broken_entry_is_a_problem_of_the_pod(text: str) -> None:
    found = read_ranks(pod(text), NPU)
    assert isinstance(found, Problem)
    assert (found.where, found.key) == ("pod default/worker-0", KEY)


@given(st.text() | json_values.map(json.dumps))
def test_no_annotation_raises(text: str) -> None:
    read_ranks(pod(text), NPU)
    view = NodeView("n", annotations={"baseDeviceInfos": text})
    chip_details(view, NPU)


def test_the_newer_name_of_the_addresses_goes_first() -> None:
    newer = {"huawei.com/npu.base-device-infos": '{"Ascend910-0":{"IP":"10.1.1.1"}}'}
    view = NodeView("n", annotations={**NODE.annotations, **newer})
    assert chip_details(view, NPU) == {0: ChipDetails("10.1.1.1")}


@pytest.mark.parametrize(
    "text",
    ["x", "[]", '{"Ascend910-0":5}', '{"":{}}', '{"Ascend910-0,Ascend910-1":{}}', '{"Ascend910-0":{"IP":5}}'],
)
def test_broken_addresses_are_a_problem_of_the_node(text: str) -> None:
    found = chip_details(NodeView("n", annotations={"baseDeviceInfos": text}), NPU)
    assert isinstance(found, Problem)
    assert (found.where, found.key) == ("node n", "baseDeviceInfos")
