"""Pod templates: where each kind of workload has them, and the pods that its controllers create from them.

That includes JobSets, LeaderWorkerSets, training jobs and Ray clusters: names, labels, indexes and owners are worked out as
their controllers would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.groups.owners import JOBSET, LWS, RAY, TRAINING
from linkwise.errors import InputError
from linkwise.model.views import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "OPERATOR_JOBS",
    "TEMPLATES",
    "UID",
    "WORKLOADS",
    "WORKLOAD_KINDS",
    "OperatorJob",
    "PodTemplate",
    "Stamp",
    "Template",
    "Workload",
    "WorkloadObject",
    "at",
    "count_at",
    "entries_at",
    "is_operator_job",
    "job_stamp",
    "object_at",
    "owner_of",
    "pod_templates",
    "stamped",
    "templated",
    "templates",
    "workload_of",
]

UID: Final = "UID"
"""stands for the UID of an object that was not created yet"""


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """An object that may create pods."""

    document: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.document.get("kind", ""))

    @property
    def name(self) -> str:
        """The name of the object."""
        meta = self.document.get("metadata")
        return str(meta.get("name") or meta.get("generateName") or "") if isinstance(meta, dict) else ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What distinguishes a pod from the others of its template."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    """the controller that creates the pod"""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod template of an object."""

    name: str
    count: int
    document: dict[str, Any]
    """the pod as Kubernetes would create it; the first one if they differ"""
    path: str = ""
    """of the part of the object that defines it; empty for the whole object"""
    stamp: Callable[[int], Stamp] | None = None
    """pods by number, of kinds whose controllers tell which pods belong together"""
    note: str = ""
    """what the manifest alone does not tell"""


def stamped(document: Mapping[str, Any], stamp: Stamp) -> dict[str, Any]:
    """Return a pod with its own name, labels and annotations, which its controller sets over those of the template."""
    meta = document["metadata"]
    words = {
        key: {**(own if isinstance(own := meta.get(key), dict) else {}), **added}
        for key, added in (("labels", stamp.labels), ("annotations", stamp.annotations))
    }
    return {**document, "metadata": {**meta, **words, "name": stamp.name}}


def templated(owner: Mapping[str, Any], template: object, name: str) -> dict[str, Any]:
    """Return the pod of a template with the name and namespace of its owner."""
    pod = dict(template) if isinstance(template, dict) else {}
    meta = pod.get("metadata")
    own = at(owner, "metadata")
    namespace = own.get("namespace") if isinstance(own, dict) else None
    pod["metadata"] = {
        **({"namespace": namespace} if namespace else {}),
        **(meta if isinstance(meta, dict) else {}),
        "name": name,
    }
    return pod


def owner_of(source: WorkloadObject, kind: str = "", name: str = "") -> Owner:
    """Return the object as an owner, or one that its controller would create."""
    uid = at(source.document, "metadata", "uid")
    own = uid if isinstance(uid, str) and uid and not kind else UID
    return Owner(kind or source.kind, name or source.name, own)


def at(document: object, *path: str) -> Any:  # noqa: ANN401 - raw YAML
    """Return the value at a path; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def object_at(document: object, path: str) -> dict[str, Any]:
    """Return the object at a dotted path; InputError if it is missing or something else."""
    value = at(document, *path.split("."))
    if isinstance(value, dict):
        return value
    raise InputError(f"{path}: {'it is missing' if value is None else f'expected an object, got {_shown(value)}'}")


def entries_at(document: object, path: str) -> list[dict[str, Any]]:
    """Return the list of objects at a dotted path, empty if there is none; InputError if it is something else."""
    value = at(document, *path.split("."))
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{path}: expected a list, got {_shown(value)}")
    for number, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise InputError(f"{path}[{number}]: expected an object, got {_shown(entry)}")
    return value


def count_at(document: object, path: str, default: int, within: str = "", least: int = 0) -> int:
    """Return the number at a dotted path; InputError if it is something else. `within` is where the document stands."""
    value = at(document, *path.split("."))
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise InputError(f"{within}{path}: expected a whole number of {least} or more, got {_shown(value)}")


def _shown(value: object) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else repr(value)[:60]


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


WORKLOAD_KINDS: Final = (
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


_BY_RESOURCE: Final = {(workload.group, workload.resource): workload for workload in WORKLOAD_KINDS}
_OPERATED: Final = {(job.group, job.resource) for job in OPERATOR_JOBS}
