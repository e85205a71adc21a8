"""How the devices of a node are linked, in a word."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.policies.ring_profiles import known_profile
from linkwise.topology.rings import rings

if TYPE_CHECKING:
    from linkwise.model.inventory import Stock
    from linkwise.model.topology import Topology

__all__ = ["links_text", "rings_of"]

_WORDS: Final = {"NV": "NVLink", "HCCS": "HCCS", "XGMI": "XGMI", "MX": "MetaXLink", "UB": "UB", "SIO": "SIO"}


def links_text(stock: Stock) -> str:
    """`NVLink`, `2 rings of 4`, `PCIe`, `measured`; empty if nobody tells."""
    found = [*_rings(stock), *_kinds(stock.topology)]
    if stock.topology and stock.topology.bandwidth:
        found.append("measured")
    return ", ".join(found)


def rings_of(stock: Stock) -> tuple[tuple[int, ...], ...]:
    """Positions that form a ring or an island; none where all are one."""
    found = tuple(ring for ring in rings(stock.topology) if len(ring) > 1) if stock.topology else ()
    if found or not stock.profile:
        return found
    profile = known_profile(stock.profile)
    return profile.groups(len(stock.devices)) if profile and profile.group > 1 else ()


def _rings(stock: Stock) -> list[str]:
    found = rings_of(stock) if stock.profile else ()
    if not found:
        return []
    sizes = sorted({len(ring) for ring in found})
    count = f"{len(found)} ring{'' if len(found) == 1 else 's'}"
    return [f"{count} of {' or '.join(map(str, sizes))}"]


def _kinds(topology: Topology | None) -> list[str]:
    """Direct links by the name of their kind, and PCIe where pairs have nothing else."""
    if topology is None or not topology.links:
        return []
    pairs = [topology.links[i][j] for i, j in combinations(range(len(topology.devices)), 2)]
    direct = [link for link in pairs if link.direct]
    words = {word for link in direct for start, word in _WORDS.items() if link.startswith(start)}
    unlinked = any(not link.direct and link.pcie for link in pairs)
    return [*sorted(words), *(["PCIe"] if unlinked else [])]
