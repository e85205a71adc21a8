"""Builders of Volcano's objects: Jobs as seed 003's users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.e2e.pod_objects import pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.api_client import Raw

__all__ = ["pod_names", "volcano_job", "volcano_pod"]


def volcano_job(  # noqa: PLR0913 - a builder: every field but three has a default
    namespace: str,
    name: str,
    limits: Mapping[str, int | str],
    pods: int = 1,
    *,
    minimum: int | None = None,
    queue: str = "default",
    others: int = 0,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,  # noqa: ANN401 - further fields of the pods' spec as they are
) -> Raw:
    """A Volcano Job of equal pods that start together, and of others that request no devices if so said."""
    template = _template(limits, annotations or {}, spec)
    tasks = [{"name": "worker", "replicas": pods, "minAvailable": pods, "template": template}]
    if others:
        plain = _template({"cpu": 1}, {}, spec)
        tasks.append({"name": "master", "replicas": others, "minAvailable": others, "template": plain})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "minAvailable": pods + others if minimum is None else minimum,
            "maxRetry": 3,
            "tasks": tasks,
        },
    }


def pod_names(job: Raw) -> list[str]:
    """The names that Volcano's controllers give to the pods of a Job."""
    name = job["metadata"]["name"]
    return [f"{name}-{task['name']}-{number}" for task in job["spec"]["tasks"] for number in range(task["replicas"])]


def volcano_pod(namespace: str, name: str, limits: Mapping[str, int | str], **more: Any) -> Raw:  # noqa: ANN401 - as `pod` has them
    """A pod of its own for Volcano's scheduler; the controllers give it a PodGroup."""
    return pod(namespace, name, limits, scheduler="volcano", **more)


def _template(limits: Mapping[str, int | str], annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Raw:
    made = pod("", "", limits, scheduler="volcano", annotations=annotations, **{"restartPolicy": "Never", **spec})
    about = {"annotations": made["metadata"]["annotations"]} if annotations else {}
    return {"metadata": about, "spec": made["spec"]}
