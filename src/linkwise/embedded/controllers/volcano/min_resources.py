"""Minimum resources of a PodGroup: what its first pods request together, with the names of Kubernetes' resource quotas."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.embedded.controllers.volcano.objects import JobSpec, Task

__all__ = ["job_min_resources", "pod_min_resources"]

_LIMITED: Final = ("cpu", "memory")
"""resources whose limits count in quotas"""
_BINARY: Final = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024))


def job_min_resources(spec: JobSpec) -> dict[str, str]:
    """The requests of the pods that must start together."""
    total: dict[str, Decimal] = {}
    for task, pods in _first_pods(spec):
        _add(total, _usage(task.template.get("spec") or {}), pods)
    return _texts(total)


def pod_min_resources(pod_spec: Mapping[str, Any], pods: int) -> dict[str, str]:
    """The requests of a number of equal pods."""
    total: dict[str, Decimal] = {}
    _add(total, _usage(pod_spec), pods)
    return _texts(total)


def _first_pods(spec: JobSpec) -> Iterator[tuple[Task, int]]:
    """Number of pods by task, up to minAvailable: first the minimum of each task, then the others, in their order."""
    left = spec.min_available
    counts = []
    for task in spec.tasks:
        counts.append(min(task.minimum, left))
        left -= counts[-1]
    for task, count in zip(spec.tasks, counts, strict=True):
        more = min(task.replicas - count, left)
        left -= more
        if count + more > 0:
            yield task, count + more


def _usage(pod_spec: Mapping[str, Any]) -> dict[str, Decimal]:
    usage = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for name, amount in _effective(pod_spec, requests=True).items():
        usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in _effective(pod_spec, requests=False).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def _effective(pod_spec: Mapping[str, Any], *, requests: bool) -> dict[str, Decimal]:
    """The sum over all containers, or the largest init container if that is more."""
    total: dict[str, Decimal] = {}
    for container in pod_spec.get("containers") or ():
        for name, amount in _amounts(container, requests=requests):
            total[name] = total.get(name, Decimal(0)) + amount
    for container in pod_spec.get("initContainers") or ():
        for name, amount in _amounts(container, requests=requests):
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def _amounts(container: Mapping[str, Any], *, requests: bool) -> Iterable[tuple[str, Decimal]]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    texts = {**limits, **(resources.get("requests") or {})} if requests else limits
    for name, text in texts.items():
        try:
            yield name, quantity(str(text))
        except InputError:
            continue  # the API server rejects such pods


def _add(total: dict[str, Decimal], usage: Mapping[str, Decimal], pods: int) -> None:
    for name, amount in usage.items():
        total[name] = total.get(name, Decimal(0)) + amount * pods


def _texts(total: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in sorted(total.items())}


def _text(name: str, amount: Decimal) -> str:
    if amount != amount.to_integral_value():
        return f"{int((amount * 1000).to_integral_value())}m"
    number = int(amount)
    if name.endswith(("memory", "storage")):
        for suffix, size in _BINARY:
            if number and number % size == 0:
                return f"{number // size}{suffix}"
    return str(number)
