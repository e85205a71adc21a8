"""Dynamic Resource Allocation in the scheduler: kube-scheduler's plugin DynamicResources.

A pod is not scheduled before its claims exist. On each node that fits otherwise, its claims must be allocated there, or
be allocatable. Devices are reserved in memory when the node is chosen, and the claims are written before the pod is bound. If the
bind fails, the reservation is undone and the allocation stays, until the pod is unschedulable.

Extended resources that a DeviceClass serves are requested by a claim that is generated for the pod, on nodes whose
allocatable does not have the resource.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.kubernetes.claims.objects import FOR_EXTENDED_RESOURCES, class_of, slice_of
from linkwise.dialects.pod_resources import whole_quantity
from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.scheduler.device_allocator import (
    AllocationError,
    Pool,
    PublishedSlice,
    allocate,
    allocation_document,
    claim_spec,
)
from linkwise.embedded.writes.claim_rules import CLAIMS, CLASSES, SLICES
from linkwise.embedded.writes.delete import DeleteOptions, Preconditions
from linkwise.embedded.writes.pod_claims import FINALIZER, claim_names, consumer_of
from linkwise.engine.selectors import all_met
from linkwise.errors import InputError
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from linkwise.dialects.kubernetes.claims.objects import DeviceClass, DeviceName, PoolName
    from linkwise.embedded.scheduler.cache import NodeInfo
    from linkwise.embedded.scheduler.device_allocator import ClaimSpec, PoolDevice, Result
    from linkwise.embedded.storage.collection import Change, Raw, Stored
    from linkwise.embedded.store import Store
    from linkwise.model.views import NodeView

__all__ = ["DynamicResources", "PodClaims"]

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""prefix of the extended resource that every DeviceClass serves; its name follows"""
NOT_ALLOCATABLE: Final = "cannot allocate all claims"
ELSEWHERE: Final = "resourceclaim not available on the node"
_MAX_CONSUMERS: Final = 256


@dataclass(frozen=True, slots=True)
class _Extended:
    """A request of a container for an extended resource that a DeviceClass serves."""

    container: str
    index: int
    """of the container"""
    resource: str
    count: int


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod that is being scheduled."""

    resources: DynamicResources
    pod: Stored
    allocated: list[tuple[Stored, Raw | None]] = field(default_factory=list)
    """claims with devices, and where these are available"""
    unallocated: list[tuple[Stored, ClaimSpec]] = field(default_factory=list)
    extended: tuple[_Extended, ...] = ()
    blocked: str = ""
    """why no node can serve them"""
    elsewhere: bool = False
    """whether an allocated claim kept a node away"""

    def counts(self, node: NodeInfo, counts: Mapping[str, int]) -> Mapping[str, int]:
        """The extended resources of a pod that the device plugins of a node must serve."""
        served = {each.resource for each in self.served_on(node)}
        return {name: count for name, count in counts.items() if name not in served}

    def served_on(self, node: NodeInfo) -> list[_Extended]:
        """The requests that a generated claim serves on a node."""
        return [each for each in self.extended if not node.allocatable.get(each.resource)]

    def filter(self, node: NodeInfo) -> str:
        """Why the claims can't be served on a node; empty if they can."""
        if self.blocked:
            return self.blocked
        if any(selector is not None and not _selects(selector, node.view) for _, selector in self.allocated):
            self.elsewhere = True
            return ELSEWHERE
        try:
            return "" if self.resources.allocate(self, node) is not None else NOT_ALLOCATABLE
        except AllocationError as error:
            return str(error)


class DynamicResources:
    """Slices, classes and allocated devices of a store, and the claims of its pods."""

    def __init__(self, store: Store) -> None:
        self.listeners: Final[list[Callable[[], None]]] = []
        """called after changes that may make a pod schedulable"""
        self._store = store
        self._slices: dict[str, PublishedSlice] = {}
        self._pools: dict[PoolName, dict[str, PublishedSlice]] = {}
        self._pools_on: dict[str, dict[PoolName, None]] = {}
        """by node; those that several nodes have access to are under the empty name"""
        self._current: dict[PoolName, Pool] = {}
        self._classes: dict[str, tuple[str, ...]] = {}
        """selectors by class"""
        self._serving: dict[str, DeviceClass] = {}
        """classes with an extended resource, by their names"""
        self._devices: dict[tuple[str, str], tuple[DeviceName, ...]] = {}
        """of allocated claims"""
        self._reserved: dict[str, tuple[DeviceName, ...]] = {}
        """devices of claims that are not written yet, by pod"""
        self._used: Counter[DeviceName] = Counter()
        """all of these"""
        self._stop = contextlib.ExitStack()

    def start(self) -> None:
        """Read all objects, and follow them from now on."""
        handlers = {SLICES: self._on_slice, CLASSES: self._on_class, CLAIMS: self._on_claim}
        for kind, handle in handlers.items():
            for stored in self._store.list(kind).items:
                handle(stored, deleted=False)
            collection = self._store.database.collection(self._store.resource(kind))

            def on_change(change: Change, handle: Callable[..., None] = handle) -> None:
                handle(change.stored, deleted=change.type == "DELETED")
                for notify in self.listeners:
                    notify()

            collection.listeners.add(on_change)
            self._stop.callback(collection.listeners.discard, on_change)

    def stop(self) -> None:
        """Follow nothing any more."""
        self._stop.close()

    def is_waiting(self, pod: Stored) -> bool:
        """Whether a claim of the pod does not exist yet: such a pod is not scheduled, and nothing is reported."""
        if b'"resourceClaims"' not in pod.data:
            return False
        names = claim_names(pod.read())
        return any(
            name is None
            or (claim := self._store.find(CLAIMS, name, pod.namespace)) is None
            or b'"deletionTimestamp"' in claim.data
            for name in names
        )

    def claims_of(self, pod: Stored) -> PodClaims | None:
        """The claims of a pod; None for pods without any."""
        named = b'"resourceClaims"' in pod.data
        if not named and not self._classes:
            return None
        document = pod.read()
        found = PodClaims(self, pod, extended=tuple(self._extended(document)))
        for name in claim_names(document) if named else ():
            claim = self._store.find(CLAIMS, name or "", pod.namespace)
            if claim is None or b'"deletionTimestamp"' in claim.data:  # it was there when the pod was queued
                found.blocked = (
                    f'resourceclaim "{name}" not found' if claim is None else "resourceclaim is being deleted"
                )
                return found
            if status := _allocated_status(claim):
                found.allocated.append((claim, status["allocation"].get("nodeSelector")))
            else:
                found.unallocated.append((claim, claim_spec(claim.read())))
        if not (found.allocated or found.unallocated or found.extended):
            return None
        found.blocked = self._blocked(found)
        return found

    def allocate(self, claims: PodClaims, node: NodeInfo) -> list[list[Result]] | None:
        """The devices of the claims on a node; None if not all can be allocated there."""
        specs = [spec for _, spec in claims.unallocated]
        if extended := claims.served_on(node):
            specs.append(claim_spec({"spec": self._generated(extended)}))
        if not specs:
            return []
        names = {**self._pools_on.get(node.view.name, {}), **self._pools_on.get("", {})}
        pools = [self._pool(name) for name in sorted(names)]

        def has_access(device: PoolDevice) -> bool:
            if device.node:
                return device.node == node.view.name
            return device.node_selector is None or _selects(device.node_selector, node.view)

        return allocate(specs, pools, self._classes, has_access, self._used)

    def reserve(self, claims: PodClaims, node: NodeInfo) -> list[Raw] | None:
        """Reserve devices on the chosen node; returns the allocations, None if they are not available any more."""
        try:
            found = self.allocate(claims, node)
        except AllocationError:  # of devices that were published meanwhile
            found = None
        if found is None:
            return None
        devices = tuple(device.name for results in found for request, device in results if not request.admin)
        self._reserved[claims.pod.uid] = devices
        self._used.update(devices)
        now = self._store.database.now
        return [allocation_document(results, node.view.name, now) for results in found]

    def write(self, claims: PodClaims, node: NodeInfo, allocations: Sequence[Raw]) -> None:
        """Write the claims of a pod before it is bound; ApiError if one was changed."""
        try:
            consumer = consumer_of(claims.pod)
            written = iter(allocations)
            for claim, _ in claims.allocated:
                self._write(claim, consumer, None)
            for claim, _ in claims.unallocated:
                self._write(claim, consumer, next(written))
            if extended := claims.served_on(node):
                self._write_extended(claims.pod, extended, consumer, next(written))
        finally:
            self._forget(self._reserved.pop(claims.pod.uid, ()))

    def undo(self, pod: Stored) -> None:
        """Undo the reservations of a pod that was not bound; a generated claim is deleted."""
        self._forget(self._reserved.pop(pod.uid, ()))
        for stored in self._store.list(CLAIMS, self._store.select(CLAIMS, pod.namespace)).items:
            if pod.uid.encode() not in stored.data:
                continue
            document = stored.read()
            consumers = document.get("status", {}).get("reservedFor") or ()
            others = [each for each in consumers if each["uid"] != pod.uid]
            if (document["metadata"].get("annotations") or {}).get(FOR_EXTENDED_RESOURCES) == "true":
                self._patch(stored, {"status": {"allocation": None, "reservedFor": None}}, "status")
                self._patch(stored, {"metadata": {"finalizers": None}})
                self._store.delete(CLAIMS, stored.name, stored.namespace, _exactly(stored))
            elif len(others) < len(consumers):
                self._patch(stored, {"status": {"reservedFor": others or None}}, "status")

    def give_up(self, claims: PodClaims) -> None:
        """Deallocate a claim that keeps an unschedulable pod away from all nodes, unless another pod uses it."""
        for claim, _ in claims.allocated if claims.elsewhere else ():
            current = self._store.find(CLAIMS, claim.name, claim.namespace)
            status = _allocated_status(current) if current is not None else {}
            if current is None or not status:
                continue
            consumers = status.get("reservedFor") or ()
            if all(each["uid"] == claims.pod.uid for each in consumers):
                self._patch(current, {"status": {"allocation": None, "reservedFor": None}}, "status")
                return

    # what pods request

    def _extended(self, document: Raw) -> Iterator[_Extended]:
        spec = document["spec"]
        for index, container in enumerate((*(spec.get("initContainers") or ()), *spec["containers"])):
            resources = container.get("resources") or {}
            for resource, amount in sorted((resources.get("requests") or resources.get("limits") or {}).items()):
                if "/" in resource and self._class_of(resource):
                    try:
                        count = whole_quantity(str(amount))
                    except InputError:
                        continue
                    if count:
                        yield _Extended(container["name"], index, resource, count)

    def _class_of(self, resource: str) -> str:
        """The class that serves an extended resource: of several the newest, then the first by name."""
        if resource.startswith(IMPLICIT):
            name = resource.removeprefix(IMPLICIT)
            return name if name in self._classes else ""
        serving = [each for each in self._serving.values() if each.resource == resource]
        newest = max((each.created for each in serving), default="")
        return min((each.name for each in serving if each.created == newest), default="")

    def _blocked(self, claims: PodClaims) -> str:
        for request, name in (each for _, spec in claims.unallocated for each in spec.classes):
            if name not in self._classes:
                return f"request {request}: device class {name} does not exist"
        for claim, _ in claims.allocated:
            consumers = claim.read()["status"].get("reservedFor") or ()
            if len(consumers) >= _MAX_CONSUMERS and all(each["uid"] != claims.pod.uid for each in consumers):
                return "resourceclaim in use"
        return ""

    def _generated(self, extended: Sequence[_Extended]) -> Raw:
        """The spec of the claim for extended resources."""
        return {
            "devices": {
                "requests": [
                    {
                        "name": name,
                        "exactly": {
                            "deviceClassName": self._class_of(each.resource),
                            "allocationMode": "ExactCount",
                            "count": each.count,
                        },
                    }
                    for name, each in zip(_request_names(extended), extended, strict=True)
                ]
            }
        }

    def _pool(self, name: PoolName) -> Pool:
        if name not in self._current:
            self._current[name] = Pool(self._pools[name].values())
        return self._current[name]

    # writes

    def _write(self, claim: Stored, consumer: Raw, allocation: Raw | None) -> None:
        current = self._store.get(CLAIMS, claim.name, claim.namespace)
        document = current.read()
        status = document.get("status") or {}
        if current.uid != claim.uid or ("allocation" in status) != (allocation is None):
            raise ApiError(409, "Conflict", f"ResourceClaim {claim.name} was changed")
        if allocation is not None:
            finalizers = [*(document["metadata"].get("finalizers") or ()), FINALIZER]
            if FINALIZER not in finalizers[:-1]:
                self._patch(current, {"metadata": {"finalizers": finalizers}})
        consumers = status.get("reservedFor") or []
        if all(each["uid"] != consumer["uid"] for each in consumers):
            consumers = [*consumers, consumer]
        change: Raw = {"reservedFor": consumers} | ({} if allocation is None else {"allocation": allocation})
        self._patch(claim, {"status": change}, "status")

    def _write_extended(self, pod: Stored, extended: Sequence[_Extended], consumer: Raw, allocation: Raw) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        about = {
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": {FOR_EXTENDED_RESOURCES: "true"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            "finalizers": [FINALIZER],
        }
        document = {"metadata": about, "spec": self._generated(extended)}
        claim = self._store.create(CLAIMS, document, pod.namespace)
        self._patch(claim, {"status": {"allocation": allocation, "reservedFor": [consumer]}}, "status")
        mappings = [
            {"containerName": each.container, "resourceName": each.resource, "requestName": name}
            for name, each in zip(_request_names(extended), extended, strict=True)
        ]
        status = {"extendedResourceClaimStatus": {"resourceClaimName": claim.name, "requestMappings": mappings}}
        self._store.patch("pods", pod.name, {"status": status}, pod.namespace, "status")

    def _patch(self, claim: Stored, change: Raw, subresource: str = "") -> None:
        self._store.patch(CLAIMS, claim.name, change, claim.namespace, subresource)

    # what is observed

    def _on_slice(self, stored: Stored, *, deleted: bool) -> None:
        before = self._slices.pop(stored.name, None)
        if before is not None:
            pool = (before.slice.driver, before.slice.pool)
            del self._pools[pool][stored.name]
            self._current.pop(pool, None)
            if not self._pools[pool]:
                del self._pools[pool]
            for node in _nodes(before):
                if not any(node in _nodes(each) for each in self._pools.get(pool, {}).values()):
                    self._pools_on[node].pop(pool, None)
        published = None if deleted else _published(stored)
        if published is not None:
            pool = (published.slice.driver, published.slice.pool)
            self._slices[stored.name] = published
            self._pools.setdefault(pool, {})[stored.name] = published
            self._current.pop(pool, None)
            for node in _nodes(published):
                self._pools_on.setdefault(node, {})[pool] = None

    def _on_class(self, stored: Stored, *, deleted: bool) -> None:
        self._classes.pop(stored.name, None)
        self._serving.pop(stored.name, None)
        if not deleted:
            document = stored.read()
            selectors = (document.get("spec") or {}).get("selectors") or ()
            self._classes[stored.name] = tuple(each["cel"]["expression"] for each in selectors)
            if (serving := class_of(stored.name, document)) is not None:
                self._serving[stored.name] = serving

    def _on_claim(self, stored: Stored, *, deleted: bool) -> None:
        self._forget(self._devices.pop(stored.key, ()))
        if not deleted and (status := _allocated_status(stored)):
            results = status["allocation"].get("devices", {}).get("results") or ()
            devices = tuple(
                (each["driver"], each["pool"], each["device"]) for each in results if not each.get("adminAccess")
            )
            self._devices[stored.key] = devices
            self._used.update(devices)

    def _forget(self, devices: Iterable[DeviceName]) -> None:
        for device in devices:
            self._used[device] -= 1
            if not self._used[device]:
                del self._used[device]


def _request_names(extended: Sequence[_Extended]) -> list[str]:
    """The names of the requests of a generated claim: by container and by its resources."""
    names, count = [], dict[int, int]()
    for each in extended:
        names.append(f"container-{each.index}-request-{count.get(each.index, 0)}")
        count[each.index] = count.get(each.index, 0) + 1
    return names


def _published(stored: Stored) -> PublishedSlice | None:
    document = stored.read()
    found = slice_of(stored.name, document)
    if found is None:
        return None
    spec = document["spec"]
    taints = {each["name"]: each["taints"] for each in spec.get("devices") or () if each.get("taints")}
    return PublishedSlice(found, spec.get("nodeSelector"), taints)


def _nodes(published: PublishedSlice) -> list[str]:
    """The nodes with access to devices of a slice; an empty name for those that several nodes have access to."""
    if published.slice.node:
        return [published.slice.node]
    named = dict.fromkeys(device.node for device in published.slice.devices)
    return list(named) or [""]


def _allocated_status(claim: Stored) -> Raw:
    """The status of a claim that has devices; empty for others."""
    status: Raw = claim.read().get("status") or {} if b'"allocation":' in claim.data else {}
    return status if "allocation" in status else {}


def _selects(selector: Raw, node: NodeView) -> bool:
    """Whether one of the terms of a node selector selects a node."""
    for term in selector.get("nodeSelectorTerms") or ():
        by_labels, by_fields = (_requirements(term.get(key)) for key in ("matchExpressions", "matchFields"))
        if (by_labels or by_fields) and (
            all_met(by_labels, node.labels) and all_met(by_fields, {"metadata.name": node.name})
        ):
            return True
    return False


def _requirements(entries: Sequence[Raw] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in entries or ()
    )


def _exactly(stored: Stored) -> DeleteOptions:
    return DeleteOptions(preconditions=Preconditions(uid=stored.uid))
