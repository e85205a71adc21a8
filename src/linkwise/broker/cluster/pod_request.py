"""Pod requests: devices, group and policy of a pod, in the API of any supported system, cached per template.

The manifest itself is read by the dialects; this module adds the group and the policy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import with_exclusive_cpus
from linkwise.dialects.dialect import DefaultPolicies, where_pod
from linkwise.dialects.groups.membership import group_by_owner, group_of, may_have_group
from linkwise.dialects.groups.owners import OwnerRules, counts_every_pod
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST, has_claim_request
from linkwise.dialects.linkwise.dialect import POLICY, policy_of as annotated_policy
from linkwise.dialects.registry import BY_NAME, invalidates, owners, understand
from linkwise.model.verdict import Problem
from linkwise.policies.registry import POLICIES, alternatives
from linkwise.policies.ring_profiles import Task, job_refused, known_profile, total_refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.ask import Ask, Group
    from linkwise.model.settings import JobShape, PlacingSettings
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = [
    "ANNOTATION_BYTES",
    "LONGEST",
    "NO_OWNERS",
    "RESERVED_BYTES",
    "TEMPLATES",
    "PodRequest",
    "RequestCache",
    "annotation_bytes",
    "asks_for_devices",
    "group_said",
    "is_volcano",
    "job_refusal",
    "policy_of",
    "read_request",
    "total_refusal",
]

NO_OWNERS: Final = OwnerRules()
ANNOTATION_BYTES: Final = 256 * 1024
"""limit of all annotations of one object, by the API's validation"""
RESERVED_BYTES: Final = 16 * 1024
"""for annotations that Linkwise writes: the record of the devices, `linkwise.dev/woken`"""
TEMPLATES: Final = 4_096
LONGEST: Final = 8_192
"""largest annotations, in characters, that are cached beyond the life of a pod"""
_fields: Final = attrgetter(
    *("containers", "labels", "annotations", "overhead", "node_selector", "owner"),
    *("scheduling_group", "claims", "hosted_by_claims"),
)
"""the fields that dialects read, beside the namespace"""
_NONE: Final[Mapping[str, str]] = {}
RINGS: Final = "ring-affinity"


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The request of a pod, or its problems."""

    dialect: str = ""
    ask: Ask | None = None
    policy: str = ""
    group: Group | None = None
    problems: tuple[Problem, ...] = ()
    claimed: bool = False
    """whether a ResourceClaim serves its devices, ours or one that its status names: kubelet asks no device plugin then"""

    @property
    def broken(self) -> Problem | None:
        """The problem that makes the device request invalid; problems of the group do not count."""
        return None if self.ask else next(filter(invalidates, self.problems), None)


def read_request(pod: PodView, by_resource: Mapping[str, str], *, by_owner: OwnerRules = NO_OWNERS) -> PodRequest:
    """Read the request of a pod; `by_resource` and `by_owner` are the administrator's choice of policies and groups."""
    declared = understand(pod)
    if declared.ask and (oversized := _oversized(pod, declared.ask)):
        return PodRequest(declared.dialect, None, "", declared.group, (*declared.problems, oversized))
    group = group_said(pod, by_owner=by_owner)[0] if by_owner else declared.group
    ask = declared.ask and with_exclusive_cpus(declared.ask, pod)
    if ask is None:
        return PodRequest(declared.dialect, None, "", group, declared.problems)
    policy, wrong = policy_of(pod, declared.dialect, ask, in_group=group is not None, by_resource=by_resource)
    problems = (*declared.problems, wrong) if wrong else declared.problems
    # kube-scheduler never removes that status, even if the bind failed and the claim is deleted.
    claimed = ask.resource in pod.hosted_by_claims or has_claim_request(pod)
    return PodRequest(declared.dialect, ask, policy, group, problems, claimed)


def group_said(pod: PodView, *, by_owner: OwnerRules) -> tuple[Group | None, tuple[Problem, ...]]:
    """Return the group of a pod and its problems: the one that it declares, otherwise that of its owner by the rules."""
    if may_have_group(pod):
        return group_of(pod)
    mode = by_owner.mode(pod.namespace) if by_owner and pod.owner else "none"
    if mode == "none" or not (asks_for_devices(pod) or counts_every_pod(pod)):
        return None, ()
    return group_by_owner(pod, mode)


def asks_for_devices(pod: PodView) -> bool:
    """Return whether a container requests a managed resource; fast, as most pods do not."""
    # rule 000.skip: a pod that requests no managed device is not delayed, not scored, not changed.
    for container in pod.containers:
        for name in container.limits:
            if owners(name):
                return True
        for name in container.requests:
            if owners(name):
                return True
    return False


def annotation_bytes(annotations: Mapping[str, str]) -> int:
    """Return the size of annotations as the API server counts it."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())


class RequestCache:
    """Cache of pod requests, keyed by template.

    Args:
        by_resource: the administrator's choice of policies.
        by_owner: where pods of one owner form a group without declaring one.
        most: limit of cached templates.
    """

    def __init__(
        self, by_resource: Mapping[str, str], *, by_owner: OwnerRules = NO_OWNERS, most: int = TEMPLATES
    ) -> None:
        self._by_resource = by_resource
        self._by_owner = by_owner
        self._most = most
        self._known: dict[tuple[str, int, int, str | None], tuple[PodView, PodRequest]] = {}
        self._asks: dict[tuple[object, ...], tuple[PodView, Ask | None]] = {}

    def of(self, pod: PodView) -> PodRequest:
        """Return the request of a pod; fields are compared, because the caller may have invented the version."""
        # Views of one template share these objects; the cached view keeps their ids from being reused.
        template = (pod.namespace, id(pod.containers), id(pod.labels))
        for name in (None, pod.name):
            known = self._known.get((*template, name))
            if known and _same_request(known[0], pod):
                return known[1]
        request = read_request(pod, self._by_resource, by_owner=self._by_owner)
        if _characters(pod) <= LONGEST:
            self._known[*template, pod.name if request.problems else None] = (pod, request)  # problems name the pod
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return request

    def ask_of(self, pod: PodView) -> Ask | None:
        """Return the devices that the containers of a pod request, whatever its annotations; None if that is invalid."""
        template = (id(pod.containers), pod.claims, pod.hosted_by_claims)
        known = self._asks.get(template)
        if known is None:
            known = self._asks[template] = (pod, understand(replace(pod, annotations={}, labels={})).ask)
            if len(self._asks) > self._most:
                del self._asks[next(iter(self._asks))]
        return known[1]


def policy_of(
    pod: PodView, dialect: str, ask: Ask, *, in_group: bool, by_resource: Mapping[str, str] = _NONE
) -> tuple[str, Problem | None]:
    """The policy's name, and a problem if the pod names one that can't be used; then the dialect's default applies.

    `by_resource` is the administrator's choice; the pod's annotation takes precedence.
    """
    defaults = BY_NAME[dialect].policies if dialect in BY_NAME else DefaultPolicies()
    usual = defaults.part if not ask.devices else defaults.member if in_group else defaults.whole
    name = annotated_policy(pod) or by_resource.get(ask.resource, "")
    if name in {"", usual}:
        return usual, None
    choices = alternatives(usual, ask)
    if name in choices:
        return name, None
    wrong = "can't serve this request" if name in POLICIES else "is not registered"
    return usual, Problem(where_pod(pod), POLICY, f"policy {name!r} {wrong}; use one of {', '.join(choices)}")


def job_refusal(pods: Iterable[tuple[str, int, PodRequest]], shape: JobShape) -> Reason | None:
    """Return why the hardware does not support the shape of a job; None if it does.

    Args:
        pods: name of the task, number of its pods, and the request of each
        shape: the administrator's choice of rules
    """
    # rule 003.valid-job: one validator for the webhook, the filter of a group and Volcano.
    tasks: Counter[tuple[str, int]] = Counter()
    profile = None
    for name, count, request in pods:
        if request.ask is not None and request.policy == RINGS:
            profile = profile or known_profile(request.ask.profile)
            tasks[name, request.ask.devices] += max(0, count)
    listed = [Task(name, count, devices) for (name, devices), count in tasks.items()]
    return job_refused(listed, profile, shape) if profile else None


def total_refusal(request: PodRequest, devices: int, shape: JobShape) -> Reason | None:
    """Return why the hardware supports no job with that many devices in total; None if it does.

    Args:
        request: of any pod of the job that requests such devices
        devices: of all its pods together, whose number is not known
        shape: the administrator's choice of rules
    """
    # rule 003.valid-job: the same rules, where only the sum is known.
    profile = known_profile(request.ask.profile) if request.ask and request.policy == RINGS else None
    return total_refused(devices, profile, shape) if profile else None


def is_volcano(settings: PlacingSettings, pod: PodView) -> bool:
    """Whether a Volcano scheduler schedules the pod."""
    return pod.scheduler in settings.volcano.schedulers


def _same_request(known: PodView, pod: PodView) -> bool:
    """Return whether two pods of one template request the same; each has a claim of its own."""
    if CLAIM_REQUEST in pod.annotations and CLAIM_REQUEST in known.annotations:
        known, pod = (
            replace(each, annotations={**each.annotations, CLAIM_REQUEST: str(has_claim_request(each))})
            for each in (known, pod)
        )
    return bool(_fields(known) == _fields(pod))


def _oversized(pod: PodView, ask: Ask) -> Problem | None:
    """Return a problem if the annotations of a pending pod leave no space for the record of its devices.

    With too many annotations no update of the pod is valid any more, not even kubelet's of its status.
    """
    if pod.node or 4 * _characters(pod) <= ANNOTATION_BYTES - RESERVED_BYTES:  # a character has at most four bytes
        return None
    used, most = annotation_bytes(pod.annotations), ANNOTATION_BYTES - RESERVED_BYTES
    if used <= most:
        return None
    sentence = (
        f"the annotations of the pod have {used} bytes and leave no space for the record of its devices; "
        f"shorten them to {most} bytes at most"
    )
    return Problem(where_pod(pod), ask.resource, sentence)


def _characters(pod: PodView) -> int:
    return sum(map(len, pod.annotations)) + sum(map(len, pod.annotations.values()))
