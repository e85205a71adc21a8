"""Devices of one pod on a node, as the ledger counts them: what the agent reports, else the record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.engine.drift import Drift
from linkwise.engine.ledger import is_whole
from linkwise.engine.usage import Usage, recorded_parts, usage_of
from linkwise.model.node import FREE, Use
from linkwise.model.verdict import Grant, Offer, Part

if TYPE_CHECKING:
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.views import PodView

__all__ = ["allocated_parts", "elsewhere", "mismatch", "unrecorded_grant", "usage_of_entry"]


def usage_of_entry(inventory: NodeInventory, entry: Entry) -> Usage:
    """Return the usage of one pod alone."""
    if inventory.by_claims:
        claimed = inventory.allocations.get(entry.pod, ())
        wanted = entry.unrecorded_ask.devices if entry.unrecorded_ask else len(entry.grant.offer.devices)
        use = Use(whole=True, domains=frozenset({entry.domain}))
        return Usage(dict.fromkeys(claimed, use), max(0, wanted - len(claimed)))
    if entry.pod not in inventory.allocations and entry.unrecorded_ask is None:
        known = {device.id for device in inventory.devices}
        if known.issuperset(entry.grant.offer.devices):
            return Usage(_used(entry))  # as recorded: the usual case, in a fraction of the time
    by_entry = replace(inventory, mode="any")  # how the node hands out its devices is no matter of one pod
    return usage_of(by_entry, [entry], inventory.allocations)


def _used(entry: Entry) -> dict[str, Use]:
    used: dict[str, Use] = {}
    for part in entry.grant.offer.parts:
        for device in part.devices:
            use = used.get(device, FREE)
            whole = use.whole or is_whole(part)
            used[device] = Use(use.share + part.share, use.core + part.core, whole, frozenset({entry.domain}))
    return used


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


def _whole_text(whole: int, devices: int) -> str:
    return f"{whole} complete device{'' if whole == 1 else 's'}" if whole == devices else f"parts of {devices} devices"


def unrecorded_grant(view: PodView, request: PodRequest | None) -> Grant:
    """Return the grant of a bound pod without a record, whose devices are unknown."""
    mode = request.ask.mode if request and request.ask else "whole"
    return Grant(view.uid, request.policy if request else "", Offer(view.node, ()), mode=mode)


def elsewhere(uid: str, seen: str, promised: str) -> Drift:
    """Return the drift of a pod that is bound to another node than the assumed one."""
    return Drift("elsewhere", seen, (uid,), (), (promised,))
