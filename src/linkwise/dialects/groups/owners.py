"""Groups by owner: the workload that a pod belongs to, by labels and owner references, and its name for users.

Everything is read from the pod, so that no kind of job has to be watched. Source: contract koordinator, section 8, rule 1.

    Job                       owner reference; the completion index is the rank
    JobSet, TrainJob          jobset-name and jobset-uid, per restart attempt; its Jobs belong to it
    LeaderWorkerSet           name, group-index and group-key: each group is its own, of `size` pods
    PyTorchJob and the like   owner reference and training.kubeflow.org/job-name
    MPIJob                    training.kubeflow.org/job-name: in v2beta1 a Job owns the launcher
    RayCluster, RayJob        owner reference and ray.io/cluster; a RayJob creates a RayCluster per attempt
    other controllers         owner reference

Everything is read from the pod: its controller, and the labels by which controllers of controllers mark their pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, get_args

from linkwise.dialects.groups.conventions import Words
from linkwise.model.ask import Group

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.settings import GroupSettings
    from linkwise.model.views import PodView

__all__ = [
    "MODES",
    "OWNER",
    "OwnerMode",
    "OwnerRules",
    "Workload",
    "counts_every_pod",
    "owner_group",
    "workload_of",
    "workloads_of",
]

OWNER: Final = "owner"
"""source of these groups"""
OwnerMode = Literal["none", "group", "gang"]
"""whether pods of one owner are a group, and whether its members start together"""
MODES: Final[tuple[OwnerMode, ...]] = get_args(OwnerMode)

EVERYWHERE: Final = ("DaemonSet", "Node")
"""owners whose pods have their nodes already"""
TRAINING_KINDS: Final = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob", "MPIJob")

JOBSET: Final = "jobset.sigs.k8s.io/"
LWS: Final = "leaderworkerset.sigs.k8s.io/"
TRAINING: Final = "training.kubeflow.org/"
RAY: Final = "ray.io/"
MPI_OPERATORS: Final = ("mpi-operator", "mpijob-controller")
"""values of operator-name, of the MPI operator and of the training operator"""
VOLCANO: Final = "volcano.sh/job-name"
_HASH: Final = "pod-template-hash"
_BY_LABEL: Final = {
    VOLCANO: "vcjob",
    f"{JOBSET}jobset-name": "jobset",
    f"{LWS}name": "leaderworkerset",
    f"{RAY}cluster": "raycluster",
}


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """Where pods of one owner form groups: by namespace, the most specific name or pattern first."""

    by_namespace: tuple[tuple[str, OwnerMode], ...] = ()
    everywhere: bool = False
    """in all other namespaces, as groups that are not gangs"""

    @classmethod
    def of(cls, settings: GroupSettings) -> OwnerRules:
        """Return the rules of the settings `owners` and `by_owner`."""
        ordered = sorted(settings.owners.items(), key=lambda rule: (_is_pattern(rule[0]), -len(rule[0]), rule[0]))
        return cls(tuple((name, mode) for name, text in ordered for mode in MODES if mode == text), settings.by_owner)

    def mode(self, namespace: str) -> OwnerMode:
        """Return what holds in a namespace."""
        for name, mode in self.by_namespace:
            if name == namespace or (_is_pattern(name) and fnmatchcase(namespace, name)):
                return mode
        return "group" if self.everywhere else "none"

    def __bool__(self) -> bool:
        return self.everywhere or bool(self.by_namespace)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods that one object of a user makes, and that run together."""

    kind: str
    name: str
    """for people"""
    identity: str
    """distinguishes it from an earlier one of that name"""
    role: str = ""
    size: int | None = None
    """the number of its pods; None if the pod does not tell it"""
    together: bool = True
    """whether its pods work on one task; replicas of a service do not"""


def owner_group(words: Words, mode: OwnerMode) -> Group | None:
    """Return the group of the workload that a pod belongs to; None if it belongs to none."""
    workload = None if mode == "none" else workload_of(words)
    if workload is None:
        return None
    gang = mode == "gang" and workload.together
    return Group(
        words.key(f"{workload.name}.{workload.identity}"),
        OWNER,
        total=workload.size,
        minimum=workload.size if gang else None,
        role=workload.role,
        # A recreated member counts as a new one: all that are pending start together, however many ran before.
        match_policy="waiting-and-running" if gang else "once-satisfied",
        all_members=gang and workload.size is None,
        settles=workload.together and workload.size is None,
    )


def workload_of(words: Words) -> Workload | None:
    """Return the workload of a pod, by the first convention that its labels or owner reference match."""
    return next((workload for read in READERS if (workload := read(words))), None)


def counts_every_pod(pod: PodView) -> bool:
    """Return whether pods that request no devices are members too, because the size of the workload counts them."""
    return f"{LWS}group-key" in pod.labels


def _jobset(words: Words) -> Workload | None:
    name = _said(words, f"{JOBSET}jobset-name")
    if not name:
        return None
    uid, attempt = _said(words, f"{JOBSET}jobset-uid"), _said(words, f"{JOBSET}restart-attempt") or "0"
    role = _said(words, f"{JOBSET}replicatedjob-name")
    # Versions before jobset-uid: a JobSet of the same name can't exist before the pods of the old one are deleted.
    return Workload("JobSet", name, f"{uid or 'jobset'}.{attempt}", role)


def _leader_worker_set(words: Words) -> Workload | None:
    name, group = words.labels.get(f"{LWS}name", ""), words.labels.get(f"{LWS}group-index", "")
    key = words.labels.get(f"{LWS}group-key", "")
    if not (name and group and key):
        return None
    revision = words.labels.get(f"{LWS}template-revision-hash", "")
    size, index = words.annotations.get(f"{LWS}size"), words.labels.get(f"{LWS}worker-index", "")
    return Workload(
        "LeaderWorkerSet",
        f"{name}-{group}",
        f"{key}.{revision}" if revision else key,
        "leader" if index == "0" else "worker",
        None if size is None else words.count(f"{LWS}size", size),
    )


def _training(words: Words) -> Workload | None:
    name, owner = words.labels.get(f"{TRAINING}job-name", ""), words.pod.owner
    if not name:
        return None
    role = words.labels.get(f"{TRAINING}replica-type", "") or words.labels.get(f"{TRAINING}job-role", "")
    if words.labels.get(f"{TRAINING}operator-name") in MPI_OPERATORS or (owner and owner.kind == "MPIJob"):
        return Workload("MPIJob", name, "mpijob", role)
    if owner is None or not owner.uid or owner.kind not in TRAINING_KINDS:
        return None
    return Workload(owner.kind, name, owner.uid, role)


def _ray(words: Words) -> Workload | None:
    name, owner = words.labels.get(f"{RAY}cluster", ""), words.pod.owner
    if not name or owner is None or owner.kind != "RayCluster" or not owner.uid:
        return None
    kind = words.labels.get(f"{RAY}node-type", "")
    role = kind if kind == "head" else words.labels.get(f"{RAY}group", "") or kind
    return Workload("RayCluster", name, owner.uid, role)


def _controller(words: Words) -> Workload | None:
    """The controller of the pod; its name is for people, the UID distinguishes a new one from an old one."""
    owner = words.pod.owner
    if owner is None or not owner.uid or owner.kind in EVERYWHERE:
        return None
    return Workload(owner.kind, owner.name, owner.uid, together=owner.kind == "Job")


def _said(words: Words, key: str) -> str:
    """A value that its controller writes as label and annotation."""
    return words.labels.get(key) or words.annotations.get(key) or ""


READERS: Final[tuple[Callable[[Words], Workload | None], ...]] = (
    _jobset,
    _leader_worker_set,
    _training,
    _ray,
    _controller,
)
"""the first that matches decides; what creates others comes before what they create"""


def workloads_of(pod: PodView) -> frozenset[tuple[str, str]]:
    """Kind and name of every workload that a pod belongs to, the kind in lower case: its Job, and the JobSet of that Job."""
    workloads: set[tuple[str, str]] = set()
    owner = pod.owner
    if owner is not None and not (owner.kind == "Job" and pod.labels.get(VOLCANO) == owner.name):
        workloads.add((owner.kind.lower(), owner.name))
        template = pod.labels.get(_HASH, "")
        if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
            workloads.add(("deployment", owner.name.removesuffix(f"-{template}")))
    for label, kind in _BY_LABEL.items():
        if name := pod.labels.get(label) or (pod.annotations.get(label) if label == VOLCANO else ""):
            workloads.add((kind, name))
    if f"{TRAINING}job-name" in pod.labels and (workload := workload_of(Words(pod))):
        workloads.add((workload.kind.lower(), workload.name))
    return frozenset(workloads)
