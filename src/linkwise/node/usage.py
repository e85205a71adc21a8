"""Usage of a node's devices: readings checked, attributed to pods, averaged, and compared with the shares of pods.

A process belongs to the pod of its container. A pod that has a whole device is charged with all of it where processes are not
known; pods that share a device are not, because nothing tells them apart.

The pod of a process is read from its cgroup. Supported are cgroup v1 and v2, the systemd and the cgroupfs driver of the
kubelet, and the names of containerd, CRI-O and Docker. A process that is outside of the cgroup namespace of the reader has a
path with `..`, which names the pod as well. Mounts tell the pod where the cgroup does not: on a kubelet with cgroupsPerQOS
off, a cgroup has only the container's id.

On simulated devices a pod uses the same amounts as long as it runs: they are derived from its UID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.broker.effects import Event
from linkwise.dialects.registry import held_by
from linkwise.model.device import MIB
from linkwise.model.usage import DeviceUsage, Holding, NodeUsage, PodUsage, ProcessUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocations

__all__ = [
    "ContainerOwner",
    "OverUse",
    "attributed",
    "averaged",
    "checked",
    "differs",
    "holdings_of",
    "owner_by_cgroup",
    "owner_by_mounts",
    "pids_of",
    "simulated_usage",
]

OVER_USE: Final = "DeviceMemoryOverShare"
"""reason of the event"""
CONFIRMED: Final = 2
"""readings in a row with which a pod is above its share: a process id may be that of another process by then"""
REPEATED: Final = 3600.0  # seconds between two events of one pod about one device

_BYTES: Final = {"MiB": 1 << 20, "GiB": 1 << 30}
_PERCENT: Final = 100
_UID: Final = r"[0-9a-f]{8}(?P<dash>[-_]?)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{12}"
"""the systemd driver writes underscores for hyphens; that of a static pod is a hash without either"""
_POD: Final = re.compile(rf"(?:^|[/-])pod(?P<uid>{_UID})(?=\.slice|[/:]|$)")
_CONTAINER: Final = re.compile(r"(?:^|[/:-])(?P<id>[0-9a-f]{64})(?=\.scope|[/:]|$)")
_MOUNTED: Final = re.compile(rf"/pods/(?P<uid>{_UID})/(?:etc-hosts|containers/[^/]+/[^/]+)")
_TARGETS: Final = frozenset({"/etc/hosts", "/dev/termination-log"})
"""where the kubelet mounts a file of the pod into each of its containers"""
# Simulated usage stays within the share of a pod, so that no event says that it uses more.
_LEAST_MEMORY: Final = 55  # percent of what the pod has
_MOST_MEMORY: Final = 95
_LEAST_BUSY: Final = 30  # percent
_MOST_BUSY: Final = 98


def holdings_of(
    pods: Iterable[PodView], allocations: Allocations | None, devices: Sequence[Device], unit: str
) -> tuple[Holding, ...]:
    """The devices of pods: as the kubelet allocated them, or else as recorded.

    Args:
        pods: those of the node.
        allocations: of the resource that the agent serves, if any.
        devices: all devices of the node, with memory in MiB.
        unit: MiB or GiB, of the shares.
    """
    holdings: dict[tuple[str, str], Holding] = {}
    claimed: set[str] = set()
    for claim in allocations.claims() if allocations else ():
        claimed.add(claim.pod.uid)
        if not claim.init:  # its devices are those of the containers after it
            share = claim.amount * _BYTES[unit] if allocations and allocations.shared else None
            for device in claim.devices or claim.picks:
                _hold(holdings, claim.pod, device, share)
    names = {f"#{device.index}": device.id for device in devices}
    sizes = {device.id: device.memory * _BYTES["MiB"] for device in devices}
    for pod in pods:
        grant = None if pod.uid in claimed else held_by(pod).grant
        for part in grant.offer.parts if grant else ():
            for device in part.devices:
                name = names.get(device, device)
                if name in sizes:
                    share = _share(part, sizes[name], unit, percent=grant is not None and grant.mode == "percent")
                    _hold(holdings, pod, name, share)
    return tuple(holdings.values())


def checked(reading: UsageReading) -> UsageReading:
    """The reading without impossible values: memory above the device's, percents above 100, processes without an id."""
    problems: list[str] = []
    devices = tuple(_checked_device(device, problems) for device in reading.devices)
    return replace(reading, devices=devices, problems=(*reading.problems, *problems))


def pids_of(reading: UsageReading) -> frozenset[int]:
    """Ids of all processes on devices."""
    return frozenset(one.pid for device in reading.devices for one in device.processes or ())


def attributed(
    reading: UsageReading,
    holdings: Sequence[Holding],
    owners: Mapping[int, str],
    names: Mapping[str, tuple[str, str]],
) -> NodeUsage:
    """The usage by pods.

    Args:
        reading: checked.
        holdings: the devices of pods.
        owners: pod UIDs by process id, empty for those of the host; processes that have ended are left out.
        names: namespace and name of the pods of the node, by UID.
    """
    # rule 002.usage: memory and utilization per device and per pod.
    if reading.simulated:
        return simulated_usage(reading.devices, holdings)
    pods: list[PodUsage] = []
    for device in reading.devices:
        by_pod = {one.uid: one for one in holdings if one.device == device.id}
        users = {owners[one.pid] for one in device.processes or () if one.pid in owners} & names.keys()
        for uid in sorted(by_pod.keys() | users):
            namespace, name = names.get(uid) or (by_pod[uid].namespace, by_pod[uid].name)
            used, utilization = _usage_by(device, uid, owners, by_pod.get(uid))
            share = by_pod[uid].share if uid in by_pod else None
            pods.append(PodUsage(uid, namespace, name, device.id, used, utilization, share))
    pods.sort(key=lambda one: (one.namespace, one.name, one.device))
    return NodeUsage(reading.devices, tuple(pods), reading.problems)


def averaged(readings: Sequence[NodeUsage]) -> NodeUsage:
    """The last reading, with the utilization averaged over all of them."""
    last = readings[-1]
    devices = {
        device.id: _mean(one.utilization for usage in readings for one in usage.devices if one.id == device.id)
        for device in last.devices
    }
    pods = {
        (pod.uid, pod.device): _mean(
            one.utilization
            for usage in readings
            for one in usage.pods
            if (one.uid, one.device) == (pod.uid, pod.device)
        )
        for pod in last.pods
    }
    return replace(
        last,
        devices=tuple(replace(device, utilization=devices[device.id]) for device in last.devices),
        pods=tuple(replace(pod, utilization=pods[pod.uid, pod.device]) for pod in last.pods),
    )


def differs(before: NodeUsage, after: NodeUsage, threshold: float) -> bool:
    """Whether a value differs by that many percent of its device, or there are other devices, pods or shares."""
    if _subjects(before) != _subjects(after):
        return True
    sizes = {device.id: device.total or 0 for device in after.devices}
    pairs: list[tuple[str, DeviceUsage | PodUsage, DeviceUsage | PodUsage]] = [
        *((new.id, old, new) for old, new in zip(before.devices, after.devices, strict=True)),
        *((new.device, old, new) for old, new in zip(before.pods, after.pods, strict=True)),
    ]
    return any(
        _moved(old.used, new.used, sizes.get(device, 0) / _PERCENT * threshold)
        or _moved(old.utilization, new.utilization, threshold)
        for device, old, new in pairs
    )


@dataclass(slots=True)
class OverUse:
    """Pods above their shares of memory, and the events about them: one per pod, device and hour."""

    _above: dict[tuple[str, str], int] = field(default_factory=dict)
    """by pod UID and device: readings in a row"""
    _reported: dict[tuple[str, str], float] = field(default_factory=dict)
    """likewise: when the last event was made"""

    def events(self, usage: NodeUsage, node: str, now: float) -> list[Event]:
        """Take a reading; return the events that are due. `now` is of a monotonic clock."""
        # rule 002.usage: a pod that uses more memory than its share takes it from others.
        over = {(pod.uid, pod.device): pod for pod in usage.pods if _is_over(pod)}
        present = {pod.uid for pod in usage.pods}
        self._above = {key: self._above.get(key, 0) + 1 for key in over}
        self._reported = {key: at for key, at in self._reported.items() if key[0] in present and now - at < REPEATED}
        due = [key for key, times in self._above.items() if times >= CONFIRMED and key not in self._reported]
        self._reported.update(dict.fromkeys(due, now))
        return [_event(over[key], node) for key in due]


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """The pod of a process, and its container."""

    pod: str
    """UID"""
    container: str = ""
    """id of the container runtime; empty for a process of the pod's own cgroup"""


def owner_by_cgroup(text: str) -> ContainerOwner | None:
    """The pod in the text of /proc/PID/cgroup; None for a process that belongs to none.

    Of several pods in a path, as in a cluster that runs in a container, the innermost counts.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]  # NUMBER:CONTROLLERS:PATH
        pods = list(_POD.finditer(path))
        if pods:
            containers = [match["id"] for match in _CONTAINER.finditer(path, pods[-1].end())]
            return ContainerOwner(pods[-1]["uid"].replace("_", "-"), containers[-1] if containers else "")
    return None


def owner_by_mounts(text: str) -> ContainerOwner | None:
    """The pod in the text of /proc/PID/mountinfo; None for a process that is in no container of the kubelet."""
    for line in text.splitlines():
        fields = line.split(" ", 5)  # ID PARENT DEVICE ROOT TARGET ...
        if len(fields) > 5 and fields[4] in _TARGETS and (match := _MOUNTED.search(fields[3])):
            return ContainerOwner(match["uid"])
    return None


def simulated_usage(devices: Iterable[DeviceUsage], holdings: Sequence[Holding]) -> NodeUsage:
    """The usage of these devices, of which only the memory is known, by the pods that have them."""
    pods: list[PodUsage] = []
    used: list[DeviceUsage] = []
    for device in devices:
        own = [_used_by(device.total or 0, one) for one in holdings if one.device == device.id]
        pods += own
        memory = min(device.total or 0, sum(one.used or 0 for one in own))
        busy = min(100, sum(one.utilization or 0 for one in own))
        used.append(replace(device, used=memory, utilization=busy, processes=()))
    return NodeUsage(tuple(used), tuple(sorted(pods, key=lambda one: (one.namespace, one.name, one.device))))


def _hold(holdings: dict[tuple[str, str], Holding], pod: PodView, device: str, share: int | None) -> None:
    """Add a device of a container; the shares of several containers on one device add up."""
    known = holdings.get((pod.uid, device))
    if known is not None:
        share = None if share is None or known.share is None else share + known.share
    holdings[pod.uid, device] = Holding(pod.uid, pod.namespace, pod.name, device, share)


def _share(part: Part, size: int, unit: str, *, percent: bool) -> int | None:
    if not part.share:
        return None
    return size * part.share // _PERCENT if percent else part.share * _BYTES[unit]


def _checked_device(device: DeviceUsage, problems: list[str]) -> DeviceUsage:
    total = device.total if device.total is not None and device.total > 0 else None
    used = device.used
    if used is not None and (used < 0 or (total is not None and used > total)):
        problems.append(f"device {device.id}: {used} bytes of memory in use are reported, of {total}; they are ignored")
        used = None
    processes = device.processes if device.processes is None else _merged(device.processes, total)
    return DeviceUsage(device.id, total, used, _percent(device.utilization), processes)


def _merged(processes: Iterable[ProcessUsage], total: int | None) -> tuple[ProcessUsage, ...]:
    """The processes by id: one that computes and draws is listed twice, with the same memory."""
    merged: dict[int, ProcessUsage] = {}
    for one in processes:
        if one.pid <= 0:
            continue
        memory = one.memory
        if memory is not None and (memory < 0 or (total is not None and memory > total)):
            memory = None
        known = merged.get(one.pid, ProcessUsage(one.pid))
        merged[one.pid] = ProcessUsage(
            one.pid, _larger(known.memory, memory), _larger(known.utilization, _percent(one.utilization))
        )
    return tuple(merged.values())


def _larger(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def _percent(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= _PERCENT else None


def _usage_by(
    device: DeviceUsage, uid: str, owners: Mapping[int, str], holding: Holding | None
) -> tuple[int | None, int | None]:
    """Memory and utilization of a pod on a device."""
    processes, whole = device.processes, holding is not None and holding.share is None
    own = [one for one in processes or () if owners.get(one.pid) == uid]
    known = processes is not None and all(one.memory is not None for one in own)
    if whole and not (known and all(one.pid in owners for one in processes or ())):
        used = device.used  # by its allocation: no other pod has the device
    else:
        used = sum(one.memory or 0 for one in own) if known else None
    if whole:
        return used, device.utilization
    busy = [one.utilization for one in own]
    if processes is None or None in busy:
        return used, None
    return used, min(_PERCENT, sum(one or 0 for one in busy))


def _mean(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


def _subjects(usage: NodeUsage) -> tuple[object, ...]:
    devices = [(device.id, device.total) for device in usage.devices]
    return devices, [(pod.uid, pod.device, pod.share) for pod in usage.pods]


def _moved(before: int | None, after: int | None, least: float) -> bool:
    if before is None or after is None:
        return before is not after
    return before != after and abs(after - before) >= least


def _is_over(pod: PodUsage) -> bool:
    return pod.share is not None and pod.used is not None and pod.used > pod.share


def _event(pod: PodUsage, node: str) -> Event:
    sentence = (
        f"The pod uses {_gib(pod.used)} GiB of the memory of device {pod.device}, more than its share of"
        f" {_gib(pod.share)} GiB: other pods on the device may run out of memory"
    )
    return Event("Warning", OVER_USE, sentence, pod.namespace, pod.name, pod.uid, node)


def _gib(amount: int | None) -> str:
    return f"{(amount or 0) / _BYTES['GiB']:.2f}".rstrip("0").rstrip(".")


def _used_by(total: int, one: Holding) -> PodUsage:
    number, share = crc32(f"{one.uid}/{one.device}".encode()), total if one.share is None else min(one.share, total)
    memory = share // 100 * _between(_LEAST_MEMORY, _MOST_MEMORY, number) // MIB * MIB
    busy = _between(_LEAST_BUSY, _MOST_BUSY, number >> 16) * share // total if total else 0
    return PodUsage(one.uid, one.namespace, one.name, one.device, memory, busy, one.share)


def _between(least: int, most: int, number: int) -> int:
    return least + number % (most - least + 1)
