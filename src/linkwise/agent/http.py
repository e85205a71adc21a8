"""HTTP routes of the agent: metrics, probes, and the container flags of devices for callers on the same host.

Metrics are read from the agent's parts when they are scraped. The labels UUID, gpu, modelName and Hostname of usage are
those of NVIDIA's DCGM exporter. Source: seed 002, whose plugin prints the flags of a container command line.
"""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from linkwise.errors import InputError
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route, Routes, health_routes
from linkwise.vendors.container_needs import container_needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from linkwise.agent.node_agent import NodeAgent
    from linkwise.model.device import Device
    from linkwise.model.usage import DeviceUsage, PodUsage
    from linkwise.net.http.messages import Request

__all__ = ["AgentMetrics", "agent_application", "usage_families"]

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
Writes = dict[tuple[str, str], int]
_DEVICE_LABELS: Final = ("UUID", "gpu", "modelName", "Hostname")
_POD_LABELS: Final = (*_DEVICE_LABELS, "namespace", "pod", "pod_uid")
_DEVICE: Final[tuple[tuple[str, str, Callable[[DeviceUsage], float | None]], ...]] = (
    ("linkwise_device_memory_bytes", "Memory of a device.", lambda one: one.total),
    ("linkwise_device_memory_used_bytes", "Memory of a device that is in use.", lambda one: one.used),
    (
        "linkwise_device_utilization_ratio",
        "Part of the time in which a device computes, from 0 to 1.",
        lambda one: None if one.utilization is None else one.utilization / 100,
    ),
)
_POD: Final[tuple[tuple[str, str, Callable[[PodUsage], float | None]], ...]] = (
    ("linkwise_pod_device_memory_used_bytes", "Memory of a device that a pod uses.", lambda one: one.used),
    (
        "linkwise_pod_device_memory_share_bytes",
        "Memory of a shared device that is allocated to a pod.",
        lambda one: one.share,
    ),
    (
        "linkwise_pod_device_utilization_ratio",
        "Part of a device's compute that a pod uses, from 0 to 1.",
        lambda one: None if one.utilization is None else one.utilization / 100,
    ),
)


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


def usage_families(agent: NodeAgent) -> Iterator[Metric]:
    """The families of the last reading; values that are not known are left out."""
    # rule 002.usage
    usage, labels = agent.usage.latest, _labels(agent)
    for name, help_text, value in _DEVICE:
        yield _family(name, help_text, _DEVICE_LABELS, [(labels(one.id), value(one)) for one in usage.devices])
    for name, help_text, amount in _POD:
        rows = [((*labels(one.device), one.namespace, one.name, one.uid), amount(one)) for one in usage.pods]
        yield _family(name, help_text, _POD_LABELS, rows)
    yield GaugeMetricFamily(
        "linkwise_agent_usage_seconds", "Duration of the last reading of usage.", agent.usage.seconds
    )
    readings = CounterMetricFamily("linkwise_agent_usage_readings", "Readings of usage.", labels=["result"])
    readings.add_metric(["read"], agent.usage.rounds)
    readings.add_metric(["failed"], agent.usage.failures)
    yield readings


def agent_application(agent: NodeAgent, metrics: AgentMetrics, notes: Callable[[], Sequence[str]]) -> Routes:
    """The routes of one agent, those of the flags only if the setting is on; `notes` are problems to report."""

    def scrape(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    routes = [*health_routes(agent.not_ready, notes), Route("GET", "/metrics", scrape)]
    if agent.settings.flags:
        routes += [
            Route("GET", "/docker/cli", lambda request, _: _flags(agent, request, as_json=False)),
            Route("GET", "/docker/cli/json", lambda request, _: _flags(agent, request, as_json=True)),
        ]
    return Routes(routes)


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


def _labels(agent: NodeAgent) -> Callable[[str], tuple[str, ...]]:
    known = {device.id: (str(device.index), device.model) for device in agent.found.devices}
    return lambda device: (device, *known.get(device, ("", "")), agent.node)


def _family(
    name: str, text: str, labels: Sequence[str], rows: Sequence[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, amount in rows:
        if amount is not None:
            family.add_metric(values, amount)
    return family


def _flags(agent: NodeAgent, request: Request, *, as_json: bool) -> Response:
    """The flags that give a container the devices named by `dev`, or all healthy ones."""
    # rule 002.flags
    if not ip_address(request.client).is_loopback:
        return text("container flags are only served to callers on the same host", 403)
    try:
        devices = _chosen(agent.found.devices, request.query)
        needs = container_needs(agent.found.vendor, devices) if devices else None
    except InputError as error:
        return text(str(error), 400)
    host = agent.access.options
    nodes = [*needs.device_nodes, *filter(host.exists, needs.optional_nodes)] if needs else []
    mounts = [f"{mount.host_path}:{mount.container_path}:ro" for mount in host.mounts] if needs else []
    environment = [f"{name}={value}" for name, value in needs.environment] if needs else []
    if as_json:
        return Response(json.dumps({"Devices": nodes, "Volumes": mounts, "Environment": environment}).encode())
    flags = [
        *(f"--device={node}" for node in nodes),
        *(f"--volume={mount}" for mount in mounts),
        *(f"--env={variable}" for variable in environment),
    ]
    return text(" ".join(flags))


def _chosen(devices: tuple[Device, ...], query: str) -> list[Device]:
    """The devices that the query names by index or UUID, with spaces or commas between them; healthy ones by default."""
    named = " ".join(parse_qs(query).get("dev", [])).replace(",", " ").split()
    if not named:
        return [device for device in devices if device.healthy]
    known = {str(device.index): device for device in devices} | {device.id: device for device in devices}
    unknown = [name for name in named if name not in known]
    if unknown:
        raise InputError(f"unknown device {unknown[0][:64]!r}; devices: {', '.join(str(one.index) for one in devices)}")
    return [known[name] for name in dict.fromkeys(named)]
