"""What the agent's DRA driver publishes: devices, good sets in their order, and counters that keep them apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.model.topology import Topology
from linkwise.node.dra.pool import pool_of
from linkwise.node.dra.sets import good_sets
from support.builders.discoveries import dgx1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = {"devices": 64, "sets": 8, "counters": 32, "attributes": 32}
"""limits of the API server"""


def box(count: int, value: Callable[[int, int], float] = lambda *_: 50.0) -> Discovery:
    """A machine whose pairs have this bandwidth in GB/s."""
    devices = tuple(
        Device(f"GPU-{i:08}-aaaa-bbbb-cccc-dddddddddddd", i, minor=i, numa=i // 4, bus_id=f"00000000:{i:02X}:00.0")
        for i in range(count)
    )
    matrix = tuple(tuple(0.0 if i == j else value(i, j) for j in range(count)) for i in range(count))
    return Discovery("nvidia", devices, Topology(tuple(one.id for one in devices), bandwidth=matrix))


def published(found: Discovery, cordons: dict[str, str] | None = None) -> dict[str, Any]:
    parts: Any = pool_of(found, cordons or {}).parts
    return {device["name"]: device for part in parts for device in part.get("devices", ())}


def names(found: Discovery, size: int) -> list[str]:
    return [one.name for one in good_sets(found) if len(one.devices) == size]


def consumed(device: Any) -> set[str]:  # noqa: ANN401 - JSON
    return {name for one in device["consumesCounters"] for name in one["counters"]}


def test_a_device_has_its_identity_its_place_and_its_links_as_attributes() -> None:
    found = published(dgx1())["gpu-3"]["attributes"]
    device = dgx1().devices[3]
    assert found["uuid"] == {"string": device.id}
    assert found["index"] == {"int": 3}
    assert found["productName"] == {"string": device.model}
    assert found["numaNode"] == {"int": device.numa}
    assert found["type"] == {"string": "device"}
    assert found["linkTo0"] == {"string": "NV2+PHB"}
    assert {name for name in found if name.startswith("bandwidthTo")} == {f"bandwidthTo{i}" for i in range(8) if i != 3}
    assert found["bandwidthTo0"]["int"] > found["bandwidthTo4"]["int"] > 1000  # MB/s


def test_the_pci_address_is_the_standard_attribute_in_its_standard_form() -> None:
    assert published(box(4))["gpu-3"]["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": "0000:03:00.0"}
    odd = replace(box(2), devices=tuple(replace(one, bus_id="a bus") for one in box(2).devices))
    assert "resource.kubernetes.io/pciBusID" not in published(odd)["gpu-0"]["attributes"]


def test_memory_is_written_as_the_api_server_returns_it() -> None:
    assert published(dgx1())["gpu-0"]["capacity"] == {"memory": {"value": f"{dgx1().devices[0].memory}Mi"}}
    even = replace(box(2), devices=tuple(replace(one, memory=81920) for one in box(2).devices))
    assert published(even)["gpu-0"]["capacity"] == {"memory": {"value": "80Gi"}}
    assert published(even)["pair-0-1"]["capacity"] == {"memory": {"value": "160Gi"}}


def test_allocated_in_their_order_the_pairs_of_a_dgx1_leave_as_many_good_pairs_as_there_can_be() -> None:
    pairs = names(dgx1(), 2)
    assert 4 < len(pairs) < len(list(combinations(range(8), 2)))
    taken: set[str] = set()
    chosen = []
    for name in pairs:  # as in-tree allocation takes them
        members = set(name.split("-")[1:])
        if taken.isdisjoint(members):
            taken |= members
            chosen.append(name)
    assert len(chosen) == 4


def test_sets_within_five_percent_of_the_best_are_published_the_best_bandwidth_among_them() -> None:
    def value(i: int, j: int) -> float:
        return {frozenset((0, 1)): 100.0, frozenset((2, 3)): 96.0, frozenset((1, 2)): 94.0}.get(frozenset((i, j)), 20.0)

    found = published(box(4, value))
    assert {name for name in found if name.startswith("pair")} == {"pair-0-1", "pair-2-3"}
    assert found["pair-2-3"]["attributes"]["bandwidth"] == {"int": 96000}
    assert found["four-0-1-2-3"]["attributes"]["bandwidth"] == {"int": 20000}


def test_a_set_consumes_the_counters_of_its_members_and_no_others() -> None:
    found = published(dgx1())
    for name, device in found.items():
        members = {consumed(found[f"gpu-{index}"]).copy().pop() for index in name.split("-")[1:]}
        assert consumed(device) == members
    assert len(set().union(*(consumed(found[f"gpu-{i}"]) for i in range(8)))) == 8


def machines() -> Iterator[Discovery]:
    yield from (dgx1(), *(box(count) for count in (1, 2, 3, 4, 8, 16, 17, 33, 64)))
    yield replace(dgx1(), topology=None)
    yield box(16, lambda i, j: 300.0 if i // 4 == j // 4 else 20.0)


@pytest.mark.parametrize("found", list(machines()), ids=lambda found: f"{len(found.devices)} devices")
def test_no_slice_exceeds_a_limit_of_the_api_server(found: Discovery) -> None:
    parts: Any = pool_of(found, {found.devices[0].id: "ticket"}).parts
    defined: dict[str, set[str]] = {}
    for part in parts:
        assert len(part) == 1  # devices or counters
        assert 1 <= len(part.get("devices", "x")) <= MOST["devices"]
        assert 1 <= len(part.get("sharedCounters", "x")) <= MOST["sets"]
        for one in part.get("sharedCounters", ()):
            assert len(one["counters"]) <= MOST["counters"]
            defined[one["name"]] = set(one["counters"])
    for device in published(found).values():
        assert len(device["attributes"]) + len(device.get("capacity", ())) <= MOST["attributes"]
        assert len(device["name"]) <= 63
        assert len(device["consumesCounters"]) <= 2
        assert all(set(one["counters"]) <= defined[one["counterSet"]] for one in device["consumesCounters"])
        assert all(len(name.rpartition("/")[2]) <= 32 for name in device["attributes"])
        assert all(len(str(one.get("string", ""))) <= 64 for one in device["attributes"].values())


def test_without_link_data_there_are_devices_and_no_sets() -> None:
    assert set(published(replace(dgx1(), topology=None))) == {f"gpu-{index}" for index in range(8)}


def test_of_equal_sets_those_on_one_numa_node_come_first() -> None:
    assert names(box(8), 4)[:2] == ["four-0-1-2-3", "four-4-5-6-7"]
    assert len(names(box(16), 4)) == 64


def test_a_fault_taints_the_device_and_its_sets_and_changes_no_set() -> None:
    devices = tuple(replace(one, healthy=one.index != 2) for one in dgx1().devices)
    sick = replace(dgx1(), devices=devices, faults={devices[2].id: "Xid 79 (the GPU has fallen off the bus)"})
    found = published(sick)
    assert found.keys() == published(dgx1()).keys()
    tainted = {name for name, one in found.items() if "taints" in one}
    assert tainted == {name for name in found if "2" in name.split("-")[1:]}
    (taint,) = found["gpu-2"]["taints"]
    assert taint == {
        "key": "linkwise.dev/unhealthy",
        "effect": "NoSchedule",
        "value": "Xid-79-the-GPU-has-fallen-off-the-bus",
    }
    pool: Any = pool_of(sick, {})
    assert pool.faults["gpu-2"] == "Xid 79 (the GPU has fallen off the bus)"
    assert [one["name"] for one in pool.plain[0]["devices"]] == [f"gpu-{index}" for index in range(8) if index != 2]


def test_a_cordon_taints_without_being_a_fault() -> None:
    pool: Any = pool_of(dgx1(), {"#5": "ECC errors, ticket 4711"})
    (taint,) = published(dgx1(), {"#5": "ECC errors, ticket 4711"})["gpu-5"]["taints"]
    assert (taint["key"], taint["value"]) == ("linkwise.dev/cordoned", "ECC-errors-ticket-4711")
    assert not pool.faults


def test_a_machine_without_devices_has_an_empty_pool() -> None:
    assert pool_of(Discovery(""), {}).parts == ()
