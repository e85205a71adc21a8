"""Node inventory: the devices of a node as a source reports them, a driver finds them or a test measures them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.device import Device
    from linkwise.model.node import Mode, NumaAlignment
    from linkwise.model.topology import Matrix, Topology
    from linkwise.model.verdict import Problem

__all__ = ["ClaimableDevices", "Discovery", "Hold", "Measurement", "NodeFacts", "NodeInventory", "Pin"]

Pin = tuple[str, str]
"""an attribute by its qualified name and its value, by which a ResourceClaim selects one device of a node"""


@dataclass(frozen=True, slots=True)
class Hold:
    """A device on which no pod is placed for a limited time: the agent measures it, or the kubelet can't allocate it."""

    device: str
    reason: str
    until: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One dialect's report on a node: read from labels, annotations and objects; empty fields are not reported."""

    source: str
    """the dialect that read them"""
    devices: tuple[Device, ...] = ()
    """with real ids if the source reports them, `#index` if it reports only a count"""
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which devices form groups"""
    mode: Mode = "any"
    unit: str = ""
    """the unit of the node's shares: MiB, GiB, %"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """facts by a plain name: model, driver, cuda, clique"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """devices by pod UID, if the source reports actual usage"""
    problems: tuple[Problem, ...] = ()
    holds: tuple[Hold, ...] = ()
    alignment: NumaAlignment | None = None
    """the kubelet's Topology Manager"""


@dataclass(frozen=True, slots=True)
class ClaimableDevices:
    """Devices of a node that ResourceClaims allocate and that pods can request by an extended resource."""

    resource: str
    devices: tuple[Device, ...]
    """allocated ones and those that can be allocated besides"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """devices by the UID of the pod that requested the resource, or by the name of any other claim"""
    claims: Mapping[str, str] = field(default_factory=dict)
    """the claim of each allocated device, with its namespace"""
    uuids: tuple[str, ...] = ()
    """of the devices whose driver publishes it, in their order"""
    problems: tuple[Problem, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """what tells each device apart from all others of the node"""


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """A node's devices in index order, merged from all sources, before any usage is subtracted."""

    name: str
    """of the node"""
    devices: tuple[Device, ...] = ()
    topology: Topology | None = None
    profile: str = ""
    """the hardware profile by which devices form groups"""
    mode: Mode = "any"
    unit: str = ""
    """the unit of shares: MiB, GiB, %"""
    words: frozenset[str] = frozenset()
    """the dialects by which its devices can be requested, and the resources it provides"""
    unidentified: int = 0
    """the number of unhealthy devices that no source identifies"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """devices by pod UID, as the node's agent reports their usage; where claims allocate them, see ClaimableDevices"""
    claims: Mapping[str, str] | None = None
    """the ResourceClaim of each allocated device; None if a device plugin allocates the devices"""
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """by device, what a ResourceClaim selects it by"""
    claimed: int = 0
    """the number of devices that claims have and that may be the same as the device plugin's"""
    enforced: bool = False
    """whether Linkwise's agent allocates the devices, so that containers get exactly the ones picked"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """facts by a plain name: model, driver, cuda"""
    problems: tuple[Problem, ...] = ()
    holds: tuple[Hold, ...] = ()
    """devices that count as used until a time"""
    faults: Mapping[str, str] = field(default_factory=dict)
    """why each device with a fault is unhealthy, by id; empty if its source does not say"""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """the reason of each device that an administrator cordoned, by id; they count as unhealthy"""
    alignment: NumaAlignment | None = None
    """the kubelet's Topology Manager; None if it is not known"""
    facts: Mapping[str, str] = field(default_factory=dict)
    """those of them, and the vendor, that requirements of pods are compared with"""
    steered: bool = True
    """whether containers get the devices that are picked; otherwise a device plugin chooses among all of them"""

    @property
    def by_claims(self) -> bool:
        """Whether ResourceClaims allocate the devices: which ones a pod gets is not decided here."""
        return self.claims is not None


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


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of a test on some or all devices of a machine."""

    tool: str
    """the tool and its table: `nvbandwidth device_to_device_memcpy_write_ce (row -> column)`"""
    time: float  # seconds since the epoch
    devices: tuple[str, ...]
    """UUIDs of the rows and columns"""
    bandwidth: Matrix  # GB/s, from row to column, as measured
    suspects: tuple[tuple[int, int], ...] = ()
    """pairs of rows with a bad sample"""
    warnings: tuple[str, ...] = ()
    """what the tool's output says about its own numbers"""
