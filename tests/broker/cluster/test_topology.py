"""The links of a node's devices, joined from all that tell of them."""

from __future__ import annotations

from typing import Any

from linkwise.model.node import Node
from support.builders.inventory_facts import (
    NVIDIA,
    TOPOLOGY,
    card,
    cards,
    inventory,
    keys,
    listed,
    matrix,
    node,
    stock,
)


def test_links_of_one_source_and_bandwidth_of_another_are_joined() -> None:
    view = node({NVIDIA: "2"}, annotations={TOPOLOGY: matrix(2)})
    found = stock(view, Device=cards(card(0), card(1), matrix="[[0,48],[47,0]]")).topology
    assert found is not None
    assert found.devices == ("GPU-0", "GPU-1")
    assert (found.links[0][1], found.bandwidth) == ("NV2", ((0, 48), (47, 0)))


def test_rows_that_stand_in_another_order_are_joined_by_device() -> None:
    rows, links = ["GPU-2", "GPU-0", "GPU-1"], [["X", "NV1", "SYS"], ["NV1", "X", "PHB"], ["SYS", "PHB", "X"]]
    published = inventory(*map(listed, range(3)), rows=rows, links=links, rings=[[0, 1]])
    device = cards(*map(card, range(3)), matrix="[[0,1,2],[3,0,4],[5,6,0]]")
    found = stock(node({}), DeviceInventory=published, Device=device).topology
    assert found is not None
    assert (found.links[0][2], found.links[0][1], found.links[1][2]) == ("NV1", "PHB", "SYS")
    assert (found.bandwidth[0], found.rings) == ((0, 1, 2), ((2, 0),))


def test_a_source_that_has_both_is_taken_as_it_is() -> None:
    rows: dict[str, Any] = {"links": [["X", "NV1"], ["NV1", "X"]], "bandwidth": [[0, 9], [9, 0]]}
    view = node({NVIDIA: "2"}, annotations={TOPOLOGY: matrix(2)})
    device = cards(card(0), card(1), matrix="[[0,48],[47,0]]")
    found = stock(view, DeviceInventory=inventory(listed(0), listed(1), **rows), Device=device).topology
    assert found is not None
    assert (found.links[0][1], found.bandwidth[0][1]) == ("NV1", 9)


def test_a_topology_of_other_devices_than_these_is_dropped_and_said() -> None:
    published = inventory(listed(0), rows=["GPU-0", "GPU-1"], links=[["X", "NV1"], ["NV1", "X"]])
    found = stock(node({}), DeviceInventory=published)
    assert (found.topology, keys(found)) == (None, ["DeviceInventory"])
    assert "link data covers 2 devices, but the node has 1; it is ignored, run " in found.problems[0].sentence
    fewer = stock(node({NVIDIA: "3"}, annotations={TOPOLOGY: matrix(3)}), Device=cards(card(0), card(1)))
    assert (fewer.topology, keys(fewer)) == (None, [TOPOLOGY])


def test_a_matrix_under_ids_of_its_own_is_that_of_the_devices_in_index_order() -> None:
    device = cards(card(0, id="GPU-cut"), card(1, id="GPU-off"), matrix="[[0,48],[47,0]]")
    found = stock(node({}), DeviceInventory=inventory(listed(0), listed(1)), Device=device)
    assert Node("n1", found.devices, topology=found.topology).positions() == {"GPU-0": 0, "GPU-1": 1}


def test_a_source_that_does_not_know_all_devices_is_not_joined() -> None:
    published = inventory(listed(0), listed(1), rows=["GPU-0", "GPU-old"], links=[["X", "NV1"], ["NV1", "X"]])
    found = stock(
        node({}), DeviceInventory=published, Device=cards(card(0), card(1), matrix="[[0,48],[47,0]]")
    ).topology
    assert found is not None
    assert (found.devices, found.bandwidth) == (("GPU-0", "GPU-old"), ())
