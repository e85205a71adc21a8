"""Demand, load and capacity: a pod's requirements other than devices, their sum on a node, and the node's allocatable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import HostPort, NodeTerm, PodTerm, Toleration

__all__ = ["Capacity", "Demand", "Load"]

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Demand:
    """One pod's requests as numbers, and its other constraints as its view has them."""

    cpu: int = 0  # thousandths of a core
    memory: int = 0  # bytes
    ephemeral: int = 0  # bytes of the node's own storage
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    together: tuple[PodTerm, ...] = ()
    crowd: tuple[tuple[PodTerm, int], ...] = ()
    """by term, how many of the pods that it selects one node may have with this pod on it"""
    only: frozenset[str] | None = None
    """names of the nodes that passed the scheduler's own filters; None if that is not known"""


@dataclass(frozen=True, slots=True)
class Load:
    """The sum of the demands on one node; pods that have ended are not added."""

    cpu: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0
    ports: Mapping[HostPort, int] = field(default_factory=dict)
    """the number of pods that use each"""
    apart: Mapping[PodTerm, int] = field(default_factory=dict)
    """the number of pods with each anti-affinity term"""

    def plus(self, demand: Demand) -> Load:
        """The load with one pod more."""
        return self._changed(demand, 1)

    def minus(self, demand: Demand) -> Load:
        """The load with one pod less: undoes `plus` exactly, in any order of pods."""
        return self._changed(demand, -1)

    def _changed(self, demand: Demand, step: int) -> Load:
        return Load(
            self.cpu + step * demand.cpu,
            self.memory + step * demand.memory,
            self.ephemeral + step * demand.ephemeral,
            self.pods + step,
            _add_counts(self.ports, demand.ports, step),
            _add_counts(self.apart, demand.apart, step),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """A node's allocatable, in the units of a demand; None where the node reports nothing, which is no limit."""

    cpu: int | None = None
    memory: int | None = None
    ephemeral: int | None = None
    pods: int | None = None


def _add_counts(counts: Mapping[K, int], keys: tuple[K, ...], step: int) -> Mapping[K, int]:
    """New counts without zeros, so that equal loads compare equal; the same object if there are no keys."""
    if not keys:
        return counts
    changed = dict(counts)
    for key in keys:
        changed[key] = changed.get(key, 0) + step
    return {key: count for key, count in changed.items() if count}
