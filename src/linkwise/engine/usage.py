"""Usage of a node's devices: ledger entries, reconciled with what the node's agent reports, and the drift between them.

Usage is a function of the inventory and of the entries, sorted by the age of their pods, so it does not depend on the
order of events. Order of truth: the agent's report, then the record on the pod, then counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.ledger import is_whole
from linkwise.engine.reasons.phrases import pod_text
from linkwise.model.node import FREE, Node, Use
from linkwise.model.verdict import Key, Offer, Part
from linkwise.policies.memory_share import shares_on
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Mode

__all__ = [
    "Drift",
    "DriftKind",
    "Usage",
    "drift_text",
    "gained_capacity",
    "node_after",
    "node_of",
    "recorded_parts",
    "reported_for",
    "resolved",
    "usage_of",
]

DriftKind = Literal["record", "changed", "strange device", "twice", "oversold", "stranger", "mode", "elsewhere"]
"""what disagrees:

record          the record of a pod and the usage that the node's agent reports
changed         the record of a bound pod and its earlier content
strange device  a record names a device that the node does not have
twice           two pods claim one device
oversold        pods claim more of a device than it has
stranger        the agent reports devices in use by an unknown pod
mode            pods use whole devices and shares of devices on one node
elsewhere       a pod was assumed on one node and is bound to another
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage by device, usage of unknown devices, the node's sharing mode, and disagreements between sources."""

    used: Mapping[str, Use] = field(default_factory=dict)
    unattributed: int = 0
    unattributed_share: int = 0
    unattributed_core: int = 0
    mode: Mode = "any"
    drift: tuple[Drift, ...] = ()


_usage: Final = fast_constructor(Usage)


def usage_of(inventory: NodeInventory, entries: Sequence[Entry], ended: Collection[Key] = ()) -> Usage:
    """Usage by the entries, sorted by age; `ended` are pods known to use nothing any more."""
    counter = _UsageCounter(inventory)
    claims = [entry for entry in entries if entry.state == "CLAIMED"]
    using = [entry for entry in entries if entry.state != "CLAIMED"] if claims else entries
    for entry in using:
        counter.add(entry)
    counter.add_unknown_pods({entry.key for entry in entries}, ended)
    for entry in claims:
        counter.add_claim(entry)
    return counter.result(using or entries)


def resolved(inventory: NodeInventory, devices: Iterable[str]) -> frozenset[str]:
    """Device ids for the devices of a record, which may have only their index."""
    counter = _UsageCounter(inventory)
    return frozenset(map(counter.id, devices))


def reported_for(inventory: NodeInventory, entry: Entry) -> tuple[str, ...]:
    """The devices that the node's agent reports for an entry: a pod does not use yet what is only kept free for it."""
    return () if entry.purpose else inventory.allocations.get(entry.pod, ())


def recorded_parts(inventory: NodeInventory, entry: Entry) -> list[Part]:
    """The parts of an entry's record, with the ids by which the node knows the devices now."""
    return _UsageCounter(inventory).recorded(entry)


def node_of(inventory: NodeInventory, usage: Usage) -> Node:
    """The node as policies see it."""
    return Node(
        inventory.name,
        inventory.devices,
        _with_holds(inventory, usage.used) if inventory.holds else usage.used,
        inventory.topology,
        inventory.profile,
        usage.mode,
        usage.unattributed + inventory.unidentified + inventory.claimed,
        usage.unattributed_share,
        usage.unattributed_core,
        inventory.unit,
        inventory.alignment,
        inventory.facts,
        inventory.steered,
    )


def _with_holds(inventory: NodeInventory, used: Mapping[str, Use]) -> Mapping[str, Use]:
    """The usage with devices on hold: no pod may join those that are on one."""
    ids = {device.id for device in inventory.devices}
    holds = (hold.device for hold in inventory.holds if hold.device in ids)
    return {**used, **{device: replace(used.get(device, FREE), whole=True) for device in holds}}


def node_after(node: Node, offer: Offer, domain: str, mode: Mode) -> Node:
    """The node once an offer is allocated as well."""
    used = dict(node.used)
    for part in offer.parts:
        for device in part.devices:
            used[device] = _add_use(used.get(device, FREE), part, domain)
    return replace(node, used=used, mode=mode if node.mode == "any" else node.mode)


def _add_use(use: Use, part: Part, domain: str | None) -> Use:
    if use is FREE and domain is not None:
        return _first_use(part.share, part.core, domain)
    domains = use.domains | {domain} if domain is not None else use.domains
    return Use(use.share + part.share, use.core + part.core, use.whole or is_whole(part), domains)


@lru_cache(maxsize=4096)
def _first_use(share: int, core: int, domain: str) -> Use:
    """Usage of a device that was free; cached, because most usages are the first and many are equal."""
    return Use(share, core, not (share or core), frozenset({domain}))


class _UsageCounter:
    """Adds up the claims on a node's devices."""

    def __init__(self, inventory: NodeInventory) -> None:
        self._inventory = inventory
        self._ids = {device.id: device for device in inventory.devices}
        self._by_claims = inventory.claims is not None
        self._used: dict[str, Use] = {}
        self._claims: dict[str, dict[Key, bool]] = {}
        """by device the entries that claim it, and whether the agent reports each of them there"""
        self._drift: list[Drift] = []
        self._devices = self._share = self._core = 0

    def add(self, entry: Entry) -> None:
        """Count the devices of one pod."""
        reported = tuple(map(self.id, reported_for(self._inventory, entry)))
        if self._by_claims:
            self._add_by_claim(entry, reported)
            return
        # The agent's report goes before the record on the pod.
        parts = self._as_reported(entry, reported) if reported else self.recorded(entry)
        unknown = [device for part in parts for device in part.devices if device not in self._ids]
        if unknown:
            self._report("strange device", (entry.key,), unknown)
        for part in parts:
            self._take(part, entry.key, entry.domain, reported)
        if entry.unrecorded_ask is not None:
            self._take_unattributed(entry.unrecorded_ask, len(reported))

    def _add_by_claim(self, entry: Entry, claimed: tuple[str, ...]) -> None:
        """Count a pod whose devices a claim allocates: those of its claim, and any others as long as some are missing.

        Devices in the ledger stand for their number only. They count by name where they are free, so that no other
        reservation names them too.
        """
        self._take(Part("", claimed), entry.key, entry.domain, claimed)
        ask, named = entry.unrecorded_ask, entry.grant.offer.devices
        missing = max(0, (ask.devices if ask else len(named)) - len(claimed))
        taken = {device for devices in self._inventory.allocations.values() for device in devices}
        free = [device for device in named if device in self._ids and device not in taken | self._used.keys()][:missing]
        self._take(Part("", tuple(free)), entry.key, entry.domain, ())
        self._devices += missing - len(free)

    def add_unknown_pods(self, known: Collection[Key], ended: Collection[Key]) -> None:
        """Count devices that the agent reports in use by unknown pods: a pod deleted by force may still run."""
        for pod, reported in sorted(self._inventory.allocations.items()):
            devices = [device for device in map(self.id, reported) if device in self._ids]
            if pod not in known and pod not in ended and devices:
                if not self._by_claims:
                    self._report("stranger", (pod,), devices)
                self._take(Part("", tuple(devices)), pod, None, devices)

    def add_claim(self, entry: Entry) -> None:
        """Count what is claimed for the time when leaving pods are gone: what these still use is not counted twice."""
        # rule 003.between: to all others the devices are in use, also in the moment when the leaving pod is gone.
        for part in self.recorded(entry):
            for device in part.devices:
                if device in self._ids and (rest := self._unused(part, device)):
                    self._used[device] = _add_use(self._used.get(device, FREE), rest, entry.domain)

    def _unused(self, part: Part, device: str) -> Part | None:
        """What a claimed part adds to the use of a device; None if it adds nothing."""
        use = self._used.get(device, FREE)
        if use is FREE:
            return part
        if use.whole or is_whole(part):
            return None
        share = min(part.share, max(0, self._ids[device].memory - use.share))
        core = min(part.core, max(0, 100 - use.core))
        return replace(part, share=share, core=core) if share or core else None

    def result(self, entries: Sequence[Entry]) -> Usage:
        """The usage of all claims added, with double claims and oversold devices reported as drift."""
        for device, pods in self._claims.items() if not self._by_claims else ():
            use = self._used[device]
            if use.whole and len(pods) > 1:
                self._report("twice", pods, [device])
                # Of the pods not reported on the device at most one can really use it; the others use devices unknown.
                self._devices += list(pods.values()).count(False) - (True not in pods.values())
            elif use.share > self._ids[device].memory > 0 or use.core > 100:
                self._report("oversold", pods, [device])
        mode = self._mode(entries)  # must be last: it may block all devices that are left
        return _usage(self._used, self._devices, self._share, self._core, mode, tuple(self._drift))

    def _mode(self, entries: Sequence[Entry]) -> Mode:
        """The sharing mode: the inventory's, otherwise that of the first grant."""
        # rule 004.mode: a node allocates memory or whole devices, never both.
        mode: Mode = self._inventory.mode
        decides = self._inventory.name
        if mode == "any" and entries:
            mode, decides = entries[0].grant.mode, entries[0].pod
        others = [entry for entry in entries if entry.grant.mode != mode]
        if others:
            self._report("mode", [entry.key for entry in others], (), [decides])
        if others and self._inventory.mode != "any":
            # The mode was switched while devices are in use in the old one: allocate nothing until these are free.
            self._devices += len(self._ids)
            return others[0].grant.mode
        return mode

    def id(self, device: str, index: int | None = None) -> str:
        """The device's id; records of other systems have only its index."""
        if device in self._ids:
            return device
        # An id that the node does not have is of other hardware, unless the node has no ids now: then the index decides.
        if index is not None and f"#{index}" in self._ids:
            return f"#{index}"
        return next((known.id for known in self._inventory.devices if f"#{known.index}" == device), device)

    def recorded(self, entry: Entry) -> list[Part]:
        """The parts of the record, with the ids of the node."""
        parts = entry.grant.offer.parts
        if all(map(self._ids.__contains__, [device for part in parts for device in part.devices])):
            return list(parts)
        return [
            replace(part, devices=tuple(map(self.id, part.devices, part.indices or repeat(None)))) for part in parts
        ]

    def _as_reported(self, entry: Entry, reported: tuple[str, ...]) -> list[Part]:
        recorded = self.recorded(entry)
        devices = {device for part in recorded for device in part.devices}
        if devices >= set(reported):
            return recorded  # containers start one by one: the report may still grow
        if recorded:
            self._report("record", (entry.key,), sorted(devices), reported)
        ask = entry.unrecorded_ask
        share = sum(part.share for part in recorded) or (self._share_of(ask, reported) if ask else 0)
        core = sum(part.core for part in recorded) or (ask.core if ask and share else 0)
        return [Part("", reported, share, core)]  # without a known amount the devices count as used completely

    def _take_unattributed(self, ask: Ask, reported: int) -> None:
        """Count the ask of a pod without a record: the amount is known, the devices are not."""
        # rule 000.vendor-plugin: a device plugin of another vendor reports only how many devices are in use.
        self._devices += max(0, ask.devices - reported)
        if ask.share and not reported:
            share = self._share_of(ask, self._ids)
            self._devices += not share  # an unknown amount blocks a complete device
            self._share += share
            self._core += ask.core

    def _share_of(self, ask: Ask, devices: Iterable[str]) -> int:
        """The most that an ask may use of one of the devices, in their own unit; 0 if unknown."""
        known = [self._ids[device] for device in devices if device in self._ids]
        shares_by_device = [shares_on(ask, device.memory, device.bytes) for device in known]
        return max((sum(shares) for shares in shares_by_device if shares is not None), default=0)

    def _take(self, part: Part, key: Key, domain: str | None, reported: Collection[str]) -> None:
        for device in part.devices:
            if device not in self._ids:
                self._take_unknown_device(part)
                continue
            self._used[device] = _add_use(self._used.get(device, FREE), part, domain)
            self._claims.setdefault(device, {})[key] = device in reported

    def _take_unknown_device(self, part: Part) -> None:
        """Count a device that the node does not have by that name as usage of one of the others."""
        self._devices += is_whole(part)
        self._share += part.share
        self._core += part.core

    def _report(
        self, kind: DriftKind, pods: Iterable[Key], devices: Iterable[str], believed: Iterable[str] = ()
    ) -> None:
        self._drift.append(Drift(kind, self._inventory.name, tuple(pods), tuple(devices), tuple(believed)))


def gained_capacity(before: Node | None, after: Node) -> bool:
    """Whether a node can serve something now that it could not serve before."""
    if before is None:
        return bool(after.devices)
    if after.unattributed < before.unattributed or after.mode != before.mode:
        return True
    if _only_more_is_used(before, after):
        return False
    rooms, healthy = before.room(), after.healthy()
    if any(rooms.get(device, -1) < room for device, room in after.room().items()):
        return True
    if any(not before.use(device).domains <= after.use(device).domains for device in healthy):
        return True  # a sharing domain left the device: others may share it now
    free = {(device.id, device.reachable) for device in after.free()}
    return not free <= {(device.id, reachable) for device in before.free() for reachable in (device.reachable, False)}


def _only_more_is_used(before: Node, after: Node) -> bool:
    """Whether `after` differs by additional usage only, as after every bind: the cheap check."""
    if before.devices is not after.devices or after.unattributed_share < before.unattributed_share:
        return False
    return all(after.used.get(device) == use for device, use in before.used.items())


@dataclass(frozen=True, slots=True)
class Drift:
    """One disagreement; `believed` is the side that counts."""

    kind: DriftKind
    node: str
    pods: tuple[Key, ...] = ()
    """UIDs, or what is kept free for pods; the oldest pod first"""
    devices: tuple[str, ...] = ()
    believed: tuple[str, ...] = ()


def drift_text(drift: Drift, name: Callable[[Key], str] = str) -> str:
    """The disagreement as a sentence; `name` maps a UID, or what is kept free for a pod, to the name of the pod."""
    return _SENTENCES[drift.kind](drift, tuple(map(name, drift.pods)))


_SENTENCES: Final[Mapping[DriftKind, Callable[[Drift, tuple[str, ...]], str]]] = {
    "record": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} has {_list(d.devices)}, but the pod uses {_list(d.believed)}; "
        "actual usage counts"
    ),
    "changed": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} was changed to {_list(d.devices)}; {_list(d.believed)} still counts"
    ),
    "strange device": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} has {_list(d.devices)}, which the node does not have; "
        "the same number of other devices counts as used"
    ),
    "twice": lambda d, pods: f"node {d.node}: device {_list(d.devices)} is claimed by {_all(pods)}",
    "oversold": lambda d, pods: f"node {d.node}: {_all(pods)} claim more of device {_list(d.devices)} than it has",
    "stranger": lambda d, pods: (
        f"node {d.node}: device {_list(d.devices)} is in use by unknown pod {_all(pods)}; it counts as used"
    ),
    "mode": lambda d, pods: (
        f"node {d.node}: {_all(pods)} use devices in another sharing mode than {_list(d.believed)}, which sets the node's mode"
    ),
    "elsewhere": lambda d, pods: f"{pod_text(*pods)} was assumed on node {_list(d.believed)}, but is bound to {d.node}",
}


def _all(pods: tuple[str, ...]) -> str:
    return " and ".join(pods)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
