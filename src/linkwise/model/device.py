"""Devices and hardware profiles: one accelerator as its node reports it, and how a machine's devices form groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["GIB", "MIB", "Device", "HardwareProfile", "Span"]

MIB: Final = 1 << 20  # bytes
GIB: Final = 1 << 30  # bytes


@dataclass(frozen=True, slots=True)
class Device:
    """One device, identified by its id everywhere; index and minor are for tools and the kernel."""

    id: str
    """the UUID, or `#index` where only counts are known"""
    index: int
    minor: int | None = None
    numa: int | None = None
    bus_id: str = ""
    model: str = ""
    memory: int = 0  # in the unit of the node's share resource
    healthy: bool = True
    bytes: int = 0  # of memory, if the source reports it beside the unit; otherwise 0
    reachable: bool = True
    """whether devices of other nodes can reach it by the network; otherwise it serves only jobs of one pod"""
    nodes: tuple[str, ...] = ()
    """device nodes of its own beside the one that its minor names: `/dev/dri/card1`"""
    nics: tuple[str, ...] = ()
    """RDMA devices under the same PCIe switch"""
    facts: tuple[tuple[str, str], ...] = ()
    """facts in which it differs from other devices of its node, by name: compute, firmware, brand"""


Span = Literal["count", "one group", "whole groups", "even split", "whole groups first"]
"""The layout that a count of devices requires:

count               any devices
one group           all in one group
whole groups        fully idle groups
even split          half in each of two groups, at matching positions
whole groups first  fully idle groups where there are any; the rest in groups that are partly used already
"""


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """One type of machine: the size of its groups, and the layout that each count of devices requires."""

    name: str
    group: int
    """devices per group: positions 0 to group-1 are group 0, and so on"""
    spans: Mapping[Span, Collection[int]]
    """the counts that a pod may request, by the layout they require; any other count is refused"""
    devices: int = 0
    """devices of a complete machine; 0 if that differs from machine to machine"""
    preference: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """for a count in one group: the idle devices that the group should have, the best first; by default the fewest"""
    noun: str = "group"
    """the vendor's word for a group"""
    order: Literal["health first", "health and fit"] = "health first"
    """whether a machine with more healthy devices always goes first, or is weighed against a better fit"""
    one_pod_up_to: int = 0
    """a job of at most this number of devices must be one pod; 0 if a job's shape is not checked"""

    def span(self, count: int) -> Span | None:
        """The layout that a count requires; None if the count can't be requested."""
        return next((span for span, counts in self.spans.items() if count in counts), None)

    def ranks_by_breaks(self) -> bool:
        """Whether placements are ranked by the number of groups they break."""
        return "whole groups first" in self.spans

    def counts(self) -> tuple[int, ...]:
        """All counts that a pod may request."""
        return tuple(sorted({count for counts in self.spans.values() for count in counts}))

    def groups(self, devices: int) -> tuple[tuple[int, ...], ...]:
        """The positions of each group on a machine of `devices` devices."""
        return tuple(tuple(range(start, min(start + self.group, devices))) for start in range(0, devices, self.group))
