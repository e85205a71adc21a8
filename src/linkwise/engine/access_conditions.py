"""Conditions of AcceleratorPolicies: what is invalid, what has no effect, and where two policies disagree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.access import NAME_LABEL, selected
from linkwise.engine.requirements import names_model
from linkwise.model.access_policy import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

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
) -> tuple[Condition, ...]:
    """The conditions of a policy, given its disagreements, the labels of all namespaces, and the models of all nodes."""
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
    return (invalid, _effective(policy, labels, models), conflicting)


def conflicts(
    policies: Mapping[str, AcceleratorPolicy], labels: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """The disagreements of each policy with others, as sentences; only fields that both set can disagree."""
    found: dict[str, list[str]] = {name: [] for name in policies}
    for one, other in combinations(policies.values(), 2):
        fields = [name for name, value in _FIELDS.items() if _differ(value(one), value(other))]
        common = _common_subject(one, other, labels) if fields else ""
        if common:
            for own, another in ((one, other), (other, one)):
                sentence = f"AcceleratorPolicy {another.name} also applies to {common} and has other {_listed(fields)}."
                found[own.name].append(sentence)
    return {name: sentences[:MOST_NAMED] for name, sentences in found.items()}


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


def _common_subject(one: AcceleratorPolicy, other: AcceleratorPolicy, labels: Mapping[str, Mapping[str, str]]) -> str:
    """A subject to which both policies apply, for a sentence; empty if none is known."""
    for subject in _candidates(one.subjects, other.subjects, labels):
        own = labels.get(subject.namespace) or {NAME_LABEL: subject.namespace}
        if all(_applies(policy, subject, own) for policy in (one, other)):
            return selected(one.subjects, subject, own) or selected(other.subjects, subject, own)
    return ""


def _applies(policy: AcceleratorPolicy, subject: Subject, labels: Mapping[str, str]) -> bool:
    return bool(selected(policy.subjects, subject, labels)) and not selected(policy.exempt, subject, labels)


def _candidates(one: Subjects, other: Subjects, labels: Mapping[str, Mapping[str, str]]) -> Iterator[Subject]:
    """Subjects that are named or known: users and groups of both, service accounts, namespaces."""
    anywhere = "default"
    for subjects in (one, other):
        yield from (Subject(anywhere, user) for user in subjects.users)
        yield from (Subject(anywhere, "somebody", (group,)) for group in subjects.groups)
        yield from (Subject(namespace, service_account=name) for namespace, name in subjects.service_accounts)
        yield from (Subject(name, service_account="") for name in subjects.namespaces)
    if one.selector or other.selector:
        yield from (Subject(name, service_account="") for name in labels)


def _named(names: Iterable[str]) -> str:
    listed = sorted(set(names))
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more


def _listed(fields: Collection[str]) -> str:
    *first, last = fields
    return f"{', '.join(first)} and {last}" if first else last
