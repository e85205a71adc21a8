"""Pod templates by kind: where each kind has them, and how many pods it creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.cli.inputs.manifests import follow
from linkwise.cli.inputs.templates import PodTemplate, Stamp, at, owner_of, templated
from linkwise.cli.inputs.workloads import COMPLETION_INDEX, JOB_NAME, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.cli.inputs.manifests import Manifest

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


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object; InputError with the path of a field by which they can't be read."""
    document = manifest.document
    if manifest.kind == "Pod":
        yield PodTemplate(manifest.name, 1, document, manifest.root)
    elif manifest.kind == "Job" and "volcano" in str(document.get("apiVersion", "")):
        yield from _volcano_tasks(manifest)
    elif manifest.kind in WORKLOADS:
        yield from WORKLOADS[manifest.kind](manifest)
    elif manifest.kind in TEMPLATES:
        template = at(document, *TEMPLATES[manifest.kind])
        spec = at(document, *TEMPLATES[manifest.kind][:-1])
        replicas = spec.get("replicas", spec.get("parallelism")) if isinstance(spec, dict) else None
        pod = templated(document, template, manifest.name)
        yield PodTemplate(manifest.name, _count(replicas), pod, manifest.root)


def job_stamp(manifest: Manifest) -> Stamp | None:
    """Return the first pod of a Job or CronJob as its controller creates it; None for other kinds."""
    if manifest.kind not in {"Job", "CronJob"} or "volcano" in str(manifest.document.get("apiVersion", "")):
        return None
    words = {COMPLETION_INDEX: "0"}
    owner = owner_of(manifest) if manifest.kind == "Job" else owner_of(manifest, "Job", manifest.name)
    return Stamp(f"{manifest.name}-0", {**words, JOB_NAME: manifest.name}, words, owner)


def _volcano_tasks(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the tasks of a Volcano Job, with the group annotations that its controller sets on every pod."""
    document = manifest.document
    minimum = at(document, "spec", "minAvailable")
    group = {"scheduling.k8s.io/group-name": manifest.name}
    group |= {"scheduling.volcano.sh/group-min-member": str(minimum)} if isinstance(minimum, int) else {}
    for number, task in enumerate(_list(at(document, "spec", "tasks"))):
        name = f"{manifest.name}-{task.get('name', '')}".rstrip("-")
        pod = templated(document, task.get("template"), name)
        own = pod["metadata"].get("annotations")
        pod["metadata"]["annotations"] = {**group, **(own if isinstance(own, dict) else {})}
        root = follow(manifest.root, f"spec.tasks[{number}]") or manifest.root
        yield PodTemplate(name, _count(task.get("replicas")), pod, root)


def _list(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 1
