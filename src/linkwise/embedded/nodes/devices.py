"""Device manager: allocates the devices of simulated nodes by the node agent's own code, and publishes their use.

The agent's code also corrects records. Resources that no agent serves, such as percents of a device, are allocated as the
pod's record says.

As a kubelet does, it serves the containers of a pod one after the other. Devices of ordinary init containers are used
again by the containers after them; for the others it asks which ids are preferred, and then what the container is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.broker.grant_writer import GrantWriter
from linkwise.dialects.aliyun import MEMORY
from linkwise.dialects.pod_resources import resources_of
from linkwise.dialects.registry import counts_whole_devices, held_by, owners, required_by
from linkwise.embedded.nodes.device_reports import INVENTORIES
from linkwise.embedded.nodes.machines import usage_by_pods
from linkwise.embedded.runtime import EventRecorder
from linkwise.errors import InputError
from linkwise.node.allocation import Allocations, Listed, Refused, share_ids
from linkwise.node.container import HostOptions, needs_of, siblings_of
from linkwise.node.corrections import Addresses, assigned_annotations, corrected_annotations, correction_event
from linkwise.vendors.container_needs import needs_rules
from linkwise.wire.kubernetes.objects import decode_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.nodes.device_reports import DeviceReports, NodeReport
    from linkwise.embedded.store import Store
    from linkwise.model.device import Device
    from linkwise.model.settings import Visibility
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocated, Correction
    from linkwise.vendors.container_needs import Variables

__all__ = ["DeviceManager", "NodeAllocator"]

VISIBILITY: Final[Visibility] = "group"
"""the agent's default"""


@dataclass(slots=True)
class _Node:
    """The devices of one node, while pods use them or wait for them."""

    devices: dict[str, Device] = field(default_factory=dict)
    """by id; cordoned ones are unhealthy"""
    broken: frozenset[str] = frozenset()
    """ids of the devices that do not work"""
    allocators: dict[str, NodeAllocator] = field(default_factory=dict)
    """by resource"""
    recorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """devices that no allocator counts, by pod UID"""
    recorded_pods: dict[str, PodView] = field(default_factory=dict)
    """the pods that have them, by UID"""
    admitted: dict[str, tuple[str, str]] = field(default_factory=dict)
    """namespace and name of the pods that use devices, by UID"""

    def in_use(self) -> dict[str, tuple[str, ...]]:
        """Devices by pod UID."""
        found = dict(self.recorded)
        for allocator in self.allocators.values():
            found |= allocator.allocations.in_use()
        return {uid: found.get(uid, ()) for uid in self.admitted}

    def unhealthy(self, devices: Iterable[str]) -> list[str]:
        """Those of the devices that can't be allocated."""
        return [device for device in devices if device in self.devices and not self.devices[device].healthy]

    def update(self, report: NodeReport) -> None:
        """Take over the devices of a report."""
        self.devices = {device.id: device for device in report.usable}
        self.broken = frozenset(device.id for device in report.devices if not device.healthy)
        for resource, allocator in self.allocators.items():
            allocator.allocations.devices = self.devices
            allocator.host = _host(report, resource)


class DeviceManager:
    """The devices of all nodes in a store."""

    def __init__(self, store: Store, reports: DeviceReports) -> None:
        self._store, self._reports = store, reports
        self._nodes: dict[str, _Node] = {}
        """of which pods use devices or wait for them"""
        self._grants = GrantWriter()
        self._recorder = EventRecorder(store, "linkwise-agent")

    def expect(self, pod: PodView) -> None:
        """Observe a pod that is bound to its node and not admitted yet."""
        counted = [name for name in resources_of(pod) if name == MEMORY or counts_whole_devices(name)]
        node = self._nodes.get(pod.node, _Node())
        report = self._reports.read(pod.node) if counted and not node.allocators.keys() >= set(counted) else None
        if report is not None:
            self._add_allocators(node, report, counted)
        for name in counted:
            if name in node.allocators:
                node.allocators[name].allocations.observe(pod)

    def admit(self, pod: PodView) -> str:
        """Allocate devices to a pod whose containers are about to start; returns why it is rejected, or an empty text."""
        if self.serves(pod.node, pod.uid):
            return ""  # containers that are restarted keep their devices
        self._refresh(pod)
        self.expect(pod)
        allocators = self._nodes[pod.node].allocators.values() if pod.node in self._nodes else ()
        if allocators and required_by(pod):
            report = self._reports.read(pod.node)
            for allocator in allocators:
                allocator.allocations.facts = report.idle_node.node if report and report.has_agent else None
        if sentence := next(filter(None, (each.admit(pod.uid, self._now()) for each in allocators)), ""):
            self.release(pod.node, pod.uid)
            return sentence
        if any(each.serves(pod.uid) for each in allocators):
            self._nodes[pod.node].admitted[pod.uid] = pod.namespace, pod.name
        elif sentence := self._admit_by_record(pod):
            return sentence
        if self.serves(pod.node, pod.uid):
            self._publish(pod.node)
        return ""

    def serves(self, node: str, uid: str) -> bool:
        """Whether a pod has devices."""
        return node in self._nodes and uid in self._nodes[node].admitted

    def observe(self, pod: PodView) -> None:
        """Compare the record of an admitted pod, which may have been changed, with its devices."""
        for allocator in self._nodes[pod.node].allocators.values():
            if allocator.observe(pod):
                self._publish(pod.node)

    def release(self, name: str, uid: str) -> None:
        """Release the devices of a pod whose containers have stopped."""
        node = self._nodes.get(name)
        if node is None:
            return
        for allocator in node.allocators.values():
            allocator.release(uid)
        node.recorded.pop(uid, None)
        node.recorded_pods.pop(uid, None)
        if node.admitted.pop(uid, None) is not None:
            self._publish(name)
        if not node.admitted and not any(each.allocations.claims() for each in node.allocators.values()):
            del self._nodes[name]

    def users(self, name: str, index: int) -> list[str]:
        """UIDs of the pods that use a device."""
        node = self._nodes.get(name, _Node())
        ids = {f"#{index}", *(device.id for device in node.devices.values() if device.index == index)}
        return [uid for uid, devices in node.in_use().items() if not ids.isdisjoint(devices)]

    def unhealthy_of(self, pod: PodView) -> list[str]:
        """The devices of an admitted pod that do not work; it keeps those that are only cordoned."""
        self._refresh(pod)
        node = self._nodes.get(pod.node, _Node())
        return [device for device in node.in_use().get(pod.uid, ()) if device in node.broken]

    def environment(self, uid: str, container: str) -> dict[str, str]:
        """The variables that a container was given with its devices."""
        allocators = (allocator for node in self._nodes.values() for allocator in node.allocators.values())
        return next((each.environment(uid, container) for each in allocators if each.serves(uid)), {})

    def _now(self) -> float:
        return self._store.database.clock()

    def _add_allocators(self, node: _Node, report: NodeReport, resources: Iterable[str]) -> None:
        """Serve the resources that the node has."""
        name = report.node.name
        for resource in resources:
            if resource not in node.allocators and report.node.capacity.get(resource, "0") != "0":
                allocations = Allocations(resource, shared=resource == MEMORY, pick=partial(self._pick, name))
                node.allocators[resource] = NodeAllocator(allocations)
        if node.allocators:
            self._nodes[name] = node
            node.update(report)

    def _refresh(self, pod: PodView) -> None:
        """Read the devices of the pod's node again, some of which may have failed."""
        node = self._nodes.get(pod.node)
        report = self._reports.read(pod.node) if node is not None else None
        if node is not None and report is not None:
            node.update(report)

    def _admit_by_record(self, pod: PodView) -> str:
        grant, report = held_by(pod).grant, self._reports.read(pod.node)
        if grant is None or report is None:
            return ""
        node, devices = self._nodes.get(pod.node, _Node()), grant.offer.devices
        node.update(report)
        if unhealthy := node.unhealthy(devices):
            return f"device {', '.join(unhealthy)} not healthy"
        self._nodes[pod.node] = node
        node.recorded[pod.uid], node.recorded_pods[pod.uid] = devices, pod
        node.admitted[pod.uid] = pod.namespace, pod.name
        return ""

    def _publish(self, name: str) -> None:
        """Correct the records of pods that have other devices, and write which devices are in use."""
        node = self._nodes[name]
        for allocator in node.allocators.values():
            for correction in allocator.settle(self._now()):
                self._correct(name, allocator.allocations, correction)
            for pod in allocator.allocations.complete():
                own = allocator.allocations.devices_of(pod.uid)
                self._annotate(allocator.allocations, pod, assigned_annotations(pod, own, Addresses()))
        allocations = [
            {"podUID": uid, "namespace": node.admitted[uid][0], "name": node.admitted[uid][1], "devices": list(devices)}
            for uid, devices in node.in_use().items()
        ]
        inventory = self._store.find(INVENTORIES, name)
        if inventory is not None:
            served = [allocator.allocations for allocator in node.allocators.values()]
            usage = usage_by_pods(name, inventory.read(), served, node.recorded_pods.values())
            status = {"allocations": allocations, **({"usage": usage} if usage else {})}
            self._store.patch(INVENTORIES, name, {"status": status}, subresource="status")

    def _pick(self, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """The scheduler's choice, for a pod without a record."""
        report = self._reports.read(name)
        return report.idle_node.choose(available, required, size) if report else ()

    def _correct(self, node: str, allocations: Allocations, correction: Correction) -> None:
        keys = corrected_annotations(correction, allocations.devices, self._grants, self._now())
        self._annotate(allocations, correction.pod, keys)
        event = correction_event(correction, node)
        involved = {"kind": "Pod", "metadata": {"namespace": event.namespace, "name": event.name, "uid": event.uid}}
        self._recorder.record(involved, event.kind, event.reason, event.sentence)

    def _annotate(self, allocations: Allocations, pod: PodView, keys: Mapping[str, str]) -> None:
        known = self._store.find("pods", pod.name, pod.namespace)
        if keys and known is not None and known.uid == pod.uid:
            stored = self._store.patch("pods", pod.name, {"metadata": {"annotations": dict(keys)}}, pod.namespace)
            allocations.observe(decode_pod(stored.data))


@dataclass(frozen=True, slots=True)
class _Served:
    """What a container has."""

    ids: tuple[str, ...]
    environment: Variables = ()


@dataclass(slots=True)
class NodeAllocator:
    """The devices of one node under one resource."""

    allocations: Allocations
    host: HostOptions | None = None
    """None if another plugin serves the devices: what containers are given is not known then"""
    _served: dict[str, dict[str, _Served]] = field(default_factory=dict)
    """by pod UID and container"""

    def admit(self, uid: str, now: float) -> str:
        """Allocate devices to the containers of an observed pod; returns why that is not possible, or an empty text."""
        reusable: list[str] = []
        for claim in [claim for claim in self.allocations.claims() if claim.pod.uid == uid]:
            served = self._serve(claim.amount, reusable, now)
            if isinstance(served, Refused):
                self.release(uid)
                return served.sentence
            self._served.setdefault(uid, {})[claim.container] = served
            own = set(served.ids)
            reusable = [identifier for identifier in reusable if identifier not in own]
            reusable += served.ids if claim.init else ()
        return ""

    def observe(self, pod: PodView) -> bool:
        """Observe a pod that has devices; returns whether its record may have changed."""
        own = [claim for claim in self.allocations.claims() if claim.pod.uid == pod.uid]
        if all(claim.pod.annotations == pod.annotations or claim.pod.version > pod.version for claim in own):
            return False
        self.allocations.observe(pod)
        return True

    def settle(self, now: float) -> tuple[Correction, ...]:
        """Compare what the containers have with the records, as the agent does; returns the records to correct."""
        listed = []
        for claim in self.allocations.claims():
            served = self._served.get(claim.pod.uid, {}).get(claim.container)
            if served and not claim.init:  # kubelets do not list ordinary init containers
                listed.append(Listed(claim.pod.namespace, claim.pod.name, claim.container, served.ids))
        return self.allocations.settle(listed, now)

    def serves(self, uid: str) -> bool:
        """Whether a pod has devices."""
        return uid in self._served

    def release(self, uid: str) -> None:
        """Forget a pod whose containers have stopped, or that is rejected."""
        self._served.pop(uid, None)
        self.allocations.forget(uid)

    def environment(self, uid: str, container: str) -> dict[str, str]:
        """The variables that a container was given."""
        served = self._served.get(uid, {}).get(container)
        return dict(served.environment) if served else {}

    def _serve(self, size: int, reusable: Sequence[str], now: float) -> _Served | Refused:
        """The calls for one container."""
        ids = self._choose(size, reusable)
        answer = ids if isinstance(ids, Refused) else self.allocations.allocate(ids, now)
        if isinstance(answer, Refused):
            return answer
        try:
            return _Served(answer.ids, self._environment_of(answer))
        except InputError as error:
            return Refused(str(error))

    def _choose(self, size: int, reusable: Sequence[str]) -> tuple[str, ...] | Refused:
        kept = tuple(reusable[:size])
        if len(kept) == size:
            return kept
        used = {identifier for pod in self._served.values() for each in pod.values() for identifier in each.ids}
        used.difference_update(kept)
        available = [identifier for identifier in self._healthy_ids() if identifier not in used]
        if len(available) < size:
            return Refused(
                f"requested number of devices unavailable for {self.allocations.resource}. "
                f"Requested: {size}, Available: {len(available)}"
            )
        return self.allocations.preferred(available, kept, size)

    def _healthy_ids(self) -> list[str]:
        healthy = [device for device in self.allocations.devices.values() if device.healthy]
        if not self.allocations.shared:
            return [device.id for device in healthy]
        return [identifier for device in healthy for identifier in share_ids(device)]

    def _environment_of(self, answer: Allocated) -> Variables:
        if self.host is None:
            return ()
        devices, shared = self.allocations.devices, self.allocations.shared
        return needs_of(answer, devices, siblings_of(answer, devices, VISIBILITY), self.host, shared=shared).environment


def _host(report: NodeReport, resource: str) -> HostOptions | None:
    """What the node has for containers; None if another device plugin serves it."""
    vendor = owners(resource)[0].vendor
    if not report.has_agent or vendor not in needs_rules():
        return None
    return HostOptions(vendor, lambda _: True, isolated=report.node.labels.get("cgpu.disable.isolation") != "true")
