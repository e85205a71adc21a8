"""What a pod needs of its node beside devices, what a node's pods take together, and what the node has."""

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
    """One pod's amounts as numbers, and its other conditions as they stand in its view."""

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


@dataclass(frozen=True, slots=True)
class Load:
    """What the pods of one node take; pods that have ended take nothing and are not added."""

    cpu: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0
    ports: Mapping[HostPort, int] = field(default_factory=dict)
    """how many pods have each"""
    apart: Mapping[PodTerm, int] = field(default_factory=dict)
    """how many pods keep each kind of pod away"""

    def plus(self, demand: Demand) -> Load:
        """The load with one pod more."""
        return self._moved(demand, 1)

    def minus(self, demand: Demand) -> Load:
        """The load with one pod less: exactly undoes `plus`, in whatever order pods come and go."""
        return self._moved(demand, -1)

    def _moved(self, demand: Demand, step: int) -> Load:
        return Load(
            self.cpu + step * demand.cpu,
            self.memory + step * demand.memory,
            self.ephemeral + step * demand.ephemeral,
            self.pods + step,
            _counted(self.ports, demand.ports, step),
            _counted(self.apart, demand.apart, step),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a node has for pods, in the units of a demand; None where it does not tell, which limits nothing."""

    cpu: int | None = None
    memory: int | None = None
    ephemeral: int | None = None
    pods: int | None = None


def _counted(counts: Mapping[K, int], keys: tuple[K, ...], step: int) -> Mapping[K, int]:
    """New counts without zeros, so that equal loads are equal; the same ones where nothing changes."""
    if not keys:
        return counts
    moved = dict(counts)
    for key in keys:
        moved[key] = moved.get(key, 0) + step
    return {key: count for key, count in moved.items() if count}
