"""Metrics of usage, per device and per pod; the labels UUID, gpu, modelName and Hostname are those of NVIDIA's DCGM exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric

    from linkwise.agent.node_agent import NodeAgent
    from linkwise.model.usage import DeviceUsage, PodUsage

__all__ = ["usage_families"]

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


def usage_families(agent: NodeAgent) -> Iterator[Metric]:
    """The families of the last reading; values that are not known are left out."""
    # rule 002.usage
    usage, labels = agent.usage.latest, _labels(agent)
    for name, text, value in _DEVICE:
        yield _family(name, text, _DEVICE_LABELS, [(labels(one.id), value(one)) for one in usage.devices])
    for name, text, amount in _POD:
        rows = [((*labels(one.device), one.namespace, one.name, one.uid), amount(one)) for one in usage.pods]
        yield _family(name, text, _POD_LABELS, rows)
    yield GaugeMetricFamily(
        "linkwise_agent_usage_seconds", "Duration of the last reading of usage.", agent.usage.seconds
    )
    readings = CounterMetricFamily("linkwise_agent_usage_readings", "Readings of usage.", labels=["result"])
    readings.add_metric(["read"], agent.usage.rounds)
    readings.add_metric(["failed"], agent.usage.failures)
    yield readings


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
