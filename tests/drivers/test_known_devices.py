"""Devices that were found once are remembered while the process runs."""

from __future__ import annotations

from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.model.link import SELF, Link
from linkwise.model.topology import MAX_DEVICES, Topology

NEAR, FAR = Link("NV2"), Link("SYS")


def found(*ids: str, links: bool = True) -> Discovery:
    """Devices with the indices 0, 1, ...; the first two are near each other."""
    devices = tuple(Device(id_, index, bus_id=f"0000:{ord(id_):02x}:00.0") for index, id_ in enumerate(ids))
    rows = tuple(tuple(SELF if a == b else NEAR if {a, b} == {"a", "b"} else FAR for b in ids) for a in ids)
    return Discovery("nvidia", devices, Topology(ids, rows if links else ()))


def test_the_first_discovery_is_left_as_it_is() -> None:
    assert KnownDevices().complete(found("a", "b", "c")) == found("a", "b", "c")


def test_a_missing_device_keeps_its_place_and_its_links() -> None:
    known = KnownDevices()
    whole = known.complete(found("a", "b", "c"))
    rest = known.complete(found("b", "c"))
    assert [(device.id, device.index, device.healthy) for device in rest.devices] == [
        ("a", 0, False),
        ("b", 1, True),
        ("c", 2, True),
    ]
    assert rest.topology == whole.topology
    assert known.complete(found("a", "b", "c")) == whole


def test_a_new_device_takes_a_free_index() -> None:
    known = KnownDevices()
    known.complete(found("a", "b"))
    grown = known.complete(found("z", "a", "b"))
    assert [(device.id, device.index) for device in grown.devices] == [("a", 0), ("b", 1), ("z", 2)]
    assert grown.topology is not None
    assert grown.topology.links[0] == (SELF, NEAR, FAR)


def test_without_a_link_matrix_the_last_one_counts() -> None:
    known = KnownDevices()
    whole = known.complete(found("a", "b", "c"))
    assert known.complete(found("a", "b", "c", links=False)).topology == whole.topology


def test_a_device_that_can_not_be_read_is_known_by_its_bus_id_before_its_index() -> None:
    known = KnownDevices()
    known.complete(found("a", "b", "c"))
    rest = known.complete(found("b"), [Unreadable(0, "burnt", "0000:63:00.0")])
    assert rest.faults == {
        "a": "device 0 is lost: the driver no longer reports it",
        "c": "device 2 is lost: burnt",
    }


def test_devices_that_change_their_ids_do_not_pile_up() -> None:
    known = KnownDevices()
    for turn in range(10):
        devices = tuple(Device(f"{turn}-{index}", index) for index in range(8))
        every = known.complete(Discovery("nvidia", devices))
    assert len(every.devices) == MAX_DEVICES
    assert every.problems == ("72 devices are known, the first 64 are used",)
