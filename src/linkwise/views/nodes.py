"""Rows of `linkwise get nodes` and `linkwise get devices`, and the links of a node in a few words."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import OTHER_NAMESPACE
from linkwise.engine.usage import drift_text
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import by_index_text, claim_text, cordon_text, health_text
from linkwise.explain.published.lists import named
from linkwise.explain.text.phrases import share_text
from linkwise.policies.ring_profiles import known_profile
from linkwise.topology.rings import rings
from linkwise.vendors.registry import VENDORS
from linkwise.views.blocks import plain
from linkwise.views.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.explain.inspect import Holder, InspectedDevice, NodeInspection
    from linkwise.model.views import NodeView
    from linkwise.views.cluster import ClusterView

    Selects = Callable[[NodeView], bool]
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.link import Link
    from linkwise.model.topology import Topology

__all__ = [
    "MODES",
    "allocator_text",
    "device_rows",
    "device_state",
    "health_state",
    "holder_text",
    "kind_name",
    "link_names",
    "links_text",
    "node_problems",
    "node_rows",
    "rings_of",
]

MODES: Final = {"any": "any", "whole": "whole", "share": "memory", "percent": "percent"}
MIB_PER_GIB: Final = 1024


def node_rows(cluster: ClusterView, name: str | None, selects: Selects = lambda _: True) -> list[Row]:
    """Return rows for the node of that name, or for all nodes with devices."""
    return [_node(cluster, node) for node in _nodes(cluster, name, selects)]


def device_rows(cluster: ClusterView, name: str | None, selects: Selects = lambda _: True) -> list[Row]:
    """Return rows for all devices, or for those of one node."""
    return [_device(node, device) for node in _nodes(cluster, name, selects) for device in node.devices]


def _nodes(cluster: ClusterView, name: str | None, selects: Selects) -> list[NodeInspection]:
    nodes = cluster.broker.nodes
    return [
        node for node in inspect_nodes(cluster.broker, name, cluster.now, cluster.only) if selects(nodes[node.name])
    ]


def _node(cluster: ClusterView, node: NodeInspection) -> Row:
    stock, view = cluster.broker.inventories[node.name], cluster.broker.nodes[node.name]
    problems = node_problems(cluster, node)
    address = view.address if cluster.only is None else ""
    models = ", ".join(sorted({device.model for device in node.devices if device.model}))
    links = links_text(stock)
    cells = {
        "name": Cell(node.name),
        "sharing": Cell(MODES[node.mode]),
        "idle": Cell(f"{node.idle}/{len(node.devices)}", "green" if node.idle else ""),
        "memory": Cell(_memory(node)),
        "used": Cell(_used(node)),
        "links": Cell(links),
        "reserved": Cell(_reserved(cluster, node), "cyan", wide=True),
        "model": Cell(models, wide=True),
        "profile": Cell(node.profile, wide=True),
        "address": Cell(address, wide=True),
        "allocated by": Cell(allocator_text(node), wide=True),
        "problems": Cell("; ".join(problems), "yellow"),
    }
    return Row(
        f"node/{node.name}",
        cells,
        lambda: {
            **plain(node),
            "address": address,
            "links": links,
            "rings": [list(ring) for ring in rings_of(stock)],
            "problems": problems,
        },
    )


def node_problems(cluster: ClusterView, node: NodeInspection) -> list[str]:
    """Return what keeps pods off the node or its devices, and records that disagree."""
    broker = cluster.broker
    stock, view = broker.inventories[node.name], broker.nodes[node.name]
    unhealthy = sum(not device.healthy for device in node.devices) + stock.unidentified
    return [
        *([] if view.ready else ["NotReady"]),
        *(["cordoned"] if view.unschedulable else []),
        *([f"{unhealthy} unhealthy"] if unhealthy else []),
        *(f"device {device.index} {cordon_text(device)}" for device in node.devices if device.cordoned),
        *([by_index_text(node.by_index)] if node.by_index else []),
        *(
            drift_text(drift, partial(broker.pod_name, readable=cluster.only))
            for drift in broker.drift.get(node.name, ())
        ),
        *(problem.text for problem in stock.problems),
    ]


def _reserved(cluster: ClusterView, node: NodeInspection) -> str:
    """Return the devices that plans reserve, by group: `8 for llm`."""
    devices: dict[str, set[int]] = {}
    for device in node.devices:
        for pod in device.pods:
            if pod.state == "planned":
                devices.setdefault(_reserved_for(cluster, pod), set()).add(device.index)
    return ", ".join(f"{len(indices)} for {group}" for group, indices in sorted(devices.items()))


def _reserved_for(cluster: ClusterView, pod: Holder) -> str:
    if pod.other:
        return OTHER_NAMESPACE
    key = cluster.broker.group_of(pod.uid)
    return named(key)[1] if key else "a deleted pod"


def allocator_text(node: NodeInspection) -> str:
    """Return what allocates the devices of the node."""
    if node.by_claims:
        names = [device.id for device in node.devices if device.claim]
        return f"ResourceClaims: {', '.join(names)}" if names else "ResourceClaims"
    return "Linkwise agent" if node.enforced else "device plugin"


def _memory(node: NodeInspection) -> str:
    """Return the memory of all devices."""
    if not node.memory:
        return ""
    in_mib = node.unit in {"", "MiB"} and node.memory >= MIB_PER_GIB
    return f"{node.memory // MIB_PER_GIB} GiB" if in_mib else share_text(node.memory, node.unit)


def _used(node: NodeInspection) -> str:
    """Return the allocated memory where it is shared."""
    return share_text(node.taken, node.unit) if node.mode in {"share", "percent"} else ""


def _device(node: NodeInspection, device: InspectedDevice) -> Row:
    state, style = device_state(node, device)
    cells = {
        "node": Cell(node.name),
        "device": Cell(str(device.index)),
        "id": Cell(device.id, wide=True),
        "model": Cell(device.model),
        "health": Cell(health_state(device), "" if device.usable and device.reachable else "red"),
        "state": Cell(state, style),
        "pods": Cell(
            ", ".join(sorted(holder_text(pod, node.unit) for pod in device.pods))
            or (claim_text(device.claim) if device.claim else "")
        ),
        "problem": Cell(", ".join(filter(None, (device.fault, cordon_text(device)))), "yellow"),
    }
    name = f"device/{node.name}/{device.index}"
    return Row(name, cells, lambda: {"node": node.name, "unit": node.unit, **plain(device)})


def health_state(device: InspectedDevice) -> str:
    """Return whether new pods can get a device: Healthy, or what is against it."""
    return health_text(device, short=True).capitalize() or "Healthy"


def device_state(node: NodeInspection, device: InspectedDevice) -> tuple[str, str]:
    """Return the usage of a device and its colour."""
    if device.whole:
        return "in use", "cyan"
    if device.share or device.core:
        core = f", {device.core}% compute" if device.core else ""
        return f"{device.share}/{share_text(device.memory, node.unit)}{core}", "cyan"
    return ("idle", "green") if device.usable else ("-", "red")


def holder_text(pod: Holder, unit: str) -> str:
    """Return the name of a pod with its share of a device."""
    part = f" {share_text(pod.share, unit)}" if pod.share and not pod.whole else ""
    return f"{pod.full_name}{part}{'' if pod.state == 'bound' else f' ({pod.state})'}"


def links_text(inventory: NodeInventory) -> str:
    """Return a short description such as `NVLink`, `2 rings of 4`, `PCIe`, `measured`; empty without link data."""
    parts = [*_rings(inventory), *_kinds(inventory.topology)]
    if inventory.topology and inventory.topology.bandwidth:
        parts.append("measured")
    return ", ".join(parts)


def rings_of(inventory: NodeInventory) -> tuple[tuple[int, ...], ...]:
    """Return the positions of each ring or island; empty if there is only one."""
    islands = tuple(ring for ring in rings(inventory.topology) if len(ring) > 1) if inventory.topology else ()
    if islands or not inventory.profile:
        return islands
    profile = known_profile(inventory.profile)
    return profile.groups(len(inventory.devices)) if profile and profile.group > 1 else ()


def _rings(inventory: NodeInventory) -> list[str]:
    islands = rings_of(inventory) if inventory.profile else ()
    if not islands:
        return []
    sizes = sorted({len(ring) for ring in islands})
    count = f"{len(islands)} ring{'' if len(islands) == 1 else 's'}"
    return [f"{count} of {' or '.join(map(str, sizes))}"]


def _kinds(topology: Topology | None) -> tuple[str, ...]:
    """Return the kinds of direct links, and PCIe if some pairs have nothing else."""
    return _kinds_of(topology.links) if topology and topology.links else ()


@lru_cache(maxsize=256)  # the nodes of a cluster have few kinds of machines
def _kinds_of(links: tuple[tuple[Link, ...], ...]) -> tuple[str, ...]:
    pairs = [links[i][j] for i, j in combinations(range(len(links)), 2)]
    names = link_names()
    kinds = {kind_name(link, names) for link in pairs if link.direct}
    unlinked = any(not link.direct and link.pcie for link in pairs)
    return (*sorted(kinds), *(["PCIe"] if unlinked else []))


def link_names() -> dict[str, str]:
    """Return the names of vendors' direct links by their codes."""
    return {link.code: link.name for vendor in VENDORS.values() for link in vendor.links}


def kind_name(link: Link, names: Mapping[str, str]) -> str:
    """Return the name of a direct link, or PCIe."""
    # A code that no vendor registered and that is direct all the same is a number of NVLinks.
    return names.get(link.partition("+")[0], "NVLink") if link.direct else "PCIe"
