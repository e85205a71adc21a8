"""Access rules: what the policies that apply to a pod permit, and the domain in which it shares devices.

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
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.requirements import names_model, suitable
from linkwise.engine.selectors import all_met
from linkwise.model.access_policy import ALONE, COMMON, Subject
from linkwise.model.requirement import Clause, Comparison, Requirement
from linkwise.model.verdict import Reason
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.model.access_policy import AcceleratorPolicy, ShareLimit, Subjects
    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.node import Node

__all__ = [
    "NO_RULES",
    "RULE",
    "AccessRule",
    "AccessRules",
    "Condition",
    "Term",
    "conditions_of",
    "conflicts",
    "devices_of",
    "matches",
    "selected",
]

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
MOST_NAMED: Final = 5
"""namespaces, models and policies that a message names"""
_FIELDS: Final[Mapping[str, Callable[[AcceleratorPolicy], object]]] = {
    "resources": lambda policy: None if policy.resources is None else frozenset(policy.resources),
    "models": lambda policy: None if policy.models is None else frozenset(policy.models),
    "maxDevices": lambda policy: policy.max_devices,
    "sharing.with": lambda policy: policy.share_with,
    "sharing.maxShare": lambda policy: policy.max_share,
    "sharing.defaultShare": lambda policy: policy.default_share,
}


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
        matches = ((policy, self.applies(policy, subject, labels)) for policy in self.policies.values())
        terms = tuple(Term(policy, who) for policy, who in matches if who)
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


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, as in the status of Kubernetes objects."""

    type: str
    status: Literal["True", "False"]
    reason: str
    message: str


def conditions_of(
    policy: AcceleratorPolicy,
    disagreements: Collection[str],
    labels: Mapping[str, Mapping[str, str]],
    models: Collection[str],
    used: Mapping[str, int],
) -> tuple[Condition, ...]:
    """The conditions of a policy.

    Args:
        policy: the policy.
        disagreements: with other policies, as sentences.
        labels: of all namespaces.
        models: of all nodes.
        used: the devices that count for the policy, by namespace.
    """
    invalid = (
        Condition("Invalid", "True", "InvalidSpec", f"It permits nothing to those it selects: {policy.invalid}")
        if policy.invalid
        else Condition("Invalid", "False", "Valid", "The spec is valid.")
    )
    conflicting = (
        Condition("Conflicting", "True", "PoliciesDisagree", f"The stricter holds. {' '.join(disagreements)}")
        if disagreements
        else Condition("Conflicting", "False", "NoDisagreement", "No other policy for the same subjects disagrees.")
    )
    return (invalid, _effective(policy, labels, models), conflicting, _exceeded(policy, used))


@lru_cache(maxsize=2)
def conflicts(rules: AccessRules) -> dict[str, list[str]]:
    """The disagreements of each policy with others, as sentences; only fields that both set can disagree.

    Cached, because it is asked for every few seconds and the rules are another object after every change. Bound: every
    kind of subject is compared with every policy once, not with every pair of them.
    """
    by_policy: dict[str, dict[str, str]] = {name: {} for name in rules.policies}
    compared: set[tuple[str, ...]] = set()
    for subject, labels in _subjects(rules):
        policies = [policy for policy in rules.policies.values() if _applies(policy, subject, labels)]
        names = tuple(policy.name for policy in policies)
        if names in compared:
            continue
        compared.add(names)
        for one, other in combinations(policies, 2):
            fields = [name for name, value in _FIELDS.items() if _differ(value(one), value(other))]
            if not fields or other.name in by_policy[one.name]:
                continue
            common = selected(one.subjects, subject, labels)
            for own, another in ((one, other), (other, one)):
                sentence = (
                    f"AcceleratorPolicy {another.name} also applies to {common}, with different {_listed(fields)}."
                )
                by_policy[own.name][another.name] = sentence
    return {name: [others[other] for other in sorted(others)[:MOST_NAMED]] for name, others in by_policy.items()}


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _effective(
    policy: AcceleratorPolicy, labels: Mapping[str, Mapping[str, str]], models: Collection[str]
) -> Condition:
    """Whether the policy applies to anything that is there; users and groups can't be checked."""
    subjects = policy.subjects
    unknown = [name for name in subjects.namespaces if name not in labels]
    unknown += [
        f"{namespace} (of a service account)" for namespace, _ in subjects.service_accounts if namespace not in labels
    ]
    if unknown and labels:
        return Condition("Effective", "False", "UnknownNamespace", f"Namespaces that do not exist: {_named(unknown)}.")
    others = (subjects.users, subjects.groups, subjects.service_accounts, subjects.namespaces)
    if subjects.selector and labels and not any(others):
        chosen = any(selected(subjects, Subject(name), own) for name, own in labels.items())
        if not chosen:
            return Condition("Effective", "False", "NoNamespaceSelected", "The namespaceSelector selects no namespace.")
    missing = [pattern for pattern in policy.models or () if not any(names_model(pattern, model) for model in models)]
    if missing:
        return Condition("Effective", "False", "UnknownModel", f"Models that no node has: {_named(missing)}.")
    return Condition("Effective", "True", "Enforced", "The policy is enforced.")


def _exceeded(policy: AcceleratorPolicy, used: Mapping[str, int]) -> Condition:
    """Whether a namespace has more devices than the policy permits: not by decisions of ours."""
    most = policy.max_devices
    over = [f"{name} ({count})" for name, count in used.items() if most is not None and count > most]
    if not over:
        return Condition("Exceeded", "False", "WithinLimit", "No namespace has more devices than the policy permits.")
    message = (
        f"Namespaces with more than {most} devices: {_named(over)}. Pods that another scheduler bound, or that were bound before"
        " the policy, keep their devices."
    )
    return Condition("Exceeded", "True", "LimitExceeded", message)


def _applies(policy: AcceleratorPolicy, subject: Subject, labels: Mapping[str, str]) -> bool:
    return bool(selected(policy.subjects, subject, labels)) and not selected(policy.exempt, subject, labels)


def _subjects(rules: AccessRules) -> Iterator[tuple[Subject, Mapping[str, str]]]:
    """The subjects that policies name, then one namespace of each kind that selectors distinguish, with its labels."""
    named = dict.fromkeys(chain.from_iterable(_named_by(policy.subjects) for policy in rules.policies.values()))
    for subject in named:
        yield subject, rules.labels.get(subject.namespace) or {NAME_LABEL: subject.namespace}
    if not rules.by_labels:
        return
    keys = sorted(_label_keys(rules.policies.values()))
    exempt = {name for policy in rules.policies.values() for name in policy.exempt.namespaces}
    seen: set[tuple[object, ...]] = set()
    for name, labels in rules.labels.items():
        kind = (name if name in exempt else "", *(labels.get(key) for key in keys))
        if kind not in seen:
            seen.add(kind)
            yield Subject(name, service_account=""), labels


def _named_by(subjects: Subjects) -> Iterator[Subject]:
    """A subject per user, group, service account and namespace of a policy."""
    anywhere = "default"
    yield from (Subject(anywhere, user) for user in subjects.users)
    yield from (Subject(anywhere, f"a member of {group}", (group,)) for group in subjects.groups)
    yield from (Subject(namespace, service_account=name) for namespace, name in subjects.service_accounts)
    yield from (Subject(name, service_account="") for name in subjects.namespaces)


def _label_keys(policies: Iterable[AcceleratorPolicy]) -> set[str]:
    """The labels of namespaces that selectors look at."""
    both = (subjects for policy in policies for subjects in (policy.subjects, policy.exempt))
    selectors = [subjects.selector for subjects in both if subjects.selector]
    return {key for each in selectors for key in (*each.match_labels, *(need.key for need in each.expressions))}


def _named(names: Iterable[str]) -> str:
    listed = sorted(set(names))
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more


def _listed(fields: Collection[str]) -> str:
    *first, last = fields
    return f"{', '.join(first)} and {last}" if first else last
