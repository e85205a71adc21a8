"""One accelerator as its node reports it.

How the devices of one kind of machine form groups, and which counts they can be asked in: data, no code.
"""
# Joined from device, hardware: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["Device", "HardwareProfile", "Span"]


@dataclass(frozen=True, slots=True)
class Device:
    """A device is known by its id everywhere; index and minor matter only where a tool or a kernel wants them."""

    id: str
    """the UUID, or `#index` where only counts are known"""
    index: int
    minor: int | None = None
    numa: int | None = None
    bus_id: str = ""
    model: str = ""
    memory: int = 0  # in the unit of the node's share resource
    healthy: bool = True
    bytes: int = 0  # of memory, where that is told beside the unit; 0 if not


Span = Literal["count", "one group", "whole groups", "even split", "whole groups first"]
"""Which devices may serve an ask together:

count               any
one group           all in one group
whole groups        groups of which nothing is taken
even split          half in each of two groups, at matching positions
whole groups first  groups of which nothing is taken as far as there are any; the odd one where a group is broken already
"""


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """One kind of machine."""

    name: str
    group: int
    """devices of a group: positions 0 to group-1 are group 0, and so on"""
    spans: Mapping[Span, Collection[int]]
    """which counts may be asked, and how each must lie; a count in none of them is refused"""
    devices: int = 0
    """devices of a whole machine; 0 if that differs from machine to machine"""
    preference: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """for an ask in one group: idle devices of the group, the best first; fewest first where nothing is said"""
    noun: str = "group"
    """what the vendor calls a group"""
    order: Literal["health first", "health and fit"] = "health first"
    """whether a sounder machine always goes first, or is weighed against a better fit"""
    one_pod_up_to: int = 0
    """a job of so many devices or fewer is one pod; 0 if a job's shape is not checked"""

    def span(self, count: int) -> Span | None:
        """How so many devices must lie; None if they can't be asked for."""
        return next((span for span, counts in self.spans.items() if count in counts), None)

    def ranks_by_breaks(self) -> bool:
        """Whether what it prefers is to break few groups, of which there may be many."""
        return "whole groups first" in self.spans

    def counts(self) -> tuple[int, ...]:
        """All counts that may be asked for."""
        return tuple(sorted({count for counts in self.spans.values() for count in counts}))

    def groups(self, devices: int) -> tuple[tuple[int, ...], ...]:
        """The positions of each group on a machine of so many devices."""
        return tuple(tuple(range(start, min(start + self.group, devices))) for start in range(0, devices, self.group))
