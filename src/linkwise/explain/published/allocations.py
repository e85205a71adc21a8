"""Allocations by namespace: who has how many devices, who waits for more, and how much of it is used.

Devices and shares come from the ledger, as the scheduler counts them; what pods do with them is what agents published last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.scheduling.queries import serving_nodes
from linkwise.broker.state import pod_name
from linkwise.explain.published.usage import pod_usage_rows
from linkwise.explain.text.phrases import names_text
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.explain.published.usage import PodUsageRow
    from linkwise.model.ask import Ask
    from linkwise.model.views import PodView

__all__ = ["AllocationList", "AllocationRow", "allocation_rows", "totals"]

_UNKNOWN_RESOURCE: Final = "unknown"
"""of a pod whose request can't be read any more, and that has devices all the same"""


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """Pods of one namespace with one resource, on devices of one model."""

    namespace: str
    """empty in a total"""
    resource: str
    model: str
    """empty for pods that have no devices yet, and if it is not known"""
    unit: str
    """of shares: GiB, MiB, %; empty for whole devices"""
    pods: int = 0
    """that have devices"""
    devices: int = 0
    """whole devices that they have"""
    share: int = 0
    """parts of devices that they have, in the unit"""
    pending_pods: int = 0
    """that wait for devices"""
    pending_devices: int = 0
    pending_share: int = 0
    never_pods: int = 0
    """of the pending ones, pods that no node could serve even if it were empty"""
    used: int | None = None  # bytes of device memory in use, None if not known of all of them
    total: int | None = None  # bytes of device memory allocated
    idle: int | None = None
    """pods with devices that do nothing: none of them is utilized, by what was published last; None if not known"""


@dataclass(frozen=True, slots=True)
class AllocationList:
    """Rows, and sentences about what is missing."""

    rows: tuple[AllocationRow, ...] = ()
    notes: tuple[str, ...] = ()
    """on usage that is not known"""
    never: tuple[str, ...] = ()
    """on pending pods that no node can serve, as it is now"""


def allocation_rows(
    broker: Broker, now: float, namespace: str | None, selects: Callable[[PodView], bool] = lambda _: True
) -> AllocationList:
    """Return a row per namespace, resource and model; of one namespace, or of all if it is None."""
    # rule 002.usage
    state = broker.state_at(now)
    usage = pod_usage_rows(broker, now, namespace, selects=selects)
    known = {row.uid: row for row in usage.pods}
    rows: dict[tuple[str, str, str, str], AllocationRow] = {}
    demand, never = _Demand(state), list[str]()
    for pod in state.pausing(list(state.cluster.pods.values())):
        if pod.phase in FINISHED or namespace not in {None, pod.namespace} or not selects(pod):
            continue
        entry = state.cluster.ledger.get(pod.uid)
        has = entry is not None and not entry.tentative
        found = _allocated(state, pod, entry, known.get(pod.uid)) if entry and has else _pending(state, pod)
        if found and found.pending_pods and not demand.fits_ever(pod):
            never.append(pod_name(pod))
            found = replace(found, never_pods=1)
        if found:
            key = (found.namespace, found.resource, found.model, found.unit)
            rows[key] = _sum(rows[key], found) if key in rows else found
    return AllocationList(tuple(rows[key] for key in sorted(rows)), usage.notes, _never(never))


@dataclass(slots=True)
class _Demand:
    """What the largest node can serve, looked up once per kind of request."""

    state: State
    known: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def fits_ever(self, pod: PodView) -> bool:
        """Whether a node of the cluster could serve the pod if it were empty, by number of devices and by memory."""
        query = self.state.query(pod)
        if query is None:
            return True
        key = query.table_key()
        if key not in self.known:
            self.known[key] = query.policy.admit(query.ask) is None and self._has_node(query)
        return self.known[key]

    def _has_node(self, query: Query) -> bool:
        nodes = self.state.cluster.index.nodes
        serving = (nodes[name] for name in serving_nodes(self.state, query))
        if query.ask.devices:
            return any(len(node.devices) >= query.ask.devices for node in serving)
        in_bytes = query.ask.in_bytes
        return any(
            (device.bytes if in_bytes else device.memory) >= query.ask.share
            for node in serving
            for device in node.devices
        )


def _never(names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    pods = "pod" if len(names) == 1 else "pods"
    return (f"PENDING includes {pods} {names_text(sorted(names))}: no node is large enough, even if it were empty",)


def totals(rows: Iterable[AllocationRow]) -> tuple[AllocationRow, ...]:
    """Return the sum of each resource over namespaces and models."""
    sums: dict[tuple[str, str], AllocationRow] = {}
    for row in rows:
        key, part = (row.resource, row.unit), replace(row, namespace="", model="")
        sums[key] = _sum(sums[key], part) if key in sums else part
    return tuple(sums[key] for key in sorted(sums))


def _allocated(state: State, pod: PodView, entry: Entry, usage: PodUsageRow | None) -> AllocationRow:
    ask = state.request(pod).ask
    inventory = state.cluster.inventories.get(entry.node)
    devices, share = _held(entry)
    ids = set(entry.grant.offer.devices)
    models = {
        device.model
        for device in (inventory.devices if inventory else ())
        if device.model and (not ids or device.id in ids or f"#{device.index}" in ids)
    }
    unit = inventory.unit if inventory and share else ""
    resource = ask.resource if ask else _UNKNOWN_RESOURCE
    row = AllocationRow(pod.namespace, resource, ", ".join(sorted(models)), unit, 1, devices, share)
    if usage is None or not usage.by_device:
        return row
    idle = None if usage.utilization is None else int(usage.utilization == 0)
    return replace(row, used=usage.used, total=usage.total, idle=idle)


def _held(entry: Entry) -> tuple[int, int]:
    """Return the whole devices and the shares of an entry."""
    ask = entry.unrecorded_ask
    if ask is not None:
        return ask.devices, ask.share
    parts = entry.grant.offer.parts
    share = sum(part.share * len(part.devices) for part in parts)
    whole = {device for part in parts if not (part.share or part.core) for device in part.devices}
    return len(whole), share


def _pending(state: State, pod: PodView) -> AllocationRow | None:
    ask = state.request(pod).ask
    if ask is None or pod.deleting:
        return None
    share = 0 if ask.devices else ask.share
    unit = _unit(state, ask) if share else ""
    return AllocationRow(
        pod.namespace, ask.resource, "", unit, pending_pods=1, pending_devices=ask.devices, pending_share=share
    )


def _unit(state: State, ask: Ask) -> str:
    """Return the unit of shares of the nodes that could serve the request; empty if they differ."""
    if ask.in_bytes:
        return "bytes"
    units = {one.unit for one in state.cluster.inventories.values() if one.mode == ask.mode}
    return units.pop() if len(units) == 1 else ""


def _sum(one: AllocationRow, other: AllocationRow) -> AllocationRow:
    """Return the sum of two rows of one key; usage is known only if it is known of all pods that have devices."""

    def known(a: int | None, b: int | None) -> int | None:
        if one.pods and other.pods:
            return None if a is None or b is None else a + b
        return a if one.pods else b

    return replace(
        one,
        pods=one.pods + other.pods,
        devices=one.devices + other.devices,
        share=one.share + other.share,
        pending_pods=one.pending_pods + other.pending_pods,
        pending_devices=one.pending_devices + other.pending_devices,
        pending_share=one.pending_share + other.pending_share,
        never_pods=one.never_pods + other.never_pods,
        used=known(one.used, other.used),
        total=known(one.total, other.total),
        idle=known(one.idle, other.idle),
    )
