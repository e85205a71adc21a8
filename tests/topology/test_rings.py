from __future__ import annotations

from linkwise import Topology
from linkwise.model.topology import numbered
from linkwise.testing.machines import BRIDGED, DGX1
from linkwise.topology.rings import idle_by_ring, rings


def test_rings_that_the_hardware_states_are_taken() -> None:
    assert rings(Topology(numbered(4), rings=((0, 1), (2, 3)))) == ((0, 1), (2, 3))


def test_else_rings_are_islands_of_direct_links() -> None:
    assert rings(BRIDGED) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert rings(DGX1) == (tuple(range(8)),)


def test_without_direct_links_every_device_is_alone() -> None:
    assert rings(Topology(numbered(3))) == ((0,), (1,), (2,))


def test_idle_devices_are_counted_by_ring() -> None:
    assert idle_by_ring(((0, 1, 2, 3), (4, 5, 6, 7)), [0, 4, 5]) == (1, 2)
