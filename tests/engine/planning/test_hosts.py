"""Hosts are cached by shape, within a limit."""

from __future__ import annotations

from linkwise.engine.index.score_table import Shape
from linkwise.engine.planning.hosts import MAX_CACHED_SETS, Floors, Hosts, PartSize
from linkwise.engine.planning.parts import Amount, Card, PartsHost, at_least
from linkwise.testing.nodes import node
from linkwise.vendors.machines import profile

LARGE, SMALL = node(16, topology=profile("dgx2-v100").topology), node(8, topology=profile("dgx1-v100").topology)


def remembered(machine: str, builds: int) -> int:
    hosts, found = Hosts(), {"large": LARGE, "small": SMALL}[machine]
    for build in range(builds):
        hosts.linked(found, Shape(build, (1 << len(found.devices)) - 1, "any", 0), frozenset())
    return len(hosts)


def test_nodes_of_one_shape_are_one_host() -> None:
    hosts, shape = Hosts(), Shape(1, 0xFF, "any", 0)
    assert hosts.linked(SMALL, shape, frozenset()) is hosts.linked(SMALL, shape, frozenset())
    assert len(hosts) == 1


def test_a_host_counts_for_as_much_as_it_may_keep() -> None:
    most = MAX_CACHED_SETS >> 16
    assert remembered("large", most) == most
    assert remembered("large", most + 2) == 1
    assert remembered("small", most + 2) == most + 2


def test_parts_of_one_device_are_fast_where_links_are_unknown() -> None:
    card = Card(Amount(100), (Amount(50),), idle=True, size=100)
    host = PartsHost(None, {0: card, 1: card}, ("",), distinct=False)
    half = PartSize(0, at_least(0.5))
    assert host.fits((half, half), Floors(node=25.0))
    assert not host.fits((half, half, half), Floors(node=25.0))
    assert host.fits((half, half, half), Floors())
