"""Admission: validates new pods and workloads, changes pods at their creation, and answers the API server.

Unmanaged pods are never sent: `linkwise manifests webhook` prints the same conditions for the API server. Filter checks
requests and shapes again, for pods that were created past the webhook; only at creation there is a clear message at
`kubectl apply`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.dialects.groups.conventions import KUEUE
from linkwise.dialects.groups.membership import REPLICA, may_have_group
from linkwise.dialects.kubernetes.claims.requests import (
    CLAIM_REQUEST,
    POD_CLAIM,
    request_text,
    used_requests,
    with_claim_request,
)
from linkwise.dialects.linkwise.accelerator_policy import CREATOR, USER
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.linkwise.group_plan import GATE, is_gated
from linkwise.dialects.misspelt_keys import misspelt_keys
from linkwise.dialects.pod_resources import resources_of, with_resources_renamed
from linkwise.dialects.registry import is_record, owners, renamed_resources
from linkwise.model.access_policy import CONTROLLERS
from linkwise.model.json_patch import PatchOperation, pointer
from linkwise.vendors.container_needs import needs_rules, runtime_variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Additions, Admission
    from linkwise.dialects.kubernetes.claims.requests import ClaimRequest
    from linkwise.dialects.kubernetes.pod_templates import Template
    from linkwise.model.access_policy import Requester
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView

__all__ = [
    "DEFAULT_SCHEDULERS",
    "UNCHANGED",
    "AdmissionVerdict",
    "Task",
    "Validator",
    "change_pod",
    "copies_workloads",
    "is_managed",
    "keeps_creator",
    "renaming",
    "schedules",
    "set_template_creator",
]

DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
"""names that mean: any scheduler will do"""
VOID: Final = "void"
"""makes container runtimes add neither devices nor libraries"""
_CONTAINERS: Final = ("initContainers", "containers")
Task = tuple[str, int, "PodView"]
"""name of a task, number of its pods, and one of them"""


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """Whether an object is admitted, and as what."""

    refusal: str = ""
    """why not; empty if it is"""
    warnings: tuple[str, ...] = ()
    """for the person who creates it"""
    patch: tuple[PatchOperation, ...] = ()


UNCHANGED = AdmissionVerdict()
"""admitted as it is"""


def is_managed(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether a pod requests devices, or is a member without devices of a group that Linkwise schedules."""
    return asks_for_devices(pod) or CLAIM_REQUEST in pod.annotations or _is_launcher(pod, settings)


def schedules(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether Linkwise schedules a managed pod: it names our scheduler, or none."""
    return not pod.node and pod.scheduler in {*DEFAULT_SCHEDULERS, settings.scheduler}


def _is_launcher(pod: PodView, settings: AdmissionSettings) -> bool:
    """Whether a pod without devices is in a group.

    Only Kueue and Kubernetes itself form groups of pods that name no scheduler; the keys of all others mean something to
    us alone where the pod is left to the default scheduler.
    """
    if not may_have_group(pod):
        return False
    if pod.scheduler in DEFAULT_SCHEDULERS:
        return not pod.scheduling_group and KUEUE not in pod.labels
    return pod.scheduler == settings.scheduler


def copies_workloads(requester: Requester) -> bool:
    """Whether a workload is made by a controller of Kubernetes from one that the webhook saw: a Job of a CronJob."""
    return requester.user in CONTROLLERS


def keeps_creator(pod: PodView, requester: Requester, settings: AdmissionSettings) -> bool:
    """Whether a new pod keeps the creator that its template names: a controller creates it from a template."""
    trusted = requester.user in CONTROLLERS or requester.user in settings.controllers
    return trusted and bool(pod.annotations.get(USER))


def set_template_creator(
    templates: Iterable[Template], before: Sequence[Template], creator: Mapping[str, str]
) -> AdmissionVerdict:
    """Return the changes that put the creator into pod templates, so that the pods of a Job carry who created the Job.

    Args:
        templates: of the new object
        before: of the object that is updated; empty for a new one
        creator: annotations about who sent the request
    """
    old = {template.steps: template.document for template in before}
    patch: list[PatchOperation] = []
    for template in templates:
        earlier = old.get(template.steps)
        # A user who scales or annotates a Deployment does not become the user of its pods: that would replace them all.
        same = earlier is not None and _without_creator(earlier) == _without_creator(template.document)
        # A template of before the webhook stays without one.
        kept = _annotations(earlier) if same and earlier is not None else creator
        patch += _set_creator(template, {key: kept[key] for key in CREATOR if key in kept})
    return AdmissionVerdict(patch=tuple(patch))


def _set_creator(template: Template, creator: Mapping[str, object]) -> list[PatchOperation]:
    steps, annotations = (*template.steps, "metadata"), _annotations(template.document)
    if annotations:
        removed = [key for key in CREATOR if key in annotations and key not in creator]
        changed = {key: text for key, text in creator.items() if annotations.get(key) != text}
        return [
            *(PatchOperation("remove", pointer(*steps, "annotations", key)) for key in removed),
            *(PatchOperation("add", pointer(*steps, "annotations", key), text) for key, text in changed.items()),
        ]
    if not creator:
        return []
    if _metadata(template.document):
        return [PatchOperation("add", pointer(*steps, "annotations"), dict(creator))]
    return [PatchOperation("add", pointer(*steps), {"annotations": dict(creator)})]


def _without_creator(template: Mapping[str, Any]) -> dict[str, Any]:
    meta = _metadata(template)
    annotations = {key: value for key, value in _annotations(template).items() if key not in CREATOR}
    kept = {key: value for key, value in meta.items() if key != "annotations"}
    return {**template, "metadata": {**kept, "annotations": annotations}}


def _metadata(template: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = template.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _annotations(template: Mapping[str, Any]) -> Mapping[str, Any]:
    annotations = _metadata(template).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def change_pod(
    document: Mapping[str, Any], pod: PodView, requester: Requester, settings: AdmissionSettings, additions: Additions
) -> AdmissionVerdict:
    """Return the changes of a new pod, and a warning for each that a user should know of."""
    managed = is_managed(pod, settings)
    if not managed and not settings.hide_devices:
        # rule 000.skip: a pod that requests no managed device is not delayed, not scored, not changed.
        return UNCHANGED
    if additions.refusal:
        return AdmissionVerdict(additions.refusal)
    gated = settings.volcano_gates if additions.planned_for_volcano else settings.gates and schedules(pod, settings)
    changes = _Changes(document, additions, additions.claim if gated else None)
    uses = used_requests(with_resources_renamed(pod, additions.renamed), changes.claim) if changes.claim else {}
    for steps, container in _containers(document):
        changes.container(steps, container, hide=settings.hide_devices, request=uses.get(_name(container), ""))
    if managed:
        if schedules(pod, settings):
            changes.schedule(pod, settings, in_gang=additions.in_gang)
        elif settings.volcano_gates and additions.planned_for_volcano and not pod.node:
            # rule 003.in-session: Volcano tries a pod when its chips are chosen, so that no two pods of a session share one.
            changes.gate(pod)
        if CLAIM_REQUEST in pod.annotations and gated:
            changes.gate(pod)
        if changes.claim:
            changes.name_claim(pod, changes.claim)
        elif additions.warning:
            changes.warnings.append(additions.warning)
        changes.annotate(None if keeps_creator(pod, requester, settings) else additions.creator)
    return AdmissionVerdict(warnings=tuple(dict.fromkeys(changes.warnings)), patch=tuple(changes.patch))


class _Changes:
    """Patch of one pod, as it is put together."""

    def __init__(self, document: Mapping[str, Any], additions: Additions, claim: ClaimRequest | None = None) -> None:
        self.document, self.additions, self.claim = document, additions, claim
        self.patch: list[PatchOperation] = []
        self.warnings: list[str] = []
        self.gated = False

    def container(
        self, steps: tuple[str | int, ...], container: Mapping[str, Any], *, hide: bool, request: str = ""
    ) -> None:
        """Change the resources and the environment of a container; `request` is that of the claim that it uses."""
        self._change_resources(steps, container, self.additions.resources.get(_name(container), {}), request)
        if _requests_devices(container):
            self._remove_variables(steps, container)
        elif hide:
            self._hide_devices(steps, container)

    def schedule(self, pod: PodView, settings: AdmissionSettings, *, in_gang: bool) -> None:
        """Name our scheduler, and hold back members of gangs."""
        if pod.scheduler != settings.scheduler:
            self._set(("spec", "schedulerName"), settings.scheduler)
        # rule 001.gang: a gated member can't be bound before the complete gang is planned.
        if settings.gates and in_gang:
            self.gate(pod)

    def name_claim(self, pod: PodView, claim: ClaimRequest) -> None:
        """Let the pod use a claim that is written when its devices are planned, and hold it back until then."""
        self.gate(pod)
        claims, entry = _part(self.document, "spec").get("resourceClaims"), {"name": POD_CLAIM}
        named = {**entry, "resourceClaimName": claim.claim}
        self._set(
            ("spec", "resourceClaims", "-") if claims else ("spec", "resourceClaims"), named if claims else [named]
        )

    def gate(self, pod: PodView) -> None:
        """Hold the pod back until its devices are planned."""
        if is_gated(pod) or self.gated:
            return
        self.gated = True
        gate, gates = {"name": GATE}, _part(self.document, "spec").get("schedulingGates")
        self._set(("spec", "schedulingGates", "-") if gates else ("spec", "schedulingGates"), gate if gates else [gate])

    def annotate(self, creator: Mapping[str, str] | None) -> None:
        """Record what the pod asked for, and who created it, whatever its manifest claims; None keeps the creator."""
        annotations = _part(self.document, "metadata").get("annotations")
        wanted = {CLAIM_REQUEST: request_text(self.claim)} if self.claim else {}
        wanted = {**(creator or {}), **wanted}
        if not annotations:
            if wanted or creator is not None:
                self._set(("metadata", "annotations"), wanted)
            return
        for key in CREATOR if creator is not None else ():
            if key in annotations and key not in wanted:
                self.patch.append(PatchOperation("remove", pointer("metadata", "annotations", key)))
        for key, value in wanted.items():
            if annotations.get(key) != value:
                self._set(("metadata", "annotations", key), value)

    def _set(self, steps: tuple[str | int, ...], value: object) -> None:
        self.patch.append(PatchOperation("add", pointer(*steps), value))

    def _change_resources(
        self, steps: tuple[str | int, ...], container: Mapping[str, Any], added: Mapping[str, str], request: str
    ) -> None:
        """Replace names that no node has, add a policy's default share, and use a claim instead of the resource."""
        resources = _part(container, "resources")
        limits, requests = _part(resources, "limits"), _part(resources, "requests")
        renamed = self.additions.renamed
        old_names = [name for name in renamed if name in limits or name in requests]
        if not (old_names or added or request):
            return
        limits, requests = {**limits, **added}, {**requests, **added}
        self.warnings += [
            f"{name}: set to {share}, the default of an AcceleratorPolicy" for name, share in added.items()
        ]
        for old in old_names:
            # rule 002.name: pods of 2016 run as they are.
            new = renamed[old]
            requested = requests.pop(old, None)
            amount = limits.pop(old, requested)
            if new not in limits and new not in requests:
                limits[new] = amount  # extended resources need a limit, and a request that equals it
                requests |= {} if requested is None else {new: amount}
            elif str(limits.get(new, requests.get(new))) != str(amount):
                self.warnings.append(f"{old}: ignored, because the container requests {new} too")
                continue
            self.warnings.append(renaming(old, new))
        changed = {**resources, "limits": limits, "requests": requests}
        if self.claim and request:
            limits.pop(self.claim.resource, None)
            requests.pop(self.claim.resource, None)
            used = resources.get("claims")
            changed["claims"] = [*(used if isinstance(used, list) else ()), {"name": POD_CLAIM, "request": request}]
        self._set((*steps, "resources"), {name: part for name, part in changed.items() if part})

    def _remove_variables(self, steps: tuple[str | int, ...], container: Mapping[str, Any]) -> None:
        """Remove variables that would select other devices than those that were allocated."""
        variables = _variables(container)
        selecting = set(runtime_variables())
        for place, name in reversed(list(enumerate(variables))):
            if name in selecting:
                # rule 004.manifests: the seed's sample sets one to `all`, which may win over the device plugin's.
                self.patch.append(PatchOperation("remove", pointer(*steps, "env", place)))
                self.warnings.append(
                    f"{name}: removed from container {_name(container)}; it gets the allocated devices"
                )
        used = {rule.used for rule in needs_rules().values() if rule.used}
        for name in sorted(used & set(variables)):
            self.warnings.append(
                f"{name}: container {_name(container)} sets it itself and may not use the devices it is allocated"
            )

    def _hide_devices(self, steps: tuple[str | int, ...], container: Mapping[str, Any]) -> None:
        """Set the variables of a container without devices to `void`: many images set them to `all`."""
        entries = _entries(container)
        kept = [
            entry for entry in entries if not isinstance(entry, dict) or entry.get("name") not in runtime_variables()
        ]
        hidden = [*kept, *({"name": name, "value": VOID} for name in runtime_variables())]
        if hidden != entries:
            self._set((*steps, "env"), hidden)


def renaming(old: str, new: str, where: str = "") -> str:
    """The warning about a resource that is replaced."""
    why = (
        "Kubernetes no longer accepts the old name"
        if old in renamed_resources()
        else "its devices can serve the request"
    )
    return f"{old}: replaced by {new}{where}; {why}"


def _requests_devices(container: Mapping[str, Any]) -> bool:
    resources = _part(container, "resources")
    if resources.get("claims"):
        return True
    return any(owners(name) for part in ("limits", "requests") for name in _part(resources, part))


def _containers(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    spec = _part(document, "spec")
    for kind in _CONTAINERS:
        for place, container in enumerate(spec.get(kind) or ()):
            if isinstance(container, dict):
                yield ("spec", kind, place), container


def _variables(container: Mapping[str, Any]) -> list[str]:
    return [str(entry.get("name", "")) if isinstance(entry, dict) else "" for entry in _entries(container)]


def _entries(container: Mapping[str, Any]) -> list[object]:
    entries = container.get("env")
    return entries if isinstance(entries, list) else []


def _name(container: Mapping[str, Any]) -> str:
    return str(container.get("name", ""))


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = document.get(key)
    return part if isinstance(part, dict) else {}


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
        pod = with_claim_request(pod)
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
