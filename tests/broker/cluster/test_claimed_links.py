"""Devices of slices and of an inventory are the same by UUID, or by PCI address; links follow."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_object
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts, NodeInventory
from linkwise.model.link import SELF, Link
from linkwise.model.settings import ClaimSettings, PlacingSettings
from linkwise.model.topology import Topology
from linkwise.testing.cluster import FakeNode
from support.builders.dra_objects import DRIVER, device_class, resource_slice
from support.claim_cluster import seen

BUS = ("0000:1b:00.0", "0000:3c:00.0", "0000:5d:00.0")


def of_slice(index: int, **attributes: str | None) -> dict[str, Any]:
    found = {"type": "gpu", "uuid": f"GPU-{index}", "resource.kubernetes.io/pciBusID": BUS[index], **attributes}
    return {"name": f"gpu-{index}", "attributes": {name: {"string": text} for name, text in found.items() if text}}


def merged(devices: list[dict[str, Any]], listed: list[Device], *, plan: bool = True) -> NodeInventory:
    near, far = Link("NV2"), Link("SYS")
    rows = range(len(listed))
    links = tuple(tuple(SELF if i == j else near if {i, j} == {0, 1} else far for j in rows) for i in rows)
    facts = NodeFacts(
        SOURCE, tuple(listed), Topology(tuple(each.id for each in listed), links), mode="whole", unit="GiB"
    )
    broker = Broker(PlacingSettings(claims=ClaimSettings(plan=plan)))
    node = FakeNode("n", registered=False, inventory=False)
    inventory = NodeObject("n", KIND, inventory_object("n", facts, enforced=True))
    broker.observe([node.view(), inventory, seen(device_class()), seen(resource_slice("n", devices))], 1.0)
    return broker.inventories["n"]


def listed(*names: str, order: tuple[int, ...] = (0, 1, 2)) -> list[Device]:
    return [
        Device(names[place], place, bus_id=f"00000000:{BUS[index][5:].upper()}") for place, index in enumerate(order)
    ]


def linked(inventory: NodeInventory) -> set[str]:
    assert inventory.topology
    names, links = inventory.topology.devices, inventory.topology.links
    return {names[i] for i in range(len(names)) for j in range(len(names)) if str(links[i][j]) == "NV2"}


def test_devices_with_equal_uuids_are_the_same() -> None:
    inventory = merged([of_slice(index) for index in (2, 1, 0)], listed("GPU-0", "GPU-1", "GPU-2"))
    assert [device.id for device in inventory.devices] == ["GPU-0", "GPU-1", "GPU-2"]
    assert linked(inventory) == {"GPU-0", "GPU-1"}
    assert inventory.pins["GPU-0"] == (f"{DRIVER}/uuid", "GPU-0")


def test_without_uuids_devices_with_equal_pci_addresses_are_the_same() -> None:
    inventory = merged([of_slice(index, uuid=None) for index in range(3)], listed("x", "y", "z", order=(2, 1, 0)))
    assert [device.id for device in inventory.devices] == ["gpu-2", "gpu-1", "gpu-0"]
    assert linked(inventory) == {"gpu-2", "gpu-1"}
    assert inventory.pins["gpu-0"] == ("resource.kubernetes.io/pciBusID", BUS[0])


def test_links_of_a_device_that_is_in_no_slice_are_left_out() -> None:
    inventory = merged([of_slice(0), of_slice(1)], listed("GPU-0", "GPU-1", "GPU-2"))
    assert inventory.topology
    assert inventory.topology.devices == ("GPU-0", "GPU-1")
    assert not inventory.problems


@pytest.mark.parametrize(
    "devices",
    [
        [of_slice(0, uuid="GPU-0"), of_slice(1, uuid="GPU-0", **{"resource.kubernetes.io/pciBusID": BUS[0]})],
        [of_slice(0), of_slice(1, uuid=None, **{"resource.kubernetes.io/pciBusID": None})],
    ],
)
def test_devices_that_no_attribute_tells_apart_have_no_pins(devices: list[dict[str, Any]]) -> None:
    inventory = merged(devices, [])
    assert len(inventory.devices) == 2
    assert not inventory.pins
    assert not inventory.steered


def test_with_the_setting_off_links_are_left_out() -> None:
    inventory = merged([of_slice(index) for index in range(3)], listed("GPU-0", "GPU-1", "GPU-2"), plan=False)
    assert inventory.topology is None
