"""Allocations by namespace, usage by node and pod: who has how many devices, and what is used of them.

Devices and shares come from the ledger, as the scheduler counts them; what pods do with them is what agents published last.
What is missing is said: nodes whose agent has published nothing, or nothing for a while, and pods of which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.scheduling.queries import serving_nodes
from linkwise.broker.state import pod_name
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.linkwise.usage import usage_in
from linkwise.explain.text.phrases import names_text
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.model.ask import Ask
    from linkwise.model.usage import NodeUsage, PodUsage
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "STALE",
    "AllocationList",
    "AllocationRow",
    "DeviceRow",
    "NodeUsageRow",
    "PodUsageRow",
    "UsageList",
    "allocation_rows",
    "node_usage_rows",
    "pod_usage_rows",
    "totals",
]

_UNKNOWN_RESOURCE: Final = "unknown"
"""of a pod whose request can't be read any more, and that has devices all the same"""
STALE: Final = 660.0  # seconds: two refreshes of the agent and a minute
_NOT_PUBLISHED: Final = (
    "no usage is published: check that the agent runs there, that its driver reports usage, and that"
    " agent.usage.publish_interval is not 0"
)
_OLD: Final = "the published usage is older than 10 minutes: check that the agent runs there"


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


def totals(rows: Iterable[AllocationRow]) -> tuple[AllocationRow, ...]:
    """Return the sum of each resource over namespaces and models."""
    sums: dict[tuple[str, str], AllocationRow] = {}
    for row in rows:
        key, part = (row.resource, row.unit), replace(row, namespace="", model="")
        sums[key] = _sum(sums[key], part) if key in sums else part
    return tuple(sums[key] for key in sorted(sums))


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device of a node or of a pod; None for what is not known."""

    device: str
    used: int | None  # bytes
    total: int | None  # bytes: of the device, or the share of the pod
    utilization: int | None  # percent


@dataclass(frozen=True, slots=True)
class NodeUsageRow:
    """One node; None for what is not known of any of its devices."""

    name: str
    devices: int
    idle: int | None
    """devices that no pod uses, as far as the usage tells"""
    used: int | None  # bytes
    total: int | None  # bytes
    utilization: int | None  # percent, averaged over the devices
    age: float | None  # seconds
    by_device: tuple[DeviceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PodUsageRow:
    """One pod."""

    namespace: str
    name: str
    uid: str
    node: str
    devices: int
    used: int | None  # bytes, on all of its devices
    total: int | None  # bytes that were allocated: shares, and the memory of whole devices
    utilization: int | None  # percent, averaged over its devices
    age: float | None  # seconds
    by_device: tuple[DeviceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class UsageList:
    """Rows, and sentences about what is missing."""

    nodes: tuple[NodeUsageRow, ...] = ()
    pods: tuple[PodUsageRow, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Published:
    """The published usage of nodes, each read once."""

    state: State
    now: float
    missing: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _known: dict[str, tuple[NodeUsage | None, float | None]] = field(default_factory=dict)

    def of(self, node: str) -> tuple[NodeUsage | None, float | None]:
        """The usage of a node and its age."""
        if node not in self._known:
            document = self.state.cluster.objects.of(node).get(KIND)
            usage, time, problems = usage_in(document, node)
            age = _age(time, self.now)
            self.problems += map(str, problems)
            if usage is None:
                self.missing.append(node)
            elif age is not None and age > STALE:
                self.old.append(node)
            self._known[node] = usage, age
        return self._known[node]

    def notes(self) -> tuple[str, ...]:
        """Sentences about what is missing."""
        named = ((self.missing, _NOT_PUBLISHED), (self.old, _OLD))
        return (*(f"{_nodes(names)}: {sentence}" for names, sentence in named if names), *self.problems)


def node_usage_rows(
    broker: Broker, now: float, name: str = "", selects: Callable[[NodeView], bool] = lambda _: True
) -> UsageList:
    """Return a row per node with devices, or that of one node."""
    # rule 002.usage
    published, rows = _Published(broker.state_at(now), now), []
    names = [name] if name else sorted(one for one, stock in broker.inventories.items() if stock.devices)
    for node in names:
        if node in broker.nodes and selects(broker.nodes[node]):
            usage, age = published.of(node)
            rows.append(_node_row(node, len(broker.inventories[node].devices), usage, age))
    return UsageList(nodes=tuple(rows), notes=published.notes())


def pod_usage_rows(
    broker: Broker,
    now: float,
    namespace: str | None,
    name: str = "",
    selects: Callable[[PodView], bool] = lambda _: True,
) -> UsageList:
    """Return a row per bound pod with devices of a namespace (None for all), or that of one pod."""
    # rule 002.usage
    published, rows = _Published(broker.state_at(now), now), []
    for pod in _bound(broker.pods.values(), namespace, name):
        asks, stock = asks_for_devices(pod), broker.inventories.get(pod.node)
        if not selects(pod) or not (
            asks or (stock and stock.devices)
        ):  # nothing is published where there are no devices
            continue
        usage, age = published.of(pod.node)
        own = [one for one in usage.pods if one.uid == pod.uid] if usage else []
        if own or asks:
            rows.append(_pod_row(pod, own, usage, age))
    unknown = [f"{row.namespace}/{row.name}" for row in rows if not row.by_device and row.node not in published.missing]
    notes = (f"{_pods(unknown)}: no usage is published yet",) if unknown else ()
    return UsageList(pods=tuple(rows), notes=(*published.notes(), *notes))


def _allocated(state: State, pod: PodView, entry: Entry, usage: PodUsageRow | None) -> AllocationRow:
    ask = state.request(pod).ask
    inventory = state.cluster.inventories.get(entry.node)
    devices, share = _amounts(entry)
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


def _amounts(entry: Entry) -> tuple[int, int]:
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


def _never(names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    pods = "pod" if len(names) == 1 else "pods"
    return (f"PENDING includes {pods} {names_text(sorted(names))}: no node is large enough, even if it were empty",)


def _age(time: str, now: float) -> float | None:
    """Seconds since a time; None if it is not one, and 0 for one in the future: clocks differ."""
    try:
        return max(0.0, now - datetime.fromisoformat(time).timestamp()) if time else None
    except (ValueError, OverflowError):
        return None


def _nodes(names: Sequence[str]) -> str:
    return f"{'node' if len(names) == 1 else 'nodes'} {names_text(sorted(names))}"


def _node_row(name: str, devices: int, usage: NodeUsage | None, age: float | None) -> NodeUsageRow:
    by_device = tuple(DeviceRow(one.id, one.used, one.total, one.utilization) for one in usage.devices) if usage else ()
    busy = {one.device for one in usage.pods} if usage else set()
    idle = None if usage is None else sum(one.device not in busy for one in by_device)
    return NodeUsageRow(name, devices, idle, *_sums(by_device), age, by_device)


def _sums(by_device: Sequence[DeviceRow]) -> tuple[int | None, int | None, int | None]:
    """Used memory, memory and utilization of several devices; None if it is not known of one of them."""
    used, total = [one.used for one in by_device], [one.total for one in by_device]
    busy = [one.utilization for one in by_device if one.utilization is not None]
    return (
        _sum_of_devices(used),
        _sum_of_devices(total),
        round(sum(busy) / len(busy)) if busy and len(busy) == len(by_device) else None,
    )


def _sum_of_devices(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _bound(pods: Iterable[PodView], namespace: str | None, name: str) -> list[PodView]:
    bound = [
        pod
        for pod in pods
        if pod.node and pod.phase not in FINISHED and namespace in {None, pod.namespace} and name in {"", pod.name}
    ]
    return sorted(bound, key=lambda pod: (pod.namespace, pod.name))


def _pod_row(pod: PodView, own: Sequence[PodUsage], usage: NodeUsage | None, age: float | None) -> PodUsageRow:
    sizes = {one.id: one.total for one in usage.devices} if usage else {}
    by_device = tuple(
        DeviceRow(one.device, one.used, sizes.get(one.device) if one.share is None else one.share, one.utilization)
        for one in own
    )
    return PodUsageRow(pod.namespace, pod.name, pod.uid, pod.node, len(by_device), *_sums(by_device), age, by_device)


def _pods(names: Sequence[str]) -> str:
    return f"{'pod' if len(names) == 1 else 'pods'} {names_text(sorted(names))}"
