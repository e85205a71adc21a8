"""Pods of JobSets, LeaderWorkerSets, training jobs and Ray clusters, as their controllers would create them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.cli.inputs.manifests import follow
from linkwise.cli.inputs.templates import (
    PodTemplate,
    Stamp,
    at,
    count_at,
    entries_at,
    object_at,
    owner_of,
    stamped,
    templated,
)
from linkwise.dialects.groups.owners import JOBSET, LWS, RAY, TRAINING
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkwise.cli.inputs.manifests import Manifest

__all__ = ["WORKLOADS"]

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
REPLICA_SPECS: Final = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""where each training job has its roles, below `spec`"""


def _job_set(manifest: Manifest) -> Iterator[PodTemplate]:
    jobs = entries_at(manifest.document, "spec.replicatedJobs")
    if not jobs:
        raise InputError("spec.replicatedJobs: it is missing; a JobSet creates its pods from it")
    first = 0
    for number, job in enumerate(jobs):
        path = f"spec.replicatedJobs[{number}]."
        replicas = count_at(job, "replicas", 1, path)
        pods = _parallel(job, f"{path}template.", "template.spec.")
        role = str(job.get("name", ""))
        name = f"{manifest.name}-{role}".rstrip("-")

        def stamp(place: int, name: str = name, role: str = role, pods: int = pods, first: int = first) -> Stamp:
            index, pod = divmod(place, max(1, pods))
            return _of_a_job_set(manifest, f"{name}-{index}", role, (index, first + index), pod)

        yield _template(manifest, at(job, "template", "spec", "template"), name, replicas * pods, path[:-1], stamp)
        first += replicas


def _parallel(job: Mapping[str, Any], path: str, prefix: str) -> int:
    """Return how many pods of a Job run at the same time."""
    parallelism = count_at(job, f"{prefix}parallelism", 1, path.removesuffix("template."))
    completions = count_at(job, f"{prefix}completions", parallelism, path.removesuffix("template."))
    return min(parallelism, completions)


def _of_a_job_set(manifest: Manifest, job: str, role: str, index: tuple[int, int], pod: int) -> Stamp:
    words = {
        f"{JOBSET}jobset-name": manifest.name,
        f"{JOBSET}jobset-uid": owner_of(manifest).uid,
        f"{JOBSET}replicatedjob-name": role,
        f"{JOBSET}job-index": str(index[0]),
        f"{JOBSET}job-global-index": str(index[1]),
        f"{JOBSET}restart-attempt": "0",
        COMPLETION_INDEX: str(pod),
    }
    return Stamp(f"{job}-{pod}", {**words, JOB_NAME: job}, words, owner_of(manifest, "Job", job))


def _leader_worker_set(manifest: Manifest) -> Iterator[PodTemplate]:
    template = object_at(manifest.document, "spec.leaderWorkerTemplate")
    groups = count_at(manifest.document, "spec.replicas", 1)
    size = count_at(manifest.document, "spec.leaderWorkerTemplate.size", 1, least=1)
    object_at(manifest.document, "spec.leaderWorkerTemplate.workerTemplate")
    own = "leaderTemplate" if isinstance(template.get("leaderTemplate"), dict) else "workerTemplate"

    def stamp(group: int, worker: int) -> Stamp:
        leader = f"{manifest.name}-{group}"
        labels = {
            f"{LWS}name": manifest.name,
            f"{LWS}group-index": str(group),
            f"{LWS}group-key": owner_of(manifest).uid,
            f"{LWS}worker-index": str(worker),
        }
        owner = owner_of(manifest, "StatefulSet", leader if worker else manifest.name)
        return Stamp(f"{leader}-{worker}" if worker else leader, labels, {f"{LWS}size": str(size)}, owner)

    path = "spec.leaderWorkerTemplate."
    yield _template(manifest, template[own], manifest.name, groups, path + own, lambda place: stamp(place, 0))
    if size > 1:
        workers = size - 1
        yield _template(
            manifest,
            template["workerTemplate"],
            f"{manifest.name}-worker",
            groups * workers,
            f"{path}workerTemplate",
            lambda place: stamp(place // workers, place % workers + 1),
        )


def _training_job(manifest: Manifest) -> Iterator[PodTemplate]:
    path = f"spec.{REPLICA_SPECS[manifest.kind]}"
    roles = object_at(manifest.document, path)
    operator = "mpi-operator" if manifest.kind == "MPIJob" else f"{manifest.kind.casefold()}-controller"
    for role in roles:
        spec = object_at(manifest.document, f"{path}.{role}")
        kind = str(role).casefold()
        name = f"{manifest.name}-{kind}"
        launches = manifest.kind == "MPIJob" and kind == "launcher"
        owner = owner_of(manifest, "Job", name) if launches else owner_of(manifest)

        def stamp(place: int, name: str = name, kind: str = kind, owner: Any = owner) -> Stamp:  # noqa: ANN401 - Owner
            labels = {
                f"{TRAINING}job-name": manifest.name,
                f"{TRAINING}operator-name": operator,
                f"{TRAINING}replica-type": kind,
                f"{TRAINING}replica-index": str(place),
            }
            return Stamp(f"{name}-{place}", labels, {}, owner)

        count = count_at(spec, "replicas", 1, f"{path}.{role}.")
        yield _template(manifest, spec.get("template"), name, count, f"{path}.{role}", stamp)


def _train_job(manifest: Manifest) -> Iterator[PodTemplate]:
    """The pods of the trainer as far as the TrainJob defines them: their templates are in the runtime that it names."""
    trainer = at(manifest.document, "spec", "trainer")
    if trainer is not None and not isinstance(trainer, dict):
        raise InputError("spec.trainer: expected an object")
    runtime = at(manifest.document, "spec", "runtimeRef", "name")
    if not isinstance(runtime, str) or not runtime:
        raise InputError("spec.runtimeRef: it is missing; name the runtime whose template the job uses")
    nodes = count_at(manifest.document, "spec.trainer.numNodes", 1)
    container = {"name": "node", "resources": at(trainer, "resourcesPerNode") or {}}
    missing = [key for key in ("numNodes", "resourcesPerNode") if at(trainer, key) is None]
    note = f"the pod template is in the runtime {runtime}, a separate object"
    note += f"; {' and '.join(missing)} may be set there" if missing else ""

    def stamp(place: int) -> Stamp:
        return _of_a_job_set(manifest, f"{manifest.name}-node-0", "node", (0, 0), place)

    template = {"spec": {"containers": [container]}}
    yield _template(manifest, template, f"{manifest.name}-node", nodes, "spec.trainer", stamp, note)


def _ray(path: str) -> Callable[[Manifest], Iterator[PodTemplate]]:
    """Return the expansion of a kind that has the spec of a RayCluster at a path."""

    def expand(manifest: Manifest) -> Iterator[PodTemplate]:
        if manifest.kind == "RayJob" and at(manifest.document, "spec", "clusterSelector"):
            raise InputError("spec.clusterSelector: the job runs on a RayCluster that exists; read that one")
        object_at(manifest.document, path)
        cluster = manifest.name if manifest.kind == "RayCluster" else f"{manifest.name}-raycluster"
        owner = owner_of(manifest) if manifest.kind == "RayCluster" else owner_of(manifest, "RayCluster", cluster)

        def stamp(role: str, group: str, name: str) -> Stamp:
            labels = {
                f"{RAY}cluster": cluster,
                f"{RAY}node-type": role,
                f"{RAY}group": group,
                f"{RAY}is-ray-node": "yes",
            }
            return Stamp(name, labels, {}, owner)

        head = object_at(manifest.document, f"{path}.headGroupSpec")
        name = f"{cluster}-head"
        where = f"{path}.headGroupSpec"
        yield _template(manifest, head.get("template"), name, 1, where, lambda _: stamp("head", "headgroup", name))
        for number, group in enumerate(entries_at(manifest.document, f"{path}.workerGroupSpecs")):
            where = f"{path}.workerGroupSpecs[{number}]"
            least = count_at(group, "minReplicas", 0, f"{where}.")
            hosts = count_at(group, "numOfHosts", 1, f"{where}.", least=1)
            count = count_at(group, "replicas", least, f"{where}.") * hosts
            own = str(group.get("groupName", ""))

            def worker(place: int, own: str = own) -> Stamp:
                return stamp("worker", own, f"{cluster}-{own}-worker-{place}")

            yield _template(manifest, group.get("template"), f"{cluster}-{own}-worker", count, where, worker)

    return expand


def _template(  # noqa: PLR0913, PLR0917 - a builder
    manifest: Manifest,
    template: object,
    name: str,
    count: int,
    path: str,
    stamp: Callable[[int], Stamp],
    note: str = "",
) -> PodTemplate:
    if not isinstance(template, dict):
        raise InputError(f"{path}: it has no pod template")
    pod = stamped(templated(manifest.document, template, name), stamp(0))
    return PodTemplate(name, count, pod, follow(manifest.root, path) or manifest.root, stamp, note)


WORKLOADS: Final[Mapping[str, Callable[[Manifest], Iterator[PodTemplate]]]] = {
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    **dict.fromkeys(REPLICA_SPECS, _training_job),
    "TrainJob": _train_job,
    "RayCluster": _ray("spec"),
    "RayJob": _ray("spec.rayClusterSpec"),
    "RayService": _ray("spec.rayClusterConfig"),
}
"""kinds whose controllers create several kinds of pods, and mark those that belong together"""
