"""Resource claims: the devices of a node in ResourceSlices, and those that allocated ResourceClaims use.

A node whose devices are published in slices, and not by a device plugin, serves requests for the extended resource of a
DeviceClass: kube-scheduler allocates devices by a claim. Such nodes are placed by count.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.device_taints import fault_of, taint_warnings
from linkwise.broker.cluster.objects import document_of
from linkwise.dialects.kubernetes.claims.objects import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    KINDS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    claim_document,
    claim_of,
    class_document,
    class_of,
    rule_document,
    rule_of,
    slice_document,
    slice_of,
)
from linkwise.dialects.kubernetes.claims.pools import current_slices, devices_on, pool_problem, selected_on, with_rules
from linkwise.dialects.kubernetes.claims.selectors import is_known
from linkwise.dialects.registry import counts_whole_devices
from linkwise.model.device import Device
from linkwise.model.inventory import ClaimableDevices
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.cluster.changes import Changes
    from linkwise.dialects.kubernetes.claims.objects import Claim, DeviceClass, PoolName, Slice, SliceDevice
    from linkwise.dialects.kubernetes.claims.taints import TaintRule
    from linkwise.model.inventory import Pin

__all__ = ["ResourceClaims"]

UNKNOWN_SELECTOR: Final = (
    "a selector can't be evaluated here; devices that it may exclude are counted, and kube-scheduler decides"
)
_BUS_ID: Final = "resource.kubernetes.io/pciBusID"


class ResourceClaims:
    """Slices, classes and claims by name; a change is noted for the nodes that it concerns."""

    def __init__(self, changes: Changes) -> None:
        self._changes: Final = changes
        self._slices: dict[str, Slice] = {}
        self._classes: dict[str, DeviceClass] = {}
        self._claims: dict[str, Claim] = {}
        self._rules: dict[str, TaintRule] = {}
        self._pools: dict[PoolName, dict[str, Slice]] = {}
        self._pools_on: dict[str, dict[PoolName, int]] = {}
        """by node its pools, and how many slices name it"""
        self._claims_in: dict[PoolName, dict[str, Claim]] = {}
        self._planned: dict[str, Claim] = {}
        """claims that Linkwise wrote, by the UID of their pod"""

    def see(self, kind: str, name: str, document: Mapping[str, object] | bytes | None) -> None:
        """Record an object; None if it was deleted."""
        found = None if document is None else document_of(document)
        if kind == RESOURCE_SLICE:
            self._see_slice(name, slice_of(name, found) if found is not None else None)
        elif kind == DEVICE_CLASS:
            self._see_class(name, class_of(name, found) if found is not None else None)
        elif kind == RESOURCE_CLAIM:
            self._see_claim(name, claim_of(name, found) if found is not None else None)
        elif kind == DEVICE_TAINT_RULE:
            self._see_rule(name, rule_of(name, found) if found is not None else None)

    def restore(self, objects: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
        """Restore a snapshot."""
        for kind in KINDS:
            for name, document in objects.get(kind, {}).items():
                self.see(kind, name, document)

    def documents(self) -> dict[str, dict[str, Mapping[str, object]]]:
        """The objects by kind and name, with the fields that are read."""
        found: dict[str, dict[str, Mapping[str, object]]] = {
            RESOURCE_SLICE: {name: slice_document(each) for name, each in self._slices.items()},
            DEVICE_CLASS: {name: class_document(each) for name, each in self._classes.items()},
            RESOURCE_CLAIM: {name: claim_document(each) for name, each in self._claims.items()},
            DEVICE_TAINT_RULE: {name: rule_document(each) for name, each in self._rules.items()},
        }
        return {kind: named for kind, named in found.items() if named}

    def on(self, node: str) -> tuple[ClaimableDevices, ...]:
        """The devices of a node by the extended resources that claims serve there."""
        pools = self._pools_on.get(node)
        if not pools:
            return ()
        found = (self._devices(node, sorted(pools), each) for each in self._serving())
        return tuple(each for each in found if each.devices or each.problems)

    def __contains__(self, name: str) -> bool:
        """Whether a claim of ours, or an allocated one, has that namespace and name."""
        return name in self._claims

    def planned_for(self, pod: str) -> Claim | None:
        """The observed claim that Linkwise wrote for a pod."""
        return self._planned.get(pod)

    def allocated(self, name: str) -> Claim | None:
        """The observed claim of that namespace and name; None if it is neither allocated nor ours."""
        return self._claims.get(name)

    def class_of(self, resource: str) -> str:
        """The class that serves an extended resource; empty if there is none."""
        return next((each.name for each in self._serving() if each.resource == resource), "")

    def _serving(self) -> list[DeviceClass]:
        """The class of each extended resource: of several the newest, as in kube-scheduler, then the first by name."""
        by_resource: dict[str, DeviceClass] = {}
        by_name = sorted(self._classes.values(), key=lambda each: each.name)
        for each in sorted(by_name, key=lambda each: each.created, reverse=True):
            if counts_whole_devices(each.resource):
                by_resource.setdefault(each.resource, each)
        return [by_resource[resource] for resource in sorted(by_resource)]

    def _devices(self, node: str, pools: Iterable[PoolName], wanted: DeviceClass) -> ClaimableDevices:
        problems: list[Problem] = []
        here: list[tuple[PoolName, SliceDevice, Sequence[Claim]]] = []
        for pool in pools:
            slices, users = self._current(pool), self._users(pool)
            if wrong := pool_problem(slices):
                if selected_on(node, slices, wanted):
                    sentence = f"pool {pool[1]} of driver {pool[0]}: {wrong}; its devices are not counted"
                    problems.append(Problem(f"node {node}", wanted.resource, sentence))
                continue
            here += [(pool, each, users.get(each.name, ())) for each in devices_on(node, slices, wanted, users)]
        if here and not all(map(is_known, wanted.selectors)):
            problems.append(Problem(f"DeviceClass {wanted.name}", wanted.resource, UNKNOWN_SELECTOR))
        problems += taint_warnings(node, [(device.name, device.taints) for _, device, _ in here])
        return _claimable(wanted.resource, here, tuple(problems))

    def _current(self, pool: PoolName) -> Sequence[Slice]:
        """The current slices of a pool, with the taints of rules."""
        slices = current_slices(self._pools[pool].values())
        return with_rules(slices, [self._rules[name] for name in sorted(self._rules)]) if self._rules else slices

    def _users(self, pool: PoolName) -> dict[str, list[Claim]]:
        """The claims of a pool's devices, by name of the device."""
        users: dict[str, list[Claim]] = {}
        for _, claim in sorted(self._claims_in.get(pool, {}).items()):
            for driver, of_pool, name in claim.devices:
                if (driver, of_pool) == pool:
                    users.setdefault(name, []).append(claim)
        return users

    def _see_slice(self, name: str, found: Slice | None) -> None:
        before = self._slices.pop(name, None)
        if found:
            self._slices[name] = found
        if before == found:
            return
        if before:
            self._leave_pool(before)
        if found:
            pool = (found.driver, found.pool)
            self._pools.setdefault(pool, {})[name] = found
            for node in _nodes(found):
                pools = self._pools_on.setdefault(node, {})
                pools[pool] = pools.get(pool, 0) + 1
        for each in (before, found):
            if each:
                self._note_pool((each.driver, each.pool))
                self._changes.observed |= dict.fromkeys(_nodes(each))

    def _leave_pool(self, gone: Slice) -> None:
        pool = (gone.driver, gone.pool)
        del self._pools[pool][gone.name]
        if not self._pools[pool]:
            del self._pools[pool]
        for node in _nodes(gone):
            pools = self._pools_on[node]
            pools[pool] -= 1
            if not pools[pool]:
                del pools[pool]
            if not pools:
                del self._pools_on[node]

    def _see_class(self, name: str, found: DeviceClass | None) -> None:
        before = self._classes.pop(name, None)
        if found:
            self._classes[name] = found
        if before != found:
            self._changes.observed |= dict.fromkeys(self._pools_on)

    def _see_claim(self, name: str, found: Claim | None) -> None:
        before = self._claims.pop(name, None)
        if found:
            self._claims[name] = found
        if before == found:
            return
        self._note_planned(before, found)
        for pool in before.pools if before else ():
            del self._claims_in[pool][name]
            if not self._claims_in[pool]:
                del self._claims_in[pool]
            self._note_pool(pool)
        if found:
            for pool in found.pools:
                self._claims_in.setdefault(pool, {})[name] = found
                self._note_pool(pool)

    def _see_rule(self, name: str, found: TaintRule | None) -> None:
        before = self._rules.pop(name, None)
        if found:
            self._rules[name] = found
        changed = [each for each in (before, found) if each and before != found]
        for pool in self._pools if changed else ():
            if any(each.covers(*pool) for each in changed):
                self._note_pool(pool)

    def _note_planned(self, before: Claim | None, found: Claim | None) -> None:
        """Note the pods whose claims of ours changed."""
        for each in (before, found):
            if each and each.plan and each.pod:
                self._planned.pop(each.pod, None)
                self._changes.claims[each.pod] = None
        if found and found.plan and found.pod:
            self._planned[found.pod] = found

    def _note_pool(self, pool: PoolName) -> None:
        """Note the nodes of a pool: their devices, or what is allocated of them, changed."""
        for each in self._pools.get(pool, {}).values():
            self._changes.observed |= dict.fromkeys(_nodes(each))


def _claimable(
    resource: str, here: Sequence[tuple[PoolName, SliceDevice, Sequence[Claim]]], problems: tuple[Problem, ...]
) -> ClaimableDevices:
    names = _names([(pool, device) for pool, device, _ in here])
    devices: list[Device] = []
    allocations: dict[str, tuple[str, ...]] = {}
    claims: dict[str, str] = {}
    faults: dict[str, str] = {}
    for index, (name, (pool, device, users)) in enumerate(zip(names, here, strict=True)):
        devices.append(_device(name, index, pool[0], device))
        if fault := fault_of(device.taints):
            faults[name] = fault
        for claim in users:
            claims.setdefault(name, claim.name)
            allocations[claim.pod or claim.name] = (*allocations.get(claim.pod or claim.name, ()), name)
    uuids = [device.attribute(f"{pool[0]}/uuid") for pool, device, _ in here]
    named = tuple(uuid for uuid in uuids if isinstance(uuid, str))
    pins = dict(zip(names, _pins([(pool, device) for pool, device, _ in here]), strict=True)) if here else {}
    found = {name: pin for name, pin in pins.items() if pin}
    return ClaimableDevices(resource, tuple(devices), allocations, claims, named, problems, found, faults)


def _names(here: Sequence[tuple[PoolName, SliceDevice]]) -> list[str]:
    """The ids of devices: their UUIDs if each has one of its own, as in other sources, otherwise their names."""
    uuids = [device.attribute(f"{pool[0]}/uuid") for pool, device in here]
    texts = [uuid for uuid in uuids if isinstance(uuid, str) and uuid]
    if len(set(texts)) == len(here):
        return texts
    count = Counter(device.name for _, device in here)
    return [device.name if count[device.name] == 1 else "/".join((*pool, device.name)) for pool, device in here]


def _pins(here: Sequence[tuple[PoolName, SliceDevice]]) -> list[Pin | None]:
    """What tells each device apart: the first attribute that all devices of its driver here have, each another value."""
    chosen: dict[str, str] = {}
    for driver in dict.fromkeys(pool[0] for pool, _ in here):
        own = [device for pool, device in here if pool[0] == driver]
        for attribute in (f"{driver}/uuid", _BUS_ID, f"{driver}/pciAddr"):
            values = {value for device in own if isinstance(value := device.attribute(attribute), str) and value}
            if len(values) == len(own):
                chosen[driver] = attribute
                break
    pins: list[Pin | None] = []
    for (driver, _), device in here:
        attribute = chosen.get(driver, "")
        pins.append((attribute, str(device.attribute(attribute))) if attribute else None)
    return pins


def _nodes(found: Slice) -> list[str]:
    """The nodes that a slice or its devices name; devices that are reached by a selector are not counted."""
    return [name for name in dict.fromkeys((found.node, *(device.node for device in found.devices))) if name]


def _device(name: str, index: int, driver: str, found: SliceDevice) -> Device:
    model, bus_id = found.attribute(f"{driver}/productName"), found.attribute(_BUS_ID)
    bus_id = bus_id or found.attribute(f"{driver}/pciAddr")
    return Device(
        name,
        index,
        bus_id=bus_id if isinstance(bus_id, str) else "",
        model=model if isinstance(model, str) else "",
        healthy=not found.tainted,
    )
