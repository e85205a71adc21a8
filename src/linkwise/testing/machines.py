"""Topologies of known machines, for tests of policies and of whatever reads links."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.machines import linked as topology_of, profile

__all__ = ["BRIDGED", "DGX1", "pairs_machine", "topology_of"]


def pairs_machine(count: int, score: int) -> list[list[int]]:
    """A score matrix in which devices are joined in neighbouring pairs and in no other way."""
    return [[score if i != j and i // 2 == j // 2 else 0 for j in range(count)] for i in range(count)]


DGX1: Final = profile("dgx1-v100").topology
BRIDGED: Final = profile("a100-bridged").topology
