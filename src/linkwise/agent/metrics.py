"""Metrics of the agent, read from its parts when they are scraped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from linkwise.agent.usage.metrics import usage_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from linkwise.agent.node_agent import NodeAgent

__all__ = ["AgentMetrics"]

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
Writes = dict[tuple[str, str], int]


class AgentMetrics:
    """A registry with the metrics of one agent."""

    def __init__(self, agent: NodeAgent, writes: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self.registry: Final = CollectorRegistry()
        self.answers: Final = Histogram(
            "linkwise_agent_answer_seconds",
            "Time to answer a call of the kubelet.",
            ["method"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._agent = agent
        self._writes = writes
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Read the figures."""
        agent = self._agent
        healthy = sum(device.healthy for device in agent.found.devices)
        usable = sum(device.healthy for device in agent.usable.devices)
        yield _gauge(
            "linkwise_agent_devices",
            "Devices of the node.",
            "health",
            {"healthy": usable, "unhealthy": len(agent.found.devices) - healthy, "cordoned": healthy - usable},
        )
        yield CounterMetricFamily(
            "linkwise_agent_fault_events",
            "Faults that the driver reported between two discoveries.",
            agent.discoverer.reported,
        )
        in_use = agent.allocations.in_use() if agent.allocations else {}
        used = {device for devices in in_use.values() for device in devices}
        yield GaugeMetricFamily("linkwise_agent_devices_in_use", "Devices that pods have.", len(used))
        enforced = agent.registrar.status.enforced
        yield GaugeMetricFamily(
            "linkwise_agent_enforced", "1 while the kubelet allocates through this agent.", int(enforced)
        )
        yield GaugeMetricFamily(
            "linkwise_agent_discovery_seconds", "Duration of the last discovery.", agent.discoverer.seconds
        )
        yield CounterMetricFamily("linkwise_agent_discoveries", "Completed discoveries.", agent.discoverer.rounds)
        yield _counter(
            "linkwise_agent_allocations",
            "Containers that the kubelet asked devices for, by how they compare with the record.",
            "result",
            agent.allocations.results if agent.allocations else {},
        )
        yield _counter(
            "linkwise_agent_records_corrected",
            "Records of pods that were corrected to the devices in use.",
            "kind",
            agent.records.corrected,
        )
        writes = CounterMetricFamily("linkwise_agent_writes", "Writes to the API server.", labels=["object", "result"])
        for (what, result), count in self._writes().items():
            writes.add_metric([what, result], count)
        yield writes
        yield from usage_families(agent)


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value.replace(" ", "-")], count)
    return family
