"""What is taken of a node: its entries in the ledger, put beside what its agent saw in use.

Everything follows from the entries, sorted by the age of their pods, and the stock: nothing depends on the order in
which they were seen. Order of truth: what the agent saw, then what is recorded on the pod, then counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.engine.drift import Drift
from linkwise.engine.ledger import is_whole
from linkwise.model.node import FREE, Node, Use
from linkwise.model.verdict import Part
from linkwise.policies.memory_share import shares_on
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.engine.drift import DriftKind
    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Mode
    from linkwise.model.verdict import Offer

__all__ = ["Usage", "node_after", "node_of", "resolved", "usage_of"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What is taken, how the node hands out its devices, and what disagrees."""

    used: Mapping[str, Use] = field(default_factory=dict)
    unattributed: int = 0
    unattributed_share: int = 0
    unattributed_core: int = 0
    mode: Mode = "any"
    drift: tuple[Drift, ...] = ()


_usage: Final = fast_constructor(Usage)


def usage_of(stock: NodeInventory, entries: Sequence[Entry], ended: Collection[str] = ()) -> Usage:
    """What the entries, sorted by age, take of the stock; `ended` names pods known to use nothing any more."""
    count = _Count(stock)
    for entry in entries:
        count.entry(entry)
    count.strangers({entry.pod for entry in entries}, ended)
    return count.result(entries)


def resolved(stock: NodeInventory, devices: Iterable[str]) -> frozenset[str]:
    """Devices by their ids, where records may hold only their index."""
    count = _Count(stock)
    return frozenset(map(count.id, devices))


def node_of(stock: NodeInventory, usage: Usage) -> Node:
    """What policies see of the node."""
    return Node(
        stock.name,
        stock.devices,
        usage.used,
        stock.topology,
        stock.profile,
        usage.mode,
        usage.unattributed + stock.sick,
        usage.unattributed_share,
        usage.unattributed_core,
        stock.unit,
    )


def node_after(node: Node, offer: Offer, namespace: str, mode: Mode) -> Node:
    """The node with an offer taken as well."""
    used = dict(node.used)
    for part in offer.parts:
        for device in part.devices:
            used[device] = _more(used.get(device, FREE), part, namespace)
    return replace(node, used=used, mode=mode if node.mode == "any" else node.mode)


def _more(use: Use, part: Part, namespace: str | None) -> Use:
    if use is FREE and namespace is not None:
        return _first_use(part.share, part.core, namespace)
    names = use.namespaces | {namespace} if namespace is not None else use.namespaces
    return Use(use.share + part.share, use.core + part.core, use.whole or is_whole(part), names)


@lru_cache(maxsize=4096)
def _first_use(share: int, core: int, namespace: str) -> Use:
    """Of a device that was free; most uses are, and many are equal."""
    return Use(share, core, not (share or core), frozenset({namespace}))


class _Count:
    """Adds claims up."""

    def __init__(self, stock: NodeInventory) -> None:
        self._stock = stock
        self._ids = {device.id: device for device in stock.devices}
        self._used: dict[str, Use] = {}
        self._claims: dict[str, dict[str, bool]] = {}
        """by device the pods that claim it, and whether each was seen there"""
        self._drift: list[Drift] = []
        self._devices = self._share = self._core = 0

    def entry(self, entry: Entry) -> None:
        """Count what one pod holds."""
        seen = tuple(map(self.id, self._stock.allocations.get(entry.pod, ())))
        # What the agent saw counts, whatever is written on the pod.
        parts = self._as_seen(entry, seen) if seen else self._recorded(entry)
        strange = [device for part in parts for device in part.devices if device not in self._ids]
        if strange:
            self._report("strange device", (entry.pod,), strange)
        for part in parts:
            self._take(part, entry.pod, entry.namespace, seen)
        if entry.untold is not None:
            self._untold(entry.untold, len(seen))

    def strangers(self, known: Collection[str], ended: Collection[str]) -> None:
        """Count devices that the agent saw in use by pods that are not known: a pod deleted by force may still run."""
        for pod, seen in sorted(self._stock.allocations.items()):
            devices = [device for device in map(self.id, seen) if device in self._ids]
            if pod not in known and pod not in ended and devices:
                self._report("stranger", (pod,), devices)
                self._take(Part("", tuple(devices)), pod, None, devices)

    def result(self, entries: Sequence[Entry]) -> Usage:
        """All of it."""
        for device, pods in self._claims.items():
            use = self._used[device]
            if use.whole and len(pods) > 1:
                self._report("twice", pods, [device])
                # No device is handed out twice: of those not seen on it at most one is there, the others are elsewhere.
                self._devices += list(pods.values()).count(False) - (True not in pods.values())
            elif use.share > self._ids[device].memory > 0 or use.core > 100:
                self._report("oversold", pods, [device])
        mode = self._mode(entries)  # the last: it may take all that is left
        return _usage(self._used, self._devices, self._share, self._core, mode, tuple(self._drift))

    def _mode(self, entries: Sequence[Entry]) -> Mode:
        """The inventory decides, else the first grant."""
        # rule 004.mode: a node is shared by memory or given by device, never both.
        mode: Mode = self._stock.mode
        decides = self._stock.name
        if mode == "any" and entries:
            mode, decides = entries[0].grant.mode, entries[0].pod
        others = [entry for entry in entries if entry.grant.mode != mode]
        if others:
            self._report("mode", [entry.pod for entry in others], (), [decides])
        if others and self._stock.mode != "any":
            # Switched while devices are held in the old way: nothing more is handed out until these are given back.
            self._devices += len(self._ids)
            return others[0].grant.mode
        return mode

    def id(self, device: str) -> str:
        """The device's id; records of other systems hold only its index."""
        if device in self._ids:
            return device
        return next((known.id for known in self._stock.devices if f"#{known.index}" == device), device)

    def _recorded(self, entry: Entry) -> list[Part]:
        parts = entry.grant.offer.parts
        if all(map(self._ids.__contains__, [device for part in parts for device in part.devices])):
            return list(parts)
        return [replace(part, devices=tuple(map(self.id, part.devices))) for part in parts]

    def _as_seen(self, entry: Entry, seen: tuple[str, ...]) -> list[Part]:
        recorded = self._recorded(entry)
        devices = {device for part in recorded for device in part.devices}
        if devices >= set(seen):
            return recorded  # containers are given theirs one by one: some may be still to come
        if recorded:
            self._report("record", (entry.pod,), sorted(devices), seen)
        ask = entry.untold
        share = sum(part.share for part in recorded) or (self._share_of(ask, seen) if ask else 0)
        core = sum(part.core for part in recorded) or (ask.core if ask and share else 0)
        return [Part("", seen, share, core)]  # where no amount can be told they are held whole

    def _untold(self, ask: Ask, seen: int) -> None:
        """A pod on the node without a record: so much is taken, and nobody knows where."""
        # rule 000.vendor-plugin: whoever hands out devices beside us tells only how many.
        self._devices += max(0, ask.devices - seen)
        if ask.share and not seen:
            share = self._share_of(ask, self._ids)
            self._devices += not share  # how much it is can't be told
            self._share += share
            self._core += ask.core

    def _share_of(self, ask: Ask, devices: Iterable[str]) -> int:
        """What an ask takes of one of the devices, in their own unit; the most that it may be, 0 if it can't be told."""
        known = [self._ids[device] for device in devices if device in self._ids]
        found = [shares_on(ask, device.memory, device.bytes) for device in known]
        return max((sum(shares) for shares in found if shares is not None), default=0)

    def _take(self, part: Part, pod: str, namespace: str | None, seen: Collection[str]) -> None:
        for device in part.devices:
            if device not in self._ids:
                self._lose(part)
                continue
            self._used[device] = _more(self._used.get(device, FREE), part, namespace)
            self._claims.setdefault(device, {})[pod] = device in seen

    def _lose(self, part: Part) -> None:
        """A device that the node does not have under that name: so much is taken of one of the others."""
        self._devices += is_whole(part)
        self._share += part.share
        self._core += part.core

    def _report(
        self, kind: DriftKind, pods: Iterable[str], devices: Iterable[str], believed: Iterable[str] = ()
    ) -> None:
        self._drift.append(Drift(kind, self._stock.name, tuple(pods), tuple(devices), tuple(believed)))
