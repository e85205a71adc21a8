"""A fleet created at once equals the fleet created node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.cli.inputs.fleet import DEFAULT
from linkwise.embedded.nodes.kubelet import SimulatedNodes
from linkwise.embedded.nodes.machines import make_fleet
from linkwise.embedded.store import Store
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = ("uid", "resourceVersion", "creationTimestamp")


def objects(store: Store) -> list[dict[str, Any]]:
    """All nodes and what tells of them, without what no two objects share."""
    kinds = ("nodes", "deviceinventories.linkwise.dev", "resourceslices.resource.k8s.io")
    found = [one.read() for kind in kinds for one in store.list(kind).items]
    for one in found:
        for owner in one["metadata"].get("ownerReferences", ()):
            owner["uid"] = store.get("nodes", owner["name"]).uid == owner["uid"]
        one["metadata"] = {key: value for key, value in one["metadata"].items() if key not in OWN}
    return found


@pytest.mark.parametrize(
    "fleet",
    [{name: 11} for name in PROFILES] + [DEFAULT, {"dgx1-v100": 1}, {"dgx1-v100/dra": 3}, {"mi300": 0}, {}],
    ids=str,
)
def test_a_fleet_made_at_once_is_the_fleet_made_node_by_node(fleet: Mapping[str, int]) -> None:
    one, other = (Store(clock=lambda: 1e9) for _ in range(2))
    names = list(make_fleet(one, SimulatedNodes(one).add_node, fleet))
    assert names == SimulatedNodes(other).add(fleet)
    assert objects(one) == objects(other)


def test_no_two_nodes_have_one_uid() -> None:
    store = Store()
    assert len(list(make_fleet(store, SimulatedNodes(store).add_node, {"dgx1-v100": 3}))) == 3
    assert len({one.uid for kind in ("nodes", "deviceinventories.linkwise.dev") for one in store.list(kind).items}) == 6
