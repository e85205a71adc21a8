"""Nodes of the demo: a small pool of machines for each story, so that stories do not disturb each other."""

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

__all__ = ["FAULTY", "POOL", "tour_nodes"]

POOL: Final = "pool"
"""node label by which the pods of a story select its nodes"""
FAULTY: Final = ("atlas-2", 7)
"""node and device that is unhealthy from the start"""
_GPU_MEMORY: Final = 16276  # MiB
_DESK: Final = MachineProfile("desk", "nvidia", "Tesla K80", 11441, Topology(numbered(2)), cpus=16, host_memory=64)
"""two GPUs without link data"""
_HOST: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def tour_nodes() -> Iterator[list[Raw]]:
    """The objects of each node."""
    yield _machine(profile("dgx1-v100-measured"), "dgx-1", "training")
    yield _machine(profile("dgx1-v100"), "dgx-2", "finetuning")
    yield _machine(profile("v100-pcie"), "pcie-1", "finetuning")
    yield _machine(profile("dgx1-v100"), "dgx-3", "research")
    yield _machine(profile("v100-pcie"), "pcie-2", "research")
    yield _machine(profile("atlas-800"), "atlas-1", "ascend")
    yield _machine(profile("atlas-800"), "atlas-2", "ascend", unhealthy=(FAULTY[1],))
    for name in ("atlas-3", "atlas-4"):
        yield _machine(profile("atlas-800"), name, "ascend-large")
    for name in ("share-1", "share-2", "share-3"):
        yield [_shared(name, 2, "team-a")]
    yield [_shared("share-4", 4, "team-b")]
    for number in (1, 2, 3):
        yield _machine(_DESK, f"desk-{number}", "desks")


def _machine(
    machine: MachineProfile, name: str, pool: str, *, mode: Mode = "any", unhealthy: Collection[int] = ()
) -> list[Raw]:
    """A node as Linkwise's agent reports it."""
    objects: list[Raw] = []
    for event in fleet_node(machine, name, mode=mode, unhealthy=unhealthy, labels={POOL: pool}):
        if isinstance(event, NodeView):
            objects.append(node_object(event))
        elif isinstance(event, NodeObject) and isinstance(event.document, dict):
            objects.append(event.document)
    return objects


def _shared(name: str, count: int, pool: str) -> Raw:
    """A node as gpushare's device plugin reports it: total memory and the number of GPUs, nothing about each GPU."""
    amounts = {**_HOST, MEMORY: str(_GPU_MEMORY * count), COUNT: str(count)}
    labels = {"kubernetes.io/hostname": name, "gpushare": "true", POOL: pool}
    return node_object(NodeView(name, labels=labels, capacity=amounts, allocatable=amounts))
