"""Loads the description of a machine from a node of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.assembly.cluster_reader import read_cluster
from linkwise.cli.inputs.topology import Source
from linkwise.errors import NotFoundError
from linkwise.model.link_data import NO_LINK_DATA, link_data_help
from linkwise.model.topology import Topology
from linkwise.vendors.reader import DeviceFacts

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory

__all__ = ["node_source"]


def node_source(name: str, kubeconfig: Path | None, context: str | None) -> Source:
    """Load the node of that name; a node without link data is incomplete."""
    reader = read_cluster(kubeconfig, context)
    inventory = reader.broker.inventories[reader.node(name)]
    if not inventory.devices:
        raise NotFoundError(f"node {name} has no devices")
    facts = tuple(_facts(inventory, device) for device in inventory.devices)
    if inventory.topology is not None:
        return Source(inventory.topology, facts)
    devices = tuple(device.id for device in inventory.devices)
    problem = f"{NO_LINK_DATA} for node {name}; {link_data_help(name)}"
    return Source(Topology(devices, problems=(problem,)), facts)


def _facts(inventory: NodeInventory, device: Device) -> DeviceFacts:
    numa = None if device.numa is None else str(device.numa)
    memory = {"MiB": device.memory, "GiB": device.memory * 1024}.get(inventory.unit) or None
    return DeviceFacts(
        f"device {device.index}",
        device.id,
        device.model,
        device.bus_id,
        memory,
        numa=numa,
        health="" if device.healthy else "unhealthy",
    )
