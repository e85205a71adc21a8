"""Whatever tells of a node's devices, pods get the right ones of them from a real kube-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.machines import profile
from support.e2e.api_client import marked, path_of
from support.e2e.brute_force_picks import by_links
from support.e2e.node_objects import ascend, device_ids, gpushare, machine

if TYPE_CHECKING:
    from support.e2e.node_objects import ChipSource, DeviceSource
    from support.e2e.service import Placing

GPU = "nvidia.com/gpu"
NPU = "huawei.com/Ascend910"
MEMORY = "aliyun.com/gpu-mem"
NUMBERS = tuple(f"#{number}" for number in range(8))
"""names of devices without a source for names"""


@pytest.mark.parametrize(("source", "names"), [("inventory", device_ids("a", "dgx1-v100")), ("annotation", NUMBERS)])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_links_are_read_from_an_inventory_and_from_an_annotation(
    placing: Placing, source: DeviceSource, names: tuple[str, ...], size: int
) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink", source=source), *machine("b", "pcie", source="labels"))
    granted = placing.place(namespace, "train", {GPU: size})
    assert (granted.node, granted.positions(names)) == ("a", by_links(profile("dgx1-v100"), size, range(8))[1])
    decides = "(expected; the node's device plugin makes the final choice)"
    assert (decides in placing.wait_for_event(namespace, "train", "DevicesChosen")) == (source == "annotation")


@pytest.mark.rule("000.unknown", "002.bare-metal")
@pytest.mark.parametrize("source", ["labels", "count"])
def test_a_node_without_link_data_is_used_by_count_after_the_others(placing: Placing, source: DeviceSource) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("dark", "switch", source=source), *machine("slow", "pcie"))
    held = [placing.place(namespace, f"p{number}", {GPU: 4}) for number in range(4)]
    assert [granted.node for granted in held] == ["slow", "slow", "dark", "dark"]
    assert [granted.devices for granted in held[2:]] == [NUMBERS[:4], NUMBERS[4:]]
    assert "providerID" not in placing.cluster.api.get("/api/v1/nodes/dark")["spec"]


def test_an_inventory_that_comes_later_counts_from_then_on(placing: Placing) -> None:
    namespace = placing.namespace()
    node, inventory = machine("a", "nvlink")
    placing.nodes(node)
    assert placing.place(namespace, "early", {GPU: 1}).devices == ("#0",)
    placing.cluster.create([inventory])
    placing.seen([inventory])
    granted = placing.place(namespace, "late", {GPU: 2})
    assert granted.positions(device_ids("a", "dgx1-v100")) == by_links(profile("dgx1-v100"), 2, range(1, 8))[1]


def test_cards_shared_by_memory_are_read_from_an_inventory(placing: Placing) -> None:
    namespace, ids = placing.namespace(), device_ids("a", "p40-share")
    placing.nodes(*machine("a", "p40-share", unhealthy=[1]))
    held = [placing.place(namespace, f"p{number}", {MEMORY: 12}) for number in range(2)]
    assert [granted.devices for granted in held] == [(ids[0],), (ids[2],)]
    written = [granted.annotations["ALIYUN_COM_GPU_MEM_IDX"] for granted in held]
    assert written == ["0", "2"]


@pytest.mark.parametrize("source", ["config map", "annotation"])
def test_chips_are_read_in_both_ways_of_huaweis_plugin(placing: Placing, source: ChipSource) -> None:
    placing.nodes(*ascend("a", source=source, unhealthy=[0, 1]))
    granted = placing.place(placing.namespace(), "train", {NPU: 2})
    assert granted.annotations[NPU] == "Ascend910-2,Ascend910-3"


def test_a_chip_that_breaks_is_not_given_from_then_on(placing: Placing) -> None:
    namespace = placing.namespace()
    node, sound = ascend("a")
    placing.nodes(node, sound)
    _, broken = ascend("a", unhealthy=[0])
    placing.cluster.api.patch(path_of(sound), {"data": broken["data"]})
    placing.seen([sound])
    assert placing.place(namespace, "train", {NPU: 1}).annotations[NPU] == "Ascend910-1"


def test_a_card_on_the_list_of_the_unhealthy_is_not_given_until_it_is_taken_off(placing: Placing) -> None:
    namespace = placing.namespace()
    node, unhealthy = gpushare("a", cards=2, memory=22, unhealthy=[0])
    placing.nodes(node, unhealthy)
    first = placing.place(namespace, "first", {MEMORY: 20})
    placing.create(namespace, "second", {MEMORY: 20})
    placing.refused(namespace, "second", "node(s) had no device with enough free memory")
    placing.cluster.api.delete(path_of(marked(unhealthy)))
    second = placing.placed(namespace, "second")
    assert [granted.annotations["ALIYUN_COM_GPU_MEM_IDX"] for granted in (first, second)] == ["1", "0"]
