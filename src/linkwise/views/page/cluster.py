"""The cluster on the page: a strip of devices per node, totals, pods that would still fit, and what waits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from linkwise.dialects.groups.network import current_labels
from linkwise.explain.capacity import capacity_rows
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.published.lists import (
    MAX_EXPLAINED,
    MAX_PLANS,
    PodExplainer,
    group_rows,
    named,
    waiting_pods,
    why_text,
)
from linkwise.views.blocks import rfc3339
from linkwise.views.nodes import MODES, node_problems
from linkwise.views.page.documents import Held, ModelFit, NodeStrip, Totals, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.engine.ledger import Entry
    from linkwise.explain.inspect import Holder, HolderState, InspectedDevice, NodeInspection
    from linkwise.model.views import NodeView, PodView
    from linkwise.views.cluster import ClusterView
    from linkwise.views.page.documents import HeldState

__all__ = ["MAX_WAITING", "Reason", "Sentences", "Strips", "model_fits", "model_of", "waiting_list"]

MAX_WAITING: Final = 500
"""rows of what waits"""
ALONE: Final = "pod "
"""begins the key of a pod without a group"""
Reason = tuple[str, str]
"""why something waits: a sentence and its code"""
_STATES: Final[Mapping[HolderState, HeldState]] = {
    "scheduling": "offered",
    "reserved": "reserved",
    "planned": "planned",
    "claimed": "claimed",
    "booked": "binding",
    "binding": "binding",
    "bound": "bound",
    "terminating": "terminating",
    "unknown": "bound",
}
IN_USE: Final = frozenset({"bound", "binding", "terminating"})
"""states in which a pod has its devices, or gets them in a moment"""


@dataclass(slots=True)
class Strips:
    """The strips of all nodes with devices, of which a refresh makes only those again whose node changed."""

    by_name: dict[str, NodeStrip] = field(default_factory=dict)
    changed: dict[str, NodeStrip | None] = field(default_factory=dict)
    """those that differ since the caller emptied it; None for a node that is gone"""
    _counts: Counter[str] = field(default_factory=Counter)
    """devices of all strips by state"""
    _marks: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """by node, what its strip was made of"""

    def refresh(self, cluster: ClusterView, most: int = 1000) -> bool:
        """Bring the strips up to date, at most so many of them; return whether all are."""
        broker, state = cluster.broker, cluster.broker.state_at(cluster.now)
        entries: dict[str, list[Entry]] = {}
        for entry in state.pausing(list(broker.entries())):
            entries.setdefault(entry.node, []).append(entry)
        names = sorted(name for name, stock in broker.inventories.items() if stock.devices)
        for name in state.pausing(names):
            mark = _mark(cluster, name, entries.get(name, ()))
            if mark is None or _is_same(mark, self._marks.get(name)):
                continue
            if not most:
                return False
            most -= 1
            found = inspect_nodes(broker, name, cluster.now, cluster.only)
            strip = _strip(cluster, found[0])
            self._marks[name] = mark
            if self.by_name.get(name) != strip:
                self._set(name, strip)
        for name in self.by_name.keys() - set(names):
            self._set(name, None)
            del self.by_name[name], self._marks[name]
        return True

    def totals(self, waiting_pods: int) -> Totals:
        """Return the sums over all nodes."""
        counts = self._counts
        idle = counts["devices"] - counts["used"] - counts["kept"] - counts["unusable"]
        return Totals(counts["devices"], counts["used"], idle, counts["kept"], counts["unusable"], waiting_pods)

    def _set(self, name: str, strip: NodeStrip | None) -> None:
        if before := self.by_name.get(name):
            self._counts.subtract(_counted(before))
        self.changed[name] = strip
        if strip:
            self.by_name[name] = strip
            self._counts.update(_counted(strip))


def _mark(cluster: ClusterView, name: str, entries: Iterable[Entry]) -> tuple[object, ...] | None:
    """Return what the strip of a node is made of, to be compared by identity; None if the node is not known any more."""
    broker = cluster.broker
    view, node = broker.nodes.get(name), broker.usage.get(name)
    if view is None or node is None or name not in broker.inventories:
        return None
    groups = ((entry, broker.group_of(entry.pod)) for entry in entries)
    return (
        broker.inventories[name],
        node,
        view.labels,
        view.ready,
        view.unschedulable,
        broker.drift.get(name),
        *(part for pair in groups for part in pair),
    )


def _is_same(mark: tuple[object, ...], before: tuple[object, ...] | None) -> bool:
    return (
        before is not None
        and len(mark) == len(before)
        and all(
            one is other or (isinstance(one, str) and one == other) for one, other in zip(mark, before, strict=True)
        )
    )


def _strip(cluster: ClusterView, node: NodeInspection) -> NodeStrip:
    view = cluster.broker.nodes[node.name]
    indices = tuple(device.index for device in node.devices)
    return NodeStrip(
        node.name,
        model_of(node.devices),
        _rack(cluster, view),
        "".join(_device_mark(device, view) for device in node.devices),
        tuple(_held(cluster, node)),
        MODES[node.mode],
        "; ".join([*node_problems(cluster, node), *_unattributed(node)]),
        UNSET if indices == tuple(range(len(indices))) else indices,
    )


def model_of(devices: Iterable[InspectedDevice]) -> str:
    """Return the model of the devices, or their models."""
    return ", ".join(sorted({device.model for device in devices if device.model}))


def _rack(cluster: ClusterView, view: NodeView) -> str:
    """Return the closest network domain of a node, as far as its labels name one."""
    labels = current_labels(view.labels)
    return next((labels[label] for label in reversed(cluster.broker.settings.group.network) if label in labels), "")


def _device_mark(device: InspectedDevice, view: NodeView) -> str:
    if not device.usable:
        return "x" if not device.healthy and not device.cordoned else "c"
    return "c" if view.unschedulable else "." if view.ready else "x"


def _held(cluster: ClusterView, node: NodeInspection) -> Iterator[Held]:
    """Yield what pods hold, one entry per pod and share, in the order of the devices."""
    devices: dict[tuple[str, int, str, HeldState, int], list[int]] = {}
    for place, device in enumerate(node.devices):
        for pod in device.pods:
            group = named_group(cluster, pod.uid)
            key = (pod.full_name if pod.namespace else "", pod.other, group, _STATES[pod.state], part_of(pod, device))
            devices.setdefault(key, []).append(place)
        if not device.pods and (device.whole or device.claim):
            state: HeldState = "bound" if device.claim else "reserved"  # a claim has it, or the node agent holds it
            devices[("", -place - 1, "", state, 0)] = [place]
    for (name, _, group, state, part), places in devices.items():
        yield Held(name, group, state, tuple(places), part or UNSET)


def named_group(cluster: ClusterView, uid: str) -> str:
    """Return namespace and name of a pod's group; empty if it has none."""
    key = cluster.broker.group_of(uid) if uid else ""
    return "/".join(named(key)) if key else ""


def part_of(pod: Holder, device: InspectedDevice) -> int:
    """Return the share of a device that a pod has, in percent; 0 for a whole device."""
    if pod.whole or not (pod.share or pod.core):
        return 0
    memory = 100 * pod.share / device.memory if device.memory else 0
    return min(100, max(1, round(max(memory, pod.core)))) % 100


def _unattributed(node: NodeInspection) -> list[str]:
    count = sum(pod.devices for pod in node.unattributed)
    return [f"{count} devices in use, it is not known which"] if count else []


def _counted(strip: NodeStrip) -> dict[str, int]:
    """Return the number of devices of a node by state, each once."""
    taken, kept = set[int](), set[int]()
    for held in strip.held:
        (taken if held.state in IN_USE else kept).update(held.devices)
    unusable = sum(mark != "." and place not in taken | kept for place, mark in enumerate(strip.marks))
    return {"devices": len(strip.marks), "used": len(taken), "kept": len(kept - taken), "unusable": unusable}


def model_fits(cluster: ClusterView) -> tuple[ModelFit, ...]:
    """Return how many pods would still fit, by model and number of devices, as `linkwise get capacity` counts them."""
    broker = cluster.broker
    nodes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    for stock in broker.state_at(cluster.now).pausing(list(broker.inventories.values())):
        if stock.devices:
            model = ", ".join(sorted({device.model for device in stock.devices if device.model}))
            nodes[model] += 1
            devices[model] += len(stock.devices)
    fits: dict[str, dict[str, int]] = {model: {} for model in nodes}
    free: dict[str, int] = dict.fromkeys(nodes, 0)
    for row in capacity_rows(broker, cluster.now, cluster.namespace):
        if row.sharing != "whole":
            continue
        sizes = fits.setdefault(row.model, {})
        sizes[str(row.size)] = sizes.get(str(row.size), 0) + row.pods
        free[row.model] = max(free.get(row.model, 0), row.free)
    return tuple(
        ModelFit(
            model,
            nodes[model],
            devices[model],
            free[model],
            max((int(size) for size, pods in sizes.items() if pods), default=0),
            sizes,
        )
        for model, sizes in sorted(fits.items())
    )


def waiting_list(cluster: ClusterView, known: Mapping[str, Reason]) -> tuple[tuple[Waiting, ...], int]:
    """Return what waits, the highest priority and the oldest first, and the number of all pods that wait.

    `known` has reasons by the keys of `Sentences`; others are as published on a pod.
    """
    rows = waiting_rows(cluster)
    listed = [_waiting(cluster, key, rows[key], known.get(key)) for key in list(rows)[:MAX_WAITING]]
    return tuple(listed), sum(map(len, rows.values()))


def waiting_rows(cluster: ClusterView) -> dict[str, list[PodView]]:
    """Return the pods that wait by the key of their group, or by `pod ` and their UID."""
    rows: dict[str, list[PodView]] = {}
    for pod in waiting_pods(cluster.broker, cluster.now, cluster.only):
        rows.setdefault(cluster.broker.group_of(pod.uid) or f"{ALONE}{pod.uid}", []).append(pod)
    return rows


def _waiting(cluster: ClusterView, key: str, pods: list[PodView], known: Reason | None) -> Waiting:
    alone = key.startswith(ALONE)
    namespace, name = (pods[0].namespace, pods[0].name) if alone else named(key)
    sentence, code = known or next(filter(None, map(_published, pods)), ("", ""))
    return Waiting(
        "pod" if alone else "group",
        namespace,
        name,
        len(pods),
        sum(_asked(cluster, pod) for pod in pods),
        sentence,
        code,
        rfc3339(min(pod.created for pod in pods)) or "",
    )


def _published(pod: PodView) -> Reason | None:
    condition = pod.condition
    return (condition.message, condition.reason) if condition and not condition.status else None


def _asked(cluster: ClusterView, pod: PodView) -> int:
    """Return the number of devices that a pod requests; a share is of one device."""
    ask = cluster.broker.request(pod).ask
    return (ask.devices or 1) if ask else 0


class Sentences:
    """Why pods and groups wait, one by one: equal pods are explained once, each group is planned once."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster: Final = cluster
        self._explainer: Final = PodExplainer(cluster.broker, cluster.now)

    def first(self) -> list[str]:
        """Return the keys of the rows to explain: the first pods and groups."""
        keys = list(waiting_rows(self._cluster))
        alone = [key for key in keys if key.startswith(ALONE)][:MAX_EXPLAINED]
        groups = [key for key in keys if not key.startswith(ALONE)][:MAX_PLANS]
        return [*alone, *groups]

    def of(self, key: str) -> Reason | None:
        """Return the sentence and the code of a row; None if it waits no more."""
        if key.startswith(ALONE):
            explanation = self._explainer.explain(key.removeprefix(ALONE), self._cluster.only)
            return (why_text(explanation), explanation.code) if explanation else None
        rows = group_rows(self._cluster.broker, self._cluster.now, None, key, readable=self._cluster.only)
        return (rows[0].why, rows[0].explanation.code) if rows else None
