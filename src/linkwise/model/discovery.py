"""Discovery: the devices of one machine, as a driver finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.topology import Topology

__all__ = ["Discovery"]


@dataclass(frozen=True, slots=True)
class Discovery:
    """The devices of this machine, as a driver found them."""

    vendor: str
    """empty if the machine has no devices"""
    devices: tuple[Device, ...] = ()
    """in index order, with memory in MiB; an unhealthy one has a sentence in `faults`"""
    topology: Topology | None = None
    """its rows are the ids of the devices"""
    facts: Mapping[str, str] = field(default_factory=dict)
    """by a plain name: driver, cuda, model, compute"""
    faults: Mapping[str, str] = field(default_factory=dict)
    """by device id: why it is unhealthy, or only partly known"""
    problems: tuple[str, ...] = ()
    """about the machine as a whole, as sentences"""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """by device id: the IP address of a device that has a network port of its own"""
    network_faults: Mapping[str, str] = field(default_factory=dict)
    """by device id: why other machines can't reach it; the device itself works"""
