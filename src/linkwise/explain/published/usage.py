"""Rows of `linkwise top`: what nodes and pods use of their devices, from what agents have published last.

What is missing is said: nodes whose agent has published nothing, or nothing for a while, and pods of which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.linkwise.usage import usage_in
from linkwise.explain.text.phrases import names_text
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.model.usage import NodeUsage, PodUsage
    from linkwise.model.views import NodeView, PodView

__all__ = ["STALE", "DeviceRow", "NodeUsageRow", "PodUsageRow", "UsageList", "node_usage_rows", "pod_usage_rows"]

STALE: Final = 660.0  # seconds: two refreshes of the agent and a minute
_NOT_PUBLISHED: Final = (
    "no usage is published: check that the agent runs there, that its driver reports usage, and that"
    " agent.usage.publish_interval is not 0"
)
_OLD: Final = "the published usage is older than 10 minutes: check that the agent runs there"


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


def _bound(pods: Iterable[PodView], namespace: str | None, name: str) -> list[PodView]:
    found = [
        pod
        for pod in pods
        if pod.node and pod.phase not in FINISHED and namespace in {None, pod.namespace} and name in {"", pod.name}
    ]
    return sorted(found, key=lambda pod: (pod.namespace, pod.name))


def _node_row(name: str, devices: int, usage: NodeUsage | None, age: float | None) -> NodeUsageRow:
    by_device = tuple(DeviceRow(one.id, one.used, one.total, one.utilization) for one in usage.devices) if usage else ()
    busy = {one.device for one in usage.pods} if usage else set()
    idle = None if usage is None else sum(one.device not in busy for one in by_device)
    return NodeUsageRow(name, devices, idle, *_sums(by_device), age, by_device)


def _pod_row(pod: PodView, own: Sequence[PodUsage], usage: NodeUsage | None, age: float | None) -> PodUsageRow:
    sizes = {one.id: one.total for one in usage.devices} if usage else {}
    by_device = tuple(
        DeviceRow(one.device, one.used, sizes.get(one.device) if one.share is None else one.share, one.utilization)
        for one in own
    )
    return PodUsageRow(pod.namespace, pod.name, pod.uid, pod.node, len(by_device), *_sums(by_device), age, by_device)


def _sums(by_device: Sequence[DeviceRow]) -> tuple[int | None, int | None, int | None]:
    """Used memory, memory and utilization of several devices; None if it is not known of one of them."""
    used, total = [one.used for one in by_device], [one.total for one in by_device]
    busy = [one.utilization for one in by_device if one.utilization is not None]
    return _sum(used), _sum(total), round(sum(busy) / len(busy)) if busy and len(busy) == len(by_device) else None


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _age(time: str, now: float) -> float | None:
    """Seconds since a time; None if it is not one, and 0 for one in the future: clocks differ."""
    try:
        return max(0.0, now - datetime.fromisoformat(time).timestamp()) if time else None
    except (ValueError, OverflowError):
        return None


def _nodes(names: Sequence[str]) -> str:
    return f"{'node' if len(names) == 1 else 'nodes'} {names_text(sorted(names))}"


def _pods(names: Sequence[str]) -> str:
    return f"{'pod' if len(names) == 1 else 'pods'} {names_text(sorted(names))}"
