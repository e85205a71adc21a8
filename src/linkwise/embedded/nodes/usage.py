"""Usage of simulated devices, as the agents of simulated nodes publish it; it is always current, and has no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.usage import usage_fields, usage_in
from linkwise.model.device import Device
from linkwise.model.usage import DeviceUsage
from linkwise.node.usage.readings import holdings_of
from linkwise.node.usage.simulated import simulated_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocations

__all__ = ["idle_usage", "usage_by_pods"]

_MIB: Final = 1 << 20
_UNIT: Final = "GiB"
"""of shares in simulated nodes"""


def idle_usage(devices: Iterable[str], memory: int) -> dict[str, object]:
    """The usage of idle devices, of this many MiB each."""
    return usage_fields(simulated_usage([DeviceUsage(name, memory * _MIB) for name in devices], ()))


def usage_by_pods(
    node: str, inventory: Mapping[str, object], allocations: Sequence[Allocations], recorded: Iterable[PodView]
) -> dict[str, object] | None:
    """The usage of the devices of a node by the pods that have them; None if the inventory does not tell their memory.

    Args:
        node: its name.
        inventory: as it was published last.
        allocations: of the resources that kubelet serves.
        recorded: pods with devices that no kubelet counts.
    """
    known, _, _ = usage_in(inventory, node)
    if known is None:
        return None
    devices = [
        Device(device.id, index, memory=(device.total or 0) // _MIB) for index, device in enumerate(known.devices)
    ]
    served = [held for each in allocations for held in holdings_of((), each, devices, _UNIT)]
    return usage_fields(simulated_usage(known.devices, (*served, *holdings_of(recorded, None, devices, _UNIT))))
