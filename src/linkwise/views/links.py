"""Links of a node in a few words, and its rings."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from linkwise.policies.ring_profiles import known_profile
from linkwise.topology.rings import rings
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.inventory import NodeInventory
    from linkwise.model.link import Link
    from linkwise.model.topology import Topology

__all__ = ["kind_name", "link_names", "links_text", "rings_of"]


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


def _kinds(topology: Topology | None) -> list[str]:
    """Return the kinds of direct links, and PCIe if some pairs have nothing else."""
    if topology is None or not topology.links:
        return []
    pairs = [topology.links[i][j] for i, j in combinations(range(len(topology.devices)), 2)]
    names = link_names()
    kinds = {kind_name(link, names) for link in pairs if link.direct}
    unlinked = any(not link.direct and link.pcie for link in pairs)
    return [*sorted(kinds), *(["PCIe"] if unlinked else [])]


def link_names() -> dict[str, str]:
    """Return the names of vendors' direct links by their codes."""
    return {link.code: link.name for vendor in VENDORS.values() for link in vendor.links}


def kind_name(link: Link, names: Mapping[str, str]) -> str:
    """Return the name of a direct link, or PCIe."""
    # A code that no vendor registered and that is direct all the same is a number of NVLinks.
    return names.get(link.partition("+")[0], "NVLink") if link.direct else "PCIe"
