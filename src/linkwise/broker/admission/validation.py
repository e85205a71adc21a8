"""Validation of new pods and workloads: forged records, group labels, requests, job shapes, misspelt names.

Filter checks requests and shapes again, for pods that were created past the webhook; only at creation there is a clear
message at `kubectl apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.admission.pod_changes import renaming
from linkwise.broker.admission.scope import DEFAULT_SCHEDULERS
from linkwise.broker.admission.verdict import AdmissionVerdict
from linkwise.dialects.groups.membership import REPLICA
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.misspelt_keys import misspelt_keys
from linkwise.dialects.pod_resources import resources_of, with_resources_renamed
from linkwise.dialects.registry import is_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkwise.broker.answers import Admission
    from linkwise.broker.broker import Broker
    from linkwise.model.requester import Requester
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = ["Task", "Validator"]

Task = tuple[str, int, "PodView"]
"""name of a task, number of its pods, and one of them"""


class Validator:
    """Validates what users create; answers depend on the broker's settings and, for hints only, on its nodes."""

    def __init__(self, broker: Broker, settings: AdmissionSettings) -> None:
        self._broker = broker
        self._serves = {*DEFAULT_SCHEDULERS, settings.scheduler, *broker.settings.volcano.schedulers}
        self._largest_card = 0  # units of memory
        self._looked_at = 0  # nodes: large clusters are not searched for every pod
        self._largest_nodes: dict[str, tuple[int, int]] = {}
        """devices of the largest node by resource, and the number of nodes that were looked at"""

    def pod(self, pod: PodView, requester: Requester) -> AdmissionVerdict:
        """Return whether a pod may be created."""
        return self._verdict((pod,), self._broker.admit(pod, requester))

    def workload(self, tasks: Sequence[Task], requester: Requester, *, is_job: bool) -> AdmissionVerdict:
        """Return whether a workload may be created; `is_job` if its pods form one job."""
        additions = [self._broker.additions(pod, requester, keep=False) for _, _, pod in tasks]
        renamed = [
            (name, count, with_resources_renamed(pod, added.renamed))
            for (name, count, pod), added in zip(tasks, additions, strict=True)
        ]
        # rule 003.valid-job: a job is refused as a whole when it is created, not pod by pod.
        jobs = [renamed] if is_job else [[task] for task in renamed]
        admissions = [
            self._broker.admit_job(job, requester) if is_job else self._broker.admit(job[0][2], requester)
            for job in jobs
        ]
        verdicts = [
            self._verdict([pod for _, _, pod in job], admission)
            for job, admission in zip(jobs, admissions, strict=True)
        ]
        refusals = (*(added.refusal for added in additions), *(verdict.refusal for verdict in verdicts))
        refused = next(filter(None, refusals), "")
        old = (_old_names(pod, added.renamed) for (_, _, pod), added in zip(tasks, additions, strict=True))
        warnings = (warning for part in (*old, *(verdict.warnings for verdict in verdicts)) for warning in part)
        return AdmissionVerdict(refused, tuple(dict.fromkeys(warnings)))

    def operator_job(self, pods: Sequence[PodView], requester: Requester) -> AdmissionVerdict:
        """Return warnings on a job, one pod per template: its operator's pods are decided on when they are created."""
        warnings: list[str] = []
        for pod in pods:
            added = self._broker.additions(pod, requester, keep=False)
            renamed = with_resources_renamed(pod, added.renamed)
            # Not for the requester: the operator creates the pods.
            verdict = self._verdict((renamed,), self._broker.admit(renamed))
            refusal = added.refusal or verdict.refusal
            warnings += [f"its pods will be refused: {refusal}"] if refusal else []
            warnings += verdict.warnings
        return AdmissionVerdict("", tuple(dict.fromkeys(warnings)))

    def _verdict(self, pods: Sequence[PodView], admission: Admission) -> AdmissionVerdict:
        """Add what admission of a request does not know: records, labels, names, sizes of cards; kubectl names the pod."""
        warnings = [problem.text for problem in admission.warnings]
        refused = ""
        for pod in pods:
            refused = refused or _forged(pod) or _replica(pod, admission.warnings)
            warnings += [problem.text for problem in misspelt_keys(pod)]
            warnings += self._card_warning(pod)
            warnings += self._node_warning(pod)
        if admission.refusal and not refused:
            if all(self._is_foreign(pod) for pod in pods):
                warnings.append(f"Linkwise can't place it: {admission.refusal}")
            else:
                refused = admission.refusal
        return AdmissionVerdict(refused, tuple(dict.fromkeys(each for each in warnings if each != refused)))

    def _is_foreign(self, pod: PodView) -> bool:
        """Whether a request that Linkwise can't read is meant for another scheduler, which may know better."""
        return pod.scheduler not in self._serves and self._broker.request(pod).broken is not None

    def _card_warning(self, pod: PodView) -> list[str]:
        """A warning if no card is large enough; a node with a larger one may join the cluster."""
        ask = self._broker.request(pod).ask
        if ask is None or ask.mode != "share" or ask.share <= self._largest_card:
            return []
        nodes = self._broker.usage
        if self._looked_at != len(nodes):
            shared = (node for node in nodes.values() if node.mode == "share")
            self._largest_card = max((device.memory for node in shared for device in node.devices), default=0)
            self._looked_at = len(nodes)
        if not 0 < self._largest_card < ask.share:
            return []
        # rule 004.one-card: the memory of a pod comes from one card.
        sentence = f"{ask.share} requested, but the largest device has {self._largest_card}, and a pod gets memory of one device"
        return [f"{ask.resource}: {sentence}"]

    def _node_warning(self, pod: PodView) -> list[str]:
        """A warning if no node has as many devices; one that does may join the cluster."""
        ask = self._broker.request(pod).ask
        if ask is None or not ask.devices or ask.resource == ACCELERATOR:
            return []
        largest, looked_at = self._largest_nodes.get(ask.resource, (0, -1))
        if ask.devices > largest and looked_at != len(self._broker.usage):
            largest = self._broker.largest_node(pod)
            self._largest_nodes[ask.resource] = (largest, len(self._broker.usage))
        if not 0 < largest < ask.devices:
            return []
        sentence = f"{ask.devices} requested, but the largest node has {largest}, and a pod gets devices of one node"
        pods, each = self._broker.split_up(pod, largest)
        advice = f"; split it into a group of {pods} pods with {each} each" if pods else ""
        return [f"{ask.resource}: {sentence}{advice}"]


def _forged(pod: PodView) -> str:
    """The refusal of a pod that carries a record of devices that were not allocated to it."""
    for key, value in pod.annotations.items():
        if value and is_record(key):
            return f"{key}: remove this annotation; it is set when devices are allocated to the pod, not by users"
    return ""


def _replica(pod: PodView, problems: Sequence[Problem]) -> str:
    """The refusal of a replica label that is not a number of pods; its other problems are warnings."""
    if REPLICA not in pod.labels:
        return ""
    return next((problem.text for problem in problems if problem.key == REPLICA), "")


def _old_names(pod: PodView, renamed: Mapping[str, str]) -> Iterator[str]:
    """Warnings about names in a template: the webhook replaces them in pods only."""
    names = resources_of(pod)
    return (renaming(old, new, " in its pods") for old, new in renamed.items() if old in names)
