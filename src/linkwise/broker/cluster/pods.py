"""Observed pods: by UID, name and node, recently deleted ones too, with the devices that each has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import demand_of
from linkwise.engine.ledger import is_whole
from linkwise.engine.usage import Drift, Usage, recorded_parts, reported_for, usage_of
from linkwise.model.ask import Load
from linkwise.model.node import FREE, Use
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.views import PodView

__all__ = ["Pods", "allocated_parts", "elsewhere", "holds_devices", "mismatch", "unrecorded_grant", "usage_of_entry"]

REMEMBERED: Final = 20_000
"""limit of remembered UIDs of deleted pods, whose late events are ignored"""


def holds_devices(pod: PodView) -> bool:
    """Return whether a pod still holds its devices: bound, and not all containers have stopped."""
    # rule 002.release, 003.between: devices are free again when the containers have stopped, not when deleting begins.
    return bool(pod.node) and pod.phase not in FINISHED and not pod.stopped


class Pods:
    """One pod per UID, and one UID per name."""

    def __init__(self) -> None:
        self.views: Final[dict[str, PodView]] = {}
        """by UID"""
        self.gone: Final[dict[str, bool]] = {}
        """deleted pods, and whether they were observed as finished before"""
        self.unschedulable: Final[dict[str, None]] = {}
        """pending pods that their scheduler reported as unschedulable"""
        self._named: dict[tuple[str, str], str] = {}
        self._on: dict[str, dict[str, PodView]] = {}
        self._loads: dict[str, Load] = {}

    def is_news(self, view: PodView) -> bool:
        """Return whether a view is current: not of a deleted pod, and not older than the known one."""
        uid, known, other = view.uid, self.views.get(view.uid), self.namesake(view)
        late = (known and 0 < view.version < known.version) or (other and _before(view, other))
        return bool(uid) and not late and uid not in self.gone

    def namesake(self, view: PodView) -> PodView | None:
        """Return an older pod of the same name: it is deleted, though the watch may not have reported it."""
        uid = self._named.get((view.namespace, view.name))
        return self.views.get(uid) if uid is not None and uid != view.uid else None

    def uid_of(self, namespace: str, name: str) -> str:
        """Return the UID of the pod with that name; empty if there is none."""
        return self._named.get((namespace, name), "")

    def put(self, view: PodView) -> None:
        """Record a pod."""
        uid, node = view.uid, view.node
        known = self.views.get(uid)
        if known:
            self._leave(known)
        self.views[uid] = view
        self._named[view.namespace, view.name] = uid
        if view.unschedulable_since and not (node or view.deleting):
            self.unschedulable[uid] = None
        if node:
            self._loads.pop(node, None)
            on_node = self._on.get(node)
            if on_node is None:
                on_node = self._on[node] = {}
            on_node[uid] = view

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        known = self.views.pop(uid, None)
        if known:
            self._leave(known)
        self.gone.setdefault(uid, known is not None and _over(known))
        if len(self.gone) > REMEMBERED:
            # The oldest: a late event of a pod follows its deletion by moments.
            del self.gone[next(iter(self.gone))]

    def lose_node(self, node: str) -> None:
        """Remove a node; its pods stay until they are deleted."""
        self._loads.pop(node, None)

    def restore(self, views: Iterable[PodView], gone: Mapping[str, bool]) -> None:
        """Restore a snapshot."""
        for view in views:
            self.put(view)
        self.gone.update(gone)

    def ended(self, uid: str) -> bool:
        """Return whether a pod is known to have finished."""
        known = self.views.get(uid)
        return self.gone.get(uid, False) if known is None else _over(known)

    def on(self, node: str) -> list[PodView]:
        """Return the pods observed on a node."""
        return list(self._on.get(node, {}).values())

    def load(self, node: str, promised: Iterable[str]) -> Load:
        """Return what the pods of a node use apart from devices, including pods being bound to it."""
        if node not in self._loads:
            load = Load()
            for pod in self._on.get(node, {}).values():
                load = load.plus(demand_of(pod)[0]) if holds_devices(pod) else load
            self._loads[node] = load
        load = self._loads[node]
        for uid in promised:
            view = self.views.get(uid)
            if view is not None and not view.node:
                load = load.plus(demand_of(view)[0])
        return load

    def _leave(self, pod: PodView) -> None:
        if self._named.get((pod.namespace, pod.name)) == pod.uid:
            del self._named[pod.namespace, pod.name]
        self.unschedulable.pop(pod.uid, None)
        self._loads.pop(pod.node, None)
        on_node = self._on.get(pod.node, {})
        on_node.pop(pod.uid, None)
        if not on_node:
            self._on.pop(pod.node, None)


def usage_of_entry(inventory: NodeInventory, entry: Entry) -> Usage:
    """Return the usage of one pod alone."""
    if inventory.by_claims:
        claimed = reported_for(inventory, entry)
        wanted = entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)
        use = Use(whole=True, domains=frozenset({entry.domain}))
        return Usage(dict.fromkeys(claimed, use), max(0, wanted - len(claimed)))
    if (entry.purpose or entry.pod not in inventory.allocations) and entry.unrecorded_ask is None:
        known = {device.id for device in inventory.devices}
        if known.issuperset(entry.grant.offer.devices):
            return Usage(_used(entry))  # as recorded: the usual case, in a fraction of the time
    by_entry = replace(inventory, mode="any")  # how the node allocates its devices does not concern one pod
    return usage_of(by_entry, [entry], inventory.allocations)


def allocated_parts(inventory: NodeInventory, entry: Entry) -> tuple[Part, ...]:
    """Return the devices by container; without containers if the record names other devices."""
    recorded = tuple(recorded_parts(inventory, entry))
    used = usage_of_entry(inventory, entry).used
    known = {device.id for device in inventory.devices}
    if {device for part in recorded for device in part.devices if device in known} == set(used):
        return recorded
    return tuple(Part("", (device,), use.share, use.core) for device, use in used.items())


def mismatch(ask: Ask, grant: Grant) -> str:
    """Return how a record differs from what the pod requests; empty if it does not.

    Anyone who may update a pod can change its record: one of less would make devices in use look free, and one of more
    would block devices that the pod can't use. Kubelet allocates what is requested.
    """
    parts = grant.offer.parts
    if len(parts) == 1 and len(parts[0].devices) == ask.devices and is_whole(parts[0]):
        return ""  # nearly always, and a start compares many thousands
    devices = grant.offer.devices
    if ask.devices:
        whole = len({device for part in parts if is_whole(part) for device in part.devices})
        if whole == ask.devices == len(devices):
            return ""
        return f"the record has {_whole_text(whole, len(devices))}, but the pod requests {ask.devices}"
    share = sum(part.share * len(part.devices) for part in parts)
    if any(map(is_whole, parts)):
        return f"the record has {_whole_text(len(devices), len(devices))}, but the pod requests a part of one"
    if (
        ask.in_bytes or share == ask.share
    ):  # bytes are recorded in percent of a device, whose size the pod does not have
        return ""
    return f"the record has shares of {share} in total, but the pod requests {ask.share}"


def unrecorded_grant(view: PodView, request: PodRequest | None) -> Grant:
    """Return the grant of a bound pod without a record, whose devices are unknown."""
    mode = request.ask.mode if request and request.ask else "whole"
    return Grant(view.uid, request.policy if request else "", Offer(view.node, ()), mode=mode)


def elsewhere(uid: str, seen: str, promised: str) -> Drift:
    """Return the drift of a pod that is bound to another node than the assumed one."""
    return Drift("elsewhere", seen, (uid,), (), (promised,))


def _before(view: PodView, other: PodView) -> bool:
    """Return whether one of two pods of one name is older; by default the later event is newer."""
    if view.version and other.version:
        return view.version < other.version
    return view.created < other.created


def _over(pod: PodView) -> bool:
    """Return whether the pod finished; one not known as bound may run, as the agent may be ahead of the watch."""
    return bool(pod.node) and not holds_devices(pod)


def _used(entry: Entry) -> dict[str, Use]:
    used: dict[str, Use] = {}
    for part in entry.grant.offer.parts:
        for device in part.devices:
            use = used.get(device, FREE)
            whole = use.whole or is_whole(part)
            used[device] = Use(use.share + part.share, use.core + part.core, whole, frozenset({entry.domain}))
    return used


def _whole_text(whole: int, devices: int) -> str:
    return f"{whole} complete device{'' if whole == 1 else 's'}" if whole == devices else f"parts of {devices} devices"
