"""Conditions of AcceleratorPolicies: what is invalid, what has no effect, where two disagree, and whose limit is exceeded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.access import NAME_LABEL, selected
from linkwise.engine.requirements import names_model
from linkwise.model.access_policy import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from linkwise.engine.access import AccessRules
    from linkwise.model.access_policy import AcceleratorPolicy, Subjects

__all__ = ["Condition", "conditions_of", "conflicts"]

MOST_NAMED: Final = 5
"""namespaces, models and policies that a message names"""


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
    found: dict[str, dict[str, str]] = {name: {} for name in rules.policies}
    compared: set[tuple[str, ...]] = set()
    for subject, labels in _subjects(rules):
        policies = [policy for policy in rules.policies.values() if _applies(policy, subject, labels)]
        names = tuple(policy.name for policy in policies)
        if names in compared:
            continue
        compared.add(names)
        for one, other in combinations(policies, 2):
            fields = [name for name, value in _FIELDS.items() if _differ(value(one), value(other))]
            if not fields or other.name in found[one.name]:
                continue
            common = selected(one.subjects, subject, labels)
            for own, another in ((one, other), (other, one)):
                sentence = (
                    f"AcceleratorPolicy {another.name} also applies to {common}, with different {_listed(fields)}."
                )
                found[own.name][another.name] = sentence
    return {name: [others[other] for other in sorted(others)[:MOST_NAMED]] for name, others in found.items()}


_FIELDS: Final[Mapping[str, Callable[[AcceleratorPolicy], object]]] = {
    "resources": lambda policy: None if policy.resources is None else frozenset(policy.resources),
    "models": lambda policy: None if policy.models is None else frozenset(policy.models),
    "maxDevices": lambda policy: policy.max_devices,
    "sharing.with": lambda policy: policy.share_with,
    "sharing.maxShare": lambda policy: policy.max_share,
    "sharing.defaultShare": lambda policy: policy.default_share,
}


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
