"""Pods of JobSets, LeaderWorkerSets, training jobs and Ray clusters, as their controllers would create them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.groups.owners import JOBSET, LWS, RAY, TRAINING
from linkwise.dialects.pod_templates.template import (
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
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkwise.dialects.pod_templates.template import WorkloadObject

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
RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
"""policies of roles that are those of pods; with `ExitCode` the operator decides"""


def _job_set(source: WorkloadObject) -> Iterator[PodTemplate]:
    jobs = entries_at(source.document, "spec.replicatedJobs")
    if not jobs:
        raise InputError("spec.replicatedJobs: it is missing; a JobSet creates its pods from it")
    first = 0
    for number, job in enumerate(jobs):
        path = f"spec.replicatedJobs[{number}]."
        replicas = count_at(job, "replicas", 1, path)
        pods = _parallel(job, f"{path}template.", "template.spec.")
        role = str(job.get("name", ""))
        name = f"{source.name}-{role}".rstrip("-")

        def stamp(place: int, name: str = name, role: str = role, pods: int = pods, first: int = first) -> Stamp:
            index, pod = divmod(place, max(1, pods))
            return _of_a_job_set(source, f"{name}-{index}", role, (index, first + index), pod)

        template = _restarting(at(job, "template", "spec", "template"), "OnFailure")
        yield _template(source, template, name, replicas * pods, path[:-1], stamp)
        first += replicas


def _parallel(job: Mapping[str, Any], path: str, prefix: str) -> int:
    """Return how many pods of a Job run at the same time."""
    parallelism = count_at(job, f"{prefix}parallelism", 1, path.removesuffix("template."))
    completions = count_at(job, f"{prefix}completions", parallelism, path.removesuffix("template."))
    return min(parallelism, completions)


def _of_a_job_set(source: WorkloadObject, job: str, role: str, index: tuple[int, int], pod: int) -> Stamp:
    words = {
        f"{JOBSET}jobset-name": source.name,
        f"{JOBSET}jobset-uid": owner_of(source).uid,
        f"{JOBSET}replicatedjob-name": role,
        f"{JOBSET}job-index": str(index[0]),
        f"{JOBSET}job-global-index": str(index[1]),
        f"{JOBSET}restart-attempt": "0",
        COMPLETION_INDEX: str(pod),
    }
    return Stamp(f"{job}-{pod}", {**words, JOB_NAME: job}, words, owner_of(source, "Job", job))


def _leader_worker_set(source: WorkloadObject) -> Iterator[PodTemplate]:
    template = object_at(source.document, "spec.leaderWorkerTemplate")
    groups = count_at(source.document, "spec.replicas", 1)
    size = count_at(source.document, "spec.leaderWorkerTemplate.size", 1, least=1)
    object_at(source.document, "spec.leaderWorkerTemplate.workerTemplate")
    own = "leaderTemplate" if isinstance(template.get("leaderTemplate"), dict) else "workerTemplate"

    def stamp(group: int, worker: int) -> Stamp:
        leader = f"{source.name}-{group}"
        labels = {
            f"{LWS}name": source.name,
            f"{LWS}group-index": str(group),
            f"{LWS}group-key": owner_of(source).uid,
            f"{LWS}worker-index": str(worker),
        }
        owner = owner_of(source, "StatefulSet", leader if worker else source.name)
        return Stamp(f"{leader}-{worker}" if worker else leader, labels, {f"{LWS}size": str(size)}, owner)

    path = "spec.leaderWorkerTemplate."
    yield _template(source, template[own], source.name, groups, path + own, lambda place: stamp(place, 0))
    if size > 1:
        workers = size - 1
        yield _template(
            source,
            template["workerTemplate"],
            f"{source.name}-worker",
            groups * workers,
            f"{path}workerTemplate",
            lambda place: stamp(place // workers, place % workers + 1),
        )


def _training_job(source: WorkloadObject) -> Iterator[PodTemplate]:
    path = f"spec.{REPLICA_SPECS[source.kind]}"
    roles = object_at(source.document, path)
    operator = "mpi-operator" if source.kind == "MPIJob" else f"{source.kind.casefold()}-controller"
    for role in roles:
        spec = object_at(source.document, f"{path}.{role}")
        kind = str(role).casefold()
        name = f"{source.name}-{kind}"
        launches = source.kind == "MPIJob" and kind == "launcher"
        owner = owner_of(source, "Job", name) if launches else owner_of(source)

        def stamp(place: int, name: str = name, kind: str = kind, owner: Any = owner) -> Stamp:  # noqa: ANN401 - Owner
            labels = {
                f"{TRAINING}job-name": source.name,
                f"{TRAINING}operator-name": operator,
                f"{TRAINING}replica-type": kind,
                f"{TRAINING}replica-index": str(place),
            }
            return Stamp(f"{name}-{place}", labels, {}, owner)

        count = count_at(spec, "replicas", 1, f"{path}.{role}.")
        restart = spec.get("restartPolicy")
        template = _restarting(spec.get("template"), restart if restart in RESTART_POLICIES else "Never")
        yield _template(source, template, name, count, f"{path}.{role}", stamp)


def _train_job(source: WorkloadObject) -> Iterator[PodTemplate]:
    """The pods of the trainer as far as the TrainJob defines them: their templates are in the runtime that it names."""
    trainer = at(source.document, "spec", "trainer")
    if trainer is not None and not isinstance(trainer, dict):
        raise InputError("spec.trainer: expected an object")
    runtime = at(source.document, "spec", "runtimeRef", "name")
    if not isinstance(runtime, str) or not runtime:
        raise InputError("spec.runtimeRef: it is missing; name the runtime whose template the job uses")
    nodes = count_at(source.document, "spec.trainer.numNodes", 1)
    container = {"name": "node", "image": at(trainer, "image") or runtime}
    container["resources"] = at(trainer, "resourcesPerNode") or {}
    missing = [key for key in ("numNodes", "resourcesPerNode") if at(trainer, key) is None]
    note = f"the pod template is in the runtime {runtime}, a separate object"
    note += f"; {' and '.join(missing)} may be set there" if missing else ""

    def stamp(place: int) -> Stamp:
        return _of_a_job_set(source, f"{source.name}-node-0", "node", (0, 0), place)

    template = {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    yield _template(source, template, f"{source.name}-node", nodes, "spec.trainer", stamp, note)


def _ray(path: str) -> Callable[[WorkloadObject], Iterator[PodTemplate]]:
    """Return the expansion of a kind that has the spec of a RayCluster at a path."""

    def expand(source: WorkloadObject) -> Iterator[PodTemplate]:
        if source.kind == "RayJob" and at(source.document, "spec", "clusterSelector"):
            raise InputError("spec.clusterSelector: the job runs on a RayCluster that exists; read that one")
        object_at(source.document, path)
        cluster = source.name if source.kind == "RayCluster" else f"{source.name}-raycluster"
        owner = owner_of(source) if source.kind == "RayCluster" else owner_of(source, "RayCluster", cluster)

        def stamp(role: str, group: str, name: str) -> Stamp:
            labels = {
                f"{RAY}cluster": cluster,
                f"{RAY}node-type": role,
                f"{RAY}group": group,
                f"{RAY}is-ray-node": "yes",
            }
            return Stamp(name, labels, {}, owner)

        head = object_at(source.document, f"{path}.headGroupSpec")
        name = f"{cluster}-head"
        where = f"{path}.headGroupSpec"
        yield _template(source, head.get("template"), name, 1, where, lambda _: stamp("head", "headgroup", name))
        for number, group in enumerate(entries_at(source.document, f"{path}.workerGroupSpecs")):
            where = f"{path}.workerGroupSpecs[{number}]"
            least = count_at(group, "minReplicas", 0, f"{where}.")
            hosts = count_at(group, "numOfHosts", 1, f"{where}.", least=1)
            count = count_at(group, "replicas", least, f"{where}.") * hosts
            own = str(group.get("groupName", ""))

            def worker(place: int, own: str = own) -> Stamp:
                return stamp("worker", own, f"{cluster}-{own}-worker-{place}")

            yield _template(source, group.get("template"), f"{cluster}-{own}-worker", count, where, worker)

    return expand


def _restarting(template: object, policy: str) -> object:
    """Return a pod template with the restart policy that its controller sets where it has none."""
    spec = at(template, "spec")
    if not isinstance(template, dict) or not isinstance(spec, dict):
        return template
    return {**template, "spec": {"restartPolicy": policy, **spec}}


def _template(  # noqa: PLR0913, PLR0917 - a builder
    source: WorkloadObject,
    template: object,
    name: str,
    count: int,
    path: str,
    stamp: Callable[[int], Stamp],
    note: str = "",
) -> PodTemplate:
    if not isinstance(template, dict):
        raise InputError(f"{path}: it has no pod template")
    pod = stamped(templated(source.document, template, name), stamp(0))
    return PodTemplate(name, count, pod, path, stamp, note)


WORKLOADS: Final[Mapping[str, Callable[[WorkloadObject], Iterator[PodTemplate]]]] = {
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    **dict.fromkeys(REPLICA_SPECS, _training_job),
    "TrainJob": _train_job,
    "RayCluster": _ray("spec"),
    "RayJob": _ray("spec.rayClusterSpec"),
    "RayService": _ray("spec.rayClusterConfig"),
}
"""kinds whose controllers create several kinds of pods, and mark those that belong together"""
