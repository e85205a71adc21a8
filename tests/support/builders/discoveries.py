"""Discoveries: machines as a driver finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.node.publishing import (
    NodeState,
    Serving,
    annotations_of,
    capacity_of,
    conditions_of,
    inventory_of,
    labels_of,
)
from linkwise.testing.machines import DGX1
from support.builders.seed_machines import M2

__all__ = ["SHARED", "WHOLE", "box", "dgx1", "state_of"]

WHOLE: Final = Serving("whole", "MiB", enforced=True)
SHARED: Final = Serving("share", "GiB", enforced=True)


def box(count: int, *, memory: int = 16276, model: str = "Tesla V100-SXM2-16GB", vendor: str = "nvidia") -> Discovery:
    """A machine whose links are not known."""
    devices = tuple(
        Device(f"GPU-{index}", index, index, index // 4, f"0000:{index:02x}:00.0", model, memory)
        for index in range(count)
    )
    return Discovery(vendor, devices, facts={"driver": "550.54.15", "cuda": "12.4"})


def dgx1() -> Discovery:
    """Eight devices with links and measured bandwidth."""
    found = box(8)
    ids = tuple(device.id for device in found.devices)
    return replace(found, topology=replace(DGX1, devices=ids, bandwidth=M2))


def state_of(
    found: Discovery, serving: Serving = WHOLE, *, tainted: bool | None = None, conditions: bool = True
) -> NodeState:
    """What the node gpu-1 should publish."""
    inventory = inventory_of("gpu-1", found, serving, conditions=conditions_of(found) if conditions else ())
    return NodeState(inventory, labels_of(found), annotations_of(found), capacity_of(found, serving), tainted)
