"""Workloads: kinds of objects whose controllers create pods from templates, and where the templates are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "OPERATOR_JOBS",
    "WORKLOADS",
    "OperatorJob",
    "Template",
    "Workload",
    "is_operator_job",
    "templates",
    "workload_of",
]


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of workload."""

    group: str
    """API group; the core group is empty"""
    version: str
    resource: str
    """plural, as in paths of the API"""
    path: tuple[str, ...] = ("spec", "template")
    """of its pod templates; a field whose name ends with `[]` is a list of parts with a template each"""
    pods: str = ""
    """field beside the template with the number of pods that run at a time, for a job; empty for other kinds"""

    @property
    def is_job(self) -> bool:
        """Whether its pods work on one job together."""
        return bool(self.pods)


WORKLOADS: Final = (
    Workload("", "v1", "replicationcontrollers"),
    *(Workload("apps", "v1", resource) for resource in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    Workload("batch", "v1", "jobs", pods="parallelism"),
    Workload("batch", "v1", "cronjobs", ("spec", "jobTemplate", "spec", "template"), pods="parallelism"),
    Workload("batch.volcano.sh", "v1alpha1", "jobs", ("spec", "tasks[]", "template"), pods="replicas"),
)


@dataclass(frozen=True, slots=True)
class OperatorJob:
    """A kind whose pods an operator creates; `pod_templates.operators` knows where its templates are."""

    group: str
    """API group"""
    versions: tuple[str, ...]
    """the storage version first"""
    kind: str
    short: tuple[str, ...] = ()
    """short names, as in kubectl"""

    @property
    def resource(self) -> str:
        """The plural, as in paths of the API."""
        return f"{self.kind.lower()}s"


_TRAINING: Final = "kubeflow.org"
OPERATOR_JOBS: Final = (
    OperatorJob("jobset.x-k8s.io", ("v1alpha2",), "JobSet"),
    OperatorJob("leaderworkerset.x-k8s.io", ("v1",), "LeaderWorkerSet", ("lws",)),
    *(
        OperatorJob(_TRAINING, ("v1",), kind)
        for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")
    ),
    OperatorJob(_TRAINING, ("v2beta1", "v1"), "MPIJob"),
    OperatorJob("trainer.kubeflow.org", ("v1alpha1",), "TrainJob"),
    *(OperatorJob("ray.io", ("v1", "v1alpha1"), kind) for kind in ("RayCluster", "RayJob", "RayService")),
)


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template of a workload."""

    steps: tuple[str | int, ...]
    """keys and positions that lead to it"""
    document: Mapping[str, Any]
    task: str
    """name of the part that it belongs to; empty where there is one template"""
    pods: int
    """that run at a time"""


def workload_of(group: str, resource: str) -> Workload | None:
    """The workload by its API group and plural; None if it is not one that Linkwise knows."""
    return _BY_RESOURCE.get((group, resource))


def is_operator_job(group: str, resource: str) -> bool:
    """Whether an operator creates the pods of this kind."""
    return (group, resource) in _OPERATED


def templates(workload: Workload, document: object) -> Iterator[Template]:
    """The pod templates of an object; parts that are not as its kind has them are left out."""
    for steps, owner in _owners(workload.path[:-1], document, ()):
        template = owner.get(workload.path[-1])
        if isinstance(template, dict):
            count, name = owner.get(workload.pods, 1), owner.get("name")
            pods = count if isinstance(count, int) and not isinstance(count, bool) else 1
            yield Template((*steps, workload.path[-1]), template, name if isinstance(name, str) else "", pods)


def _owners(
    path: tuple[str, ...], value: object, steps: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """The objects that have the template as a field."""
    if not isinstance(value, dict):
        return
    if not path:
        yield steps, value
        return
    field, *rest = path
    inner = value.get(field.removesuffix("[]"))
    if not field.endswith("[]"):
        yield from _owners(tuple(rest), inner, (*steps, field))
    elif isinstance(inner, list):
        for place, part in enumerate(inner):
            yield from _owners(tuple(rest), part, (*steps, field.removesuffix("[]"), place))


_BY_RESOURCE: Final = {(workload.group, workload.resource): workload for workload in WORKLOADS}
_OPERATED: Final = {(job.group, job.resource) for job in OPERATOR_JOBS}
