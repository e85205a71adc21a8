"""A node of a cluster as a machine: its links, and what is told of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.assembly.cluster_reader import read_cluster
from linkwise.cli.inputs.topology import Source
from linkwise.cli.options.cluster import NotThereError
from linkwise.model.topology import Topology
from linkwise.vendors.reader import DeviceFacts

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.device import Device
    from linkwise.model.inventory import NodeInventory

__all__ = ["node_source"]


def node_source(name: str, kubeconfig: Path | None, context: str | None) -> Source:
    """The node of that name; one that nobody tells the links of is shown as incomplete."""
    seen = read_cluster(kubeconfig, context)
    stock = seen.broker.state.cluster.stocks[seen.node(name)]
    if not stock.devices:
        raise NotThereError(f"node {name} has no devices that are told of here")
    facts = tuple(_facts(stock, device) for device in stock.devices)
    if stock.topology is not None:
        return Source(stock.topology, facts)
    devices = tuple(device.id for device in stock.devices)
    return Source(Topology(devices, problems=(f"nobody tells how the devices of node {name} are linked",)), facts)


def _facts(stock: NodeInventory, device: Device) -> DeviceFacts:
    numa = None if device.numa is None else str(device.numa)
    memory = {"MiB": device.memory, "GiB": device.memory * 1024}.get(stock.unit) or None
    return DeviceFacts(
        f"device {device.index}",
        device.id,
        device.model,
        device.bus_id,
        memory,
        numa=numa,
        health="" if device.healthy else "does not work",
    )
