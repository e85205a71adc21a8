"""Prometheus gauges computed per scrape: devices by state, pending pods, drift between records, watches, effects."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from linkwise.engine.reasons.phrases import PENDING_CODES
from linkwise.topology.canonical import clean_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from linkwise.model.node import Node
    from linkwise.model.topology import Topology
    from linkwise.serve.service import Service

__all__ = ["Gauges", "WatchStatus"]

STATES: Final = ("free", "shared", "taken", "unhealthy", "cordoned", "unknown")


class WatchStatus(NamedTuple):
    """Counters of the watch of one resource."""

    lag: float
    """seconds since the last event or bookmark"""
    lists: int
    restarts: int
    """of the watch"""
    errors: int
    objects: int
    """delivered so far; every change of an object counts"""


class Gauges(Collector):
    """Collects from the broker, the watches and the performer.

    Args:
        service: whose broker is inspected.
        watches: status of each watch, by resource.
        effects: number of effects by kind and result: waiting, done, dropped.
        notes: the problems that /readyz reports while the service answers.
    """

    def __init__(
        self,
        service: Service,
        watches: Callable[[], Mapping[str, WatchStatus]],
        effects: Callable[[], Mapping[tuple[str, str], int]],
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._service = service
        self._watches = watches
        self._effects = effects
        self._notes = notes
        self._suspects: dict[str, tuple[Topology, int]] = {}
        """by node: its topology, and the number of pairs in it with suspect samples"""

    def collect(self) -> Iterable[Metric]:
        """Compute all gauges."""
        yield from self._cluster_metrics()
        yield from self._watch_metrics()
        effects = CounterMetricFamily(
            "linkwise_effects",
            "Wake-ups, plans of gated members, records, evictions, conditions, statuses and events by result.",
            labels=["effect", "result"],
        )
        for (effect, result), count in sorted(self._effects().items()):
            effects.add_metric([effect, result], count)
        yield effects
        service, leadership = self._service, self._service.leadership()
        for name, text, value in (
            (
                "linkwise_ready",
                "1 once the initial lists are complete: calls are answered, or this replica is a standby.",
                service.synced or service.standby,
            ),
            (
                "linkwise_leader",
                "1 if this replica decides, 0 if it is a standby or can't renew its Lease.",
                service.leads,
            ),
            (
                "linkwise_lease_transitions",
                "Hand-overs: how often the holder of the Lease changed.",
                leadership.transitions,
            ),
            (
                "linkwise_takeover_seconds",
                "Seconds that this replica needed from taking the Lease to its first answer; 0 if it has not.",
                leadership.takeover or 0.0,
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        yield GaugeMetricFamily(
            "linkwise_problems", "Number of problems that /readyz reports as notes.", len(self._notes())
        )

    def _cluster_metrics(self) -> Iterator[Metric]:
        broker = self._service.broker
        devices = GaugeMetricFamily("linkwise_devices", "Devices by state.", labels=["state"])
        counts: Counter[str] = Counter()
        for name, node in broker.usage.items():
            inventory = broker.inventories.get(name)
            counts.update(_states(node, inventory.faults if inventory else {}))
        for name in STATES:
            devices.add_metric([name], counts[name])
        yield devices
        drift = GaugeMetricFamily("linkwise_drift", "Records that currently disagree, by kind.", labels=["kind"])
        kinds = Counter(each.kind for drifts in broker.drift.values() for each in drifts)
        for kind, count in sorted(kinds.items()):
            drift.add_metric([kind], count)
        yield drift
        yield self._suspect_metric()
        yield self._pending_metric()
        yield self._placeable_metric()
        counted = broker.counts()
        for name, text, value in (
            ("linkwise_nodes", "Nodes in the cluster.", counted.nodes),
            ("linkwise_grants", "Pods with allocated or assumed devices.", counted.grants),
            ("linkwise_waiting_pods", "Pods that fit on no node when last filtered.", counted.unschedulable),
            (
                "linkwise_offered_pods",
                "Pods with devices reserved on the node that filter named, until they are bound.",
                counted.offered,
            ),
            ("linkwise_booked_pods", "Pods with devices that Volcano has allocated and not bound yet.", counted.booked),
            ("linkwise_plans", "Groups with a plan that reserves devices.", counted.plans),
            ("linkwise_gated_gangs", "Gangs with members that have our scheduling gate.", counted.gated),
            ("linkwise_reservations", "Pods and groups for which nodes are drained.", counted.reservations),
            ("linkwise_reserved_devices", "Idle devices that are kept free for them.", counted.reserved),
        ):
            yield GaugeMetricFamily(name, text, value)

    def _pending_metric(self) -> Metric:
        pods = GaugeMetricFamily(
            "linkwise_pending_pods",
            "Pending pods by the code of the reason that is published about them.",
            labels=["code"],
        )
        counts = self._service.publisher.codes() if self._service.publisher else {}
        for code in PENDING_CODES:
            pods.add_metric([code], counts.get(code, 0))
        return pods

    def _placeable_metric(self) -> Metric:
        pods = GaugeMetricFamily(
            "linkwise_placeable_pods",
            "Pods of this number of whole devices that could be placed when last scraped, by model of the devices.",
            labels=["model", "size"],
        )
        for (model, size), count in sorted(self._service.placeable.scraped().items()):
            pods.add_metric([model, size], count)
        return pods

    def _suspect_metric(self) -> Metric:
        # rule 001.suspect: operators see which nodes have implausible measurements.
        pairs = GaugeMetricFamily(
            "linkwise_suspect_pairs",
            "Device pairs with implausible bandwidth samples, by node; nodes without any are left out.",
            labels=["node"],
        )
        nodes = self._service.broker.usage
        measured = {
            name: topology for name, node in nodes.items() if (topology := node.topology) and topology.bandwidth
        }
        # Each matrix is checked once: frequent scrapes must not delay the answers to schedulers.
        self._suspects = {name: self._count_suspects(name, topology) for name, topology in measured.items()}
        for name, (_, count) in sorted(self._suspects.items()):
            if count:
                pairs.add_metric([name], count)
        return pairs

    def _count_suspects(self, name: str, topology: Topology) -> tuple[Topology, int]:
        cached = self._suspects.get(name)
        if cached and cached[0] is topology:
            return cached
        return topology, len(clean_pairs(topology.bandwidth or (), topology.links)[1])

    def _watch_metrics(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "linkwise_watch_lag_seconds",
            "Seconds since the last event or bookmark of the watch.",
            labels=["resource"],
        )
        objects = CounterMetricFamily("linkwise_watch_objects", "Objects delivered by the watch.", labels=["resource"])
        events = CounterMetricFamily(
            "linkwise_watch_events", "Lists, watch restarts and errors.", labels=["resource", "event"]
        )
        for resource, watch in sorted(self._watches().items()):
            lag.add_metric([resource], watch.lag)
            objects.add_metric([resource], watch.objects)
            for event, count in (("list", watch.lists), ("restart", watch.restarts), ("error", watch.errors)):
                events.add_metric([resource, event], count)
        yield from (lag, objects, events)


def _states(node: Node, faults: Mapping[str, str]) -> Iterator[str]:
    """Yield the state of each device; `faults` has those that are unhealthy, and not only cordoned."""
    unattributed = node.unattributed
    for device in node.devices:
        use = node.used.get(device.id)
        if not device.healthy:
            yield "unhealthy" if device.id in faults else "cordoned"
        elif use is None and unattributed > 0:
            unattributed -= 1
            yield "unknown"
        else:
            yield "free" if use is None else "taken" if use.whole else "shared"
