"""Numbers that are looked up when Prometheus asks: devices by state, who waits, what disagrees, how far watches are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from linkwise.topology.sample_cleaning import clean_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from linkwise.model.node import Node
    from linkwise.model.topology import Topology
    from linkwise.serve.service import Service

__all__ = ["Follow", "Gauges"]

STATES: Final = ("free", "shared", "taken", "unhealthy", "unknown")


class Follow(NamedTuple):
    """How the following of one kind of object goes."""

    lag: float
    """seconds since it was last heard of"""
    lists: int
    restarts: int
    """of the watch"""
    errors: int
    objects: int
    """handed on so far, each change of one counted"""


class Gauges(Collector):
    """Looks at the broker, and at those who watch and write.

    Args:
        service: whose broker is looked at.
        follows: how each watch goes.
        tasks: what became of effects that are carried out later, by name: waiting, done, dropped.
        notes: what is wrong though the service answers.
    """

    def __init__(
        self,
        service: Service,
        follows: Callable[[], Mapping[str, Follow]],
        tasks: Callable[[], Mapping[tuple[str, str], int]],
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._service = service
        self._follows = follows
        self._tasks = tasks
        self._notes = notes
        self._odd: dict[str, tuple[Topology, int]] = {}
        """by node its matrix, and how many pairs of it are not believed"""

    def collect(self) -> Iterable[Metric]:
        """All of them."""
        yield from self._cluster()
        yield from self._watches()
        told = CounterMetricFamily(
            "linkwise_effects",
            "Wakes, annotations, evictions and events by what became of them.",
            labels=["effect", "result"],
        )
        for (effect, result), count in sorted(self._tasks().items()):
            told.add_metric([effect, result], count)
        yield told
        yield GaugeMetricFamily(
            "linkwise_ready", "Whether the service answers: 1 once everything was listed.", self._service.synced
        )
        yield GaugeMetricFamily("linkwise_problems", "What is wrong though the service answers.", len(self._notes()))

    def _cluster(self) -> Iterator[Metric]:
        broker = self._service.broker
        devices = GaugeMetricFamily("linkwise_devices", "Devices by state.", labels=["state"])
        counts: Counter[str] = Counter()
        for node in broker.usage.values():
            counts.update(_states(node))
        for name in STATES:
            devices.add_metric([name], counts[name])
        yield devices
        drift = GaugeMetricFamily("linkwise_drift", "Records that disagree now, by kind.", labels=["kind"])
        kinds = Counter(found.kind for several in broker.drift.values() for found in several)
        for kind, count in sorted(kinds.items()):
            drift.add_metric([kind], count)
        yield drift
        yield self._suspects()
        kept = broker.counts()
        for name, text, value in (
            ("linkwise_nodes", "Nodes that are known.", kept.nodes),
            ("linkwise_grants", "Pods that hold devices, or were promised some.", kept.grants),
            ("linkwise_waiting_pods", "Pods that no node could serve when they last asked.", kept.unschedulable),
            ("linkwise_offered_pods", "Pods that were offered nodes and are not bound yet.", kept.offered),
            ("linkwise_plans", "Groups whose plan holds devices.", kept.plans),
        ):
            yield GaugeMetricFamily(name, text, value)

    def _suspects(self) -> Metric:
        # rule 001.suspect: who looks at the fleet is told which nodes were measured oddly.
        told = GaugeMetricFamily(
            "linkwise_suspect_pairs",
            "Pairs of devices whose bandwidth samples are not believed, by node; only nodes that have some.",
            labels=["node"],
        )
        nodes = self._service.broker.usage
        measured = {name: found for name, node in nodes.items() if (found := node.topology) and found.bandwidth}
        # A matrix is looked through once: whoever asks every few seconds must not hold up the answers to schedulers.
        self._odd = {name: self._counted(name, found) for name, found in measured.items()}
        for name, (_, count) in sorted(self._odd.items()):
            if count:
                told.add_metric([name], count)
        return told

    def _counted(self, name: str, topology: Topology) -> tuple[Topology, int]:
        known = self._odd.get(name)
        if known and known[0] is topology:
            return known
        return topology, len(clean_pairs(topology.bandwidth or (), topology.links)[1])

    def _watches(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "linkwise_watch_lag_seconds", "Seconds since anything was heard of a kind of object.", labels=["resource"]
        )
        objects = CounterMetricFamily("linkwise_watch_objects", "Objects handed on so far.", labels=["resource"])
        events = CounterMetricFamily(
            "linkwise_watch_events", "Lists, restarts of watches and errors.", labels=["resource", "event"]
        )
        for resource, found in sorted(self._follows().items()):
            lag.add_metric([resource], found.lag)
            objects.add_metric([resource], found.objects)
            for event, count in (("list", found.lists), ("restart", found.restarts), ("error", found.errors)):
                events.add_metric([resource, event], count)
        yield from (lag, objects, events)


def _states(node: Node) -> Iterator[str]:
    unknown = node.unattributed
    for device in node.devices:
        use = node.used.get(device.id)
        if not device.healthy:
            yield "unhealthy"
        elif use is None and unknown > 0:
            unknown -= 1
            yield "unknown"
        else:
            yield "free" if use is None else "taken" if use.whole else "shared"
