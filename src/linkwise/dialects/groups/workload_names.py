"""Names of workloads: which pods belong to the Job, Deployment or other object that a user names.

Everything is read from the pod: its controller, and the labels by which controllers of controllers mark their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.conventions import Words
from linkwise.dialects.groups.owners import JOBSET, LWS, RAY, TRAINING, workload_of

if TYPE_CHECKING:
    from linkwise.model.views import PodView

__all__ = ["workloads_of"]

VOLCANO: Final = "volcano.sh/job-name"
_HASH: Final = "pod-template-hash"

_BY_LABEL: Final = {
    VOLCANO: "vcjob",
    f"{JOBSET}jobset-name": "jobset",
    f"{LWS}name": "leaderworkerset",
    f"{RAY}cluster": "raycluster",
}


def workloads_of(pod: PodView) -> frozenset[tuple[str, str]]:
    """Kind and name of every workload that a pod belongs to, the kind in lower case: its Job, and the JobSet of that Job."""
    found: set[tuple[str, str]] = set()
    owner = pod.owner
    if owner is not None and not (owner.kind == "Job" and pod.labels.get(VOLCANO) == owner.name):
        found.add((owner.kind.lower(), owner.name))
        template = pod.labels.get(_HASH, "")
        if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
            found.add(("deployment", owner.name.removesuffix(f"-{template}")))
    for label, kind in _BY_LABEL.items():
        if name := pod.labels.get(label) or (pod.annotations.get(label) if label == VOLCANO else ""):
            found.add((kind, name))
    if f"{TRAINING}job-name" in pod.labels and (workload := workload_of(Words(pod))):
        found.add((workload.kind.lower(), workload.name))
    return frozenset(found)
