"""NUMA alignment: the kubelet's Topology Manager on a node, which decides on which NUMA nodes a container gets devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

__all__ = ["SCOPES", "TOPOLOGY_POLICIES", "NumaAlignment", "TopologyPolicy", "TopologyScope"]

TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]
TopologyScope = Literal["container", "pod"]

TOPOLOGY_POLICIES: Final[tuple[TopologyPolicy, ...]] = get_args(TopologyPolicy)
SCOPES: Final[tuple[TopologyScope, ...]] = get_args(TopologyScope)


@dataclass(frozen=True, slots=True)
class NumaAlignment:
    """The Topology Manager's policy and scope, as the kubelet of a node is configured."""

    policy: TopologyPolicy
    scope: TopologyScope = "container"
    """whether each container is aligned by itself, or all containers of a pod together"""
    cpus: tuple[tuple[int, int], ...] = ()
    """NUMA nodes and the CPUs that each can still give to containers exclusively; empty if unknown"""
    total_cpus: tuple[tuple[int, int], ...] = ()
    """likewise, all CPUs that pods may use"""

    static_cpus: bool = True
    """whether the CPU Manager is static, so that CPUs are aligned too; true while it is not known"""

    @property
    def rejects(self) -> bool:
        """Whether the kubelet rejects pods that it can't align."""
        return self.policy in {"restricted", "single-numa-node"}
