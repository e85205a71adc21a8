"""Pod templates by kind: where each kind has them, and how many pods it creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_templates.operators import COMPLETION_INDEX, JOB_NAME, WORKLOADS
from linkwise.dialects.pod_templates.template import PodTemplate, Stamp, at, owner_of, templated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.dialects.pod_templates.template import WorkloadObject

__all__ = ["TEMPLATES", "job_stamp", "pod_templates"]

# Path of the pod template by kind; `replicas` or `parallelism` is beside `template`.
TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def pod_templates(source: WorkloadObject) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object; InputError with the path of a field by which they can't be read."""
    document = source.document
    if source.kind == "Pod":
        yield PodTemplate(source.name, 1, document)
    elif source.kind == "Job" and "volcano" in str(document.get("apiVersion", "")):
        yield from _volcano_tasks(source)
    elif source.kind in WORKLOADS:
        yield from WORKLOADS[source.kind](source)
    elif source.kind in TEMPLATES:
        template = at(document, *TEMPLATES[source.kind])
        spec = at(document, *TEMPLATES[source.kind][:-1])
        replicas = spec.get("replicas", spec.get("parallelism")) if isinstance(spec, dict) else None
        pod = templated(document, template, source.name)
        yield PodTemplate(source.name, _count(replicas), pod)


def job_stamp(source: WorkloadObject) -> Stamp | None:
    """Return the first pod of a Job or CronJob as its controller creates it; None for other kinds."""
    if source.kind not in {"Job", "CronJob"} or "volcano" in str(source.document.get("apiVersion", "")):
        return None
    words = {COMPLETION_INDEX: "0"}
    owner = owner_of(source) if source.kind == "Job" else owner_of(source, "Job", source.name)
    return Stamp(f"{source.name}-0", {**words, JOB_NAME: source.name}, words, owner)


def _volcano_tasks(source: WorkloadObject) -> Iterator[PodTemplate]:
    """Yield the tasks of a Volcano Job, with the group annotations that its controller sets on every pod."""
    document = source.document
    minimum = at(document, "spec", "minAvailable")
    group = {"scheduling.k8s.io/group-name": source.name}
    group |= {"scheduling.volcano.sh/group-min-member": str(minimum)} if isinstance(minimum, int) else {}
    for number, task in enumerate(_list(at(document, "spec", "tasks"))):
        name = f"{source.name}-{task.get('name', '')}".rstrip("-")
        pod = templated(document, task.get("template"), name)
        own = pod["metadata"].get("annotations")
        pod["metadata"]["annotations"] = {**group, **(own if isinstance(own, dict) else {})}
        yield PodTemplate(name, _count(task.get("replicas")), pod, f"spec.tasks[{number}]")


def _list(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 1
