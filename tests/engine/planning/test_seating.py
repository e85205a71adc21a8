"""Seating of members with parts of devices on one node."""

from __future__ import annotations

from dataclasses import replace

from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.plan import Member
from linkwise.engine.planning.seating import seated
from linkwise.model.ask import Demand
from linkwise.model.topology import Topology
from linkwise.policies.memory_share import MemoryShare
from linkwise.testing.nodes import share_ask, share_node
from support.properties.group_problems import run

BANDWIDTH = ((700.0, 10.0, 10.0), (10.0, 700.0, 100.0), (10.0, 100.0, 700.0))


def devices(*, seed_order: bool) -> set[str]:
    """Those of two members of 60 on a used device and two unused ones, which have the fast link."""
    node = replace(share_node(100, (60, 100, 100)), topology=Topology(("d0", "d1", "d2"), bandwidth=BANDWIDTH))
    query = Query(share_ask(60), "shares", MemoryShare())
    members = [Member(f"u{number}", f"m{number}", query, Demand()) for number in range(2)]
    offers, _ = run(seated(node, (), members, seed_order=seed_order))
    return {device for offer in offers if offer for device in offer.devices}


def test_members_get_the_devices_with_the_fastest_links() -> None:
    assert devices(seed_order=False) == {"d1", "d2"}


def test_in_seed_order_members_take_few_unused_devices_first() -> None:
    assert "d0" in devices(seed_order=True)
