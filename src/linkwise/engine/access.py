"""Access rules: what the policies that apply to a pod permit, and in which domain it shares devices.

Pods to which no policy applies are unrestricted. If several apply, all must permit: the stricter holds. A policy that can't
be read permits nothing to those it selects.

Sharing: every pod has a sharing domain, and a device is shared only by pods of one domain. That is both sides' permission:
a pod's domain has only pods that it permits, and equality has no sides. It is stricter than asking both in one case: a pod
that may share with any does not join one of its namespace that may share within the namespace only.

Source: seed 002, security considerations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.engine.requirements import suitable
from linkwise.engine.selectors import all_met
from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.requirement import Clause, Comparison, Requirement
from linkwise.model.verdict import Reason
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.access_policy import AcceleratorPolicy, ShareLimit, Subject, Subjects
    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.node import Node

__all__ = ["NO_RULES", "RULE", "AccessRule", "AccessRules", "Term", "devices_of", "matches", "selected"]

RULE: Final = "002.access"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""the label that the API server sets on every namespace"""
MOST_SUBJECTS: Final = 10_000
"""cached rules by subject; the cache is cleared when it is full"""
_WITHIN: Final[Mapping[str, tuple[bool, bool]]] = {
    "any": (False, False),
    "namespace": (True, False),
    "user": (False, True),
    "namespace-and-user": (True, True),
}
"""whether a domain is limited to the namespace, and to the user"""


@dataclass(frozen=True, slots=True)
class Term:
    """A policy that applies, and the entry by which it selects the pod: `namespace research`, `user alice`."""

    policy: AcceleratorPolicy
    who: str


@dataclass(frozen=True, slots=True)
class AccessRule:
    """All policies that apply to one subject, by name."""

    terms: tuple[Term, ...]
    domain: str = ""
    """the sharing domain; empty if no policy says, so that the default holds"""

    @property
    def limits(self) -> tuple[tuple[Term, int], ...]:
        """The policies that limit the number of devices, with their limit."""
        return tuple((term, most) for term in self.terms if (most := term.policy.max_devices) is not None)

    @property
    def default_share(self) -> ShareLimit | None:
        """The share of a request without one: the smallest of those that policies name."""
        shares = [share for term in self.terms if (share := term.policy.default_share)]
        return min(shares, key=lambda share: (not share.percent, share.amount), default=None)

    def refusal(self, ask: Ask) -> Reason | None:
        """Why no node may serve the request, whatever else is in use; None if nothing speaks against it."""
        # rule 002.access: every policy that applies must permit what is requested.
        for term in self.terms:
            if refused := _refusal(term, ask):
                return refused
        return None

    @property
    def requirement(self) -> Requirement | None:
        """The models that all policies permit, as a requirement on devices; None if no policy restricts them."""
        named = [(term, models) for term in self.terms if (models := term.policy.models) is not None]
        clauses = (Clause(term.policy.name, ((Comparison("model", "=", models),),), term.who) for term, models in named)
        return Requirement(tuple(clauses)) if named else None

    def restricts_nodes(self, ask: Ask) -> bool:
        """Whether `node_refusal` depends on the node."""
        shared = not ask.devices
        return any(term.policy.models is not None or (shared and term.policy.max_share) for term in self.terms)

    def node_refusal(self, ask: Ask, node: Node) -> Reason | None:
        """Why a node may not serve the request: the models of its devices, or the size of a share of them."""
        requirement = self.requirement
        permitted = suitable(node, requirement, 1) if requirement else node
        if isinstance(permitted, Reason):
            return permitted
        for term in self.terms:
            limit = term.policy.max_share
            if limit and not ask.devices and _exceeds(ask, permitted.devices, limit):
                return _share_refusal(term, ask, limit)
        return None


class AccessRules:
    """The rule of every subject, computed once per subject.

    Args:
        policies: by name.
        labels: of namespaces, by name. A namespace that is not in it has no labels but its name.
    """

    def __init__(self, policies: Mapping[str, AcceleratorPolicy], labels: Mapping[str, Mapping[str, str]]) -> None:
        self.policies: Final = {name: policies[name] for name in sorted(policies)}
        self.labels: Final = labels
        self._rules: dict[Subject, AccessRule | None] = {}
        self.governs_sharing: Final = any(policy.share_with for policy in self.policies.values())
        """whether a policy decides who shares with whom"""
        self.by_labels: Final = any(
            subjects.selector is not None
            for policy in self.policies.values()
            for subjects in (policy.subjects, policy.exempt)
        )
        """whether a policy selects namespaces by their labels"""
        self.groups: Final = frozenset(
            group
            for policy in self.policies.values()
            for subjects in (policy.subjects, policy.exempt)
            for group in subjects.groups
        )
        """groups that policies name"""

    def __bool__(self) -> bool:
        return bool(self.policies)

    def rule(self, subject: Subject) -> AccessRule | None:
        """The rule of a subject; None if no policy applies."""
        if subject in self._rules:
            return self._rules[subject]
        if len(self._rules) >= MOST_SUBJECTS:
            self._rules.clear()
        rule = self._rules[subject] = self._compute(subject)
        return rule

    def known(self, subject: Subject) -> AccessRule | None:
        """The rule as it was computed before, though labels changed since; None also if it was not."""
        return self._rules.get(subject)

    def _compute(self, subject: Subject) -> AccessRule | None:
        labels = self.labels.get(subject.namespace) or {NAME_LABEL: subject.namespace}
        found = ((policy, self.applies(policy, subject, labels)) for policy in self.policies.values())
        terms = tuple(Term(policy, who) for policy, who in found if who)
        return AccessRule(terms, _domain([term.policy for term in terms], subject)) if terms else None

    def applies(self, policy: AcceleratorPolicy, subject: Subject, labels: Mapping[str, str]) -> str:
        """The entry by which a policy applies to a subject; empty if it does not."""
        who = selected(policy.subjects, subject, labels)
        return "" if who and selected(policy.exempt, subject, labels) else who


NO_RULES: Final = AccessRules({}, {})


def selected(subjects: Subjects, subject: Subject, labels: Mapping[str, str]) -> str:
    """The first entry that selects a subject, for sentences; empty if none does."""
    if subject.user and subject.user in subjects.users:
        return f"user {subject.user}"
    group = next((group for group in subjects.groups if group in subject.groups), "")
    if group:
        return f"group {group}"
    for namespace, name in subjects.service_accounts:
        runs_as = (namespace, name) == (subject.namespace, subject.service_account)
        if runs_as or subject.user == f"system:serviceaccount:{namespace}:{name}":
            return f"service account {namespace}/{name}"
    selector = subjects.selector
    by_labels = selector is not None and (
        selector.match_labels.items() <= labels.items() and all_met(selector.expressions, labels)
    )
    return f"namespace {subject.namespace}" if by_labels or subject.namespace in subjects.namespaces else ""


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether a text matches one of the patterns, in which `*` stands for any characters."""
    return any(_pattern(pattern).fullmatch(text) for pattern in patterns)


def devices_of(ask: Ask) -> int:
    """The number of devices by which a request counts: a share of a device counts as one."""
    return ask.devices or 1


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _refusal(term: Term, ask: Ask) -> Reason | None:
    policy = term.policy
    if policy.invalid:
        return Reason(RULE, ask.resource, (term.who, policy.invalid), "invalid", policy.name)
    if policy.resources is not None and not matches(policy.resources, ask.resource):
        return Reason(RULE, ask.resource, (term.who, *policy.resources), "resource", policy.name)
    if policy.max_devices is not None and devices_of(ask) > policy.max_devices:
        return Reason(RULE, devices_of(ask), (term.who, str(policy.max_devices)), "too many", policy.name)
    limit = policy.max_share
    if limit and not ask.devices and not ask.in_bytes and limit.percent == (ask.mode == "percent"):
        return _share_refusal(term, ask, limit) if ask.share > limit.amount else None
    return None


def _exceeds(ask: Ask, devices: Sequence[Device], limit: ShareLimit) -> bool:
    """Whether the request exceeds the limit on one of the devices that could serve it."""
    for device in devices:
        share = sum(shares_on(ask, device.memory, device.bytes) or ())
        too_much = share * 100 > limit.amount * device.memory if limit.percent else share > limit.amount
        if too_much and share <= device.memory:
            return True
    return False


def _share_refusal(term: Term, ask: Ask, limit: ShareLimit) -> Reason:
    unit = "%" if ask.mode == "percent" else "bytes" if ask.in_bytes else ""
    return Reason(RULE, ask.share, (term.who, str(limit)), "share", term.policy.name, unit)


def _domain(policies: Sequence[AcceleratorPolicy], subject: Subject) -> str:
    """The sharing domain: the pods that all policies with a sharing rule permit."""
    # rule 002.segregate: never, by namespace, by user, or by both.
    said = {policy.share_with for policy in policies if policy.share_with}
    if not said:
        return ""
    if "never" in said:
        return ALONE
    by_namespace, by_user = (any(_WITHIN[word][place] for word in said) for place in (0, 1))
    if by_user and not subject.user:
        return ALONE  # an unknown user may be anybody
    parts = ([subject.namespace] if by_namespace else []) + ([f"user:{subject.user}"] if by_user else [])
    return " ".join(parts) or COMMON
