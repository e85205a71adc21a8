"""Usage of devices: memory and utilization as a driver reads them, and as they are attributed to pods."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceUsage", "Holding", "NodeUsage", "PodUsage", "ProcessUsage", "UsageReading"]


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """One process on one device; None for what the driver does not report."""

    pid: int
    """in the PID namespace of the host"""
    memory: int | None = None  # bytes
    utilization: int | None = None  # percent of the device's compute


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """One device; None for what is not known."""

    id: str
    total: int | None = None  # bytes of memory
    used: int | None = None  # bytes of memory
    utilization: int | None = None  # percent of time in which it computes
    processes: tuple[ProcessUsage, ...] | None = None
    """None if the driver can't list them"""


@dataclass(frozen=True, slots=True)
class UsageReading:
    """All devices of a machine, as a driver reads them at one time."""

    devices: tuple[DeviceUsage, ...] = ()
    problems: tuple[str, ...] = ()
    """what could not be read, as sentences"""
    simulated: bool = False
    """whether the devices are not real, so that the usage by pods is made up as well"""


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that was allocated to a pod."""

    uid: str
    namespace: str
    name: str
    device: str
    share: int | None = None  # bytes of memory; None for the whole device


@dataclass(frozen=True, slots=True)
class PodUsage:
    """One pod on one device; None for what is not known."""

    uid: str
    namespace: str
    name: str
    device: str
    used: int | None = None  # bytes of memory
    utilization: int | None = None  # percent of the device's compute
    share: int | None = None  # bytes of memory that were allocated; None for a whole device, or without an allocation


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The devices of a node and the pods on them."""

    devices: tuple[DeviceUsage, ...] = ()
    pods: tuple[PodUsage, ...] = ()
    """ordered by namespace, name and device"""
    problems: tuple[str, ...] = ()
