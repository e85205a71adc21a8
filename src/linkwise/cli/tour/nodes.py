"""The nodes of the tour: those that the five designs describe, under the names they give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.aliyun import COUNT, MEMORY
from linkwise.model.topology import Topology, numbered
from linkwise.model.views import NodeView
from linkwise.vendors.machines import MachineProfile, profile
from linkwise.wire.kubernetes.to_objects import node_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.embedded.storage.collection import Raw
    from linkwise.model.node import Mode

__all__ = ["CARD", "POOL", "tour_nodes"]

POOL: Final = "pool"
"""the label by which the teams of the tour keep to their nodes"""
CARD: Final = 16276  # MiB of a card in the figures of the sharing design
_DESK: Final = MachineProfile("desk", "nvidia", "Tesla K80", 11441, Topology(numbered(2)), cpus=16, host_memory=64)
"""two cards, and nobody tells how they are linked"""
_HOST: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def tour_nodes() -> Iterator[list[Raw]]:
    """The objects of every node, node by node."""
    yield _machine(profile("dgx1-v100"), "node-1", "research")
    yield _machine(profile("v100-pcie"), "node-2", "research")
    yield _machine(profile("dgx1-v100-measured"), "host04", "training", mode="percent")
    for number in (1, 2, 3):
        yield _machine(_DESK, f"desk-{number}", "desks")
    yield _machine(profile("atlas-800"), "atlas-1", "ascend")
    yield _machine(profile("atlas-800"), "atlas-2", "ascend", sick=(7,))
    for name in ("n1", "n2", "n3"):
        yield [_cards(name, 2, "figure-2")]
    yield [_cards("n4", 4, "figure-3")]


def _machine(
    machine: MachineProfile, name: str, pool: str, *, mode: Mode = "any", sick: Collection[int] = ()
) -> list[Raw]:
    """A node as our agent tells of it."""
    made: list[Raw] = []
    for sight in fleet_node(machine, name, mode=mode, sick=sick, labels={POOL: pool}):
        if isinstance(sight, NodeView):
            made.append(node_object(sight))
        elif isinstance(sight, NodeObject) and isinstance(sight.document, dict):
            made.append(sight.document)
    return made


def _cards(name: str, count: int, pool: str) -> Raw:
    """A node as the device plugin of GPU sharing tells of it: two sums, and nothing of single cards."""
    amounts = {**_HOST, MEMORY: str(CARD * count), COUNT: str(count)}
    labels = {"kubernetes.io/hostname": name, "gpushare": "true", POOL: pool}
    return node_object(NodeView(name, labels=labels, capacity=amounts, allocatable=amounts))
