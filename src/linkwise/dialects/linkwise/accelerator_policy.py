"""AcceleratorPolicy objects: the reader, the pod as policies see it, and the annotations that name its creator.

deploy/crds/acceleratorpolicies.linkwise.dev.yaml holds the schema. The API server refuses most invalid values; an object
from before a schema change, or from a file, may have any. A policy with an invalid value is read as far as it can be and
marked as invalid: it permits nothing to the subjects that can be read.

The creator is trusted because users can't choose it: the webhook overwrites what a manifest has, and an admission policy of
the API server refuses any other value. Of the groups only those are recorded that access policies name, one per line, so
that the policy of the API server can compare them with the requester's.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.model.access_policy import AcceleratorPolicy, NamespaceSelector, ShareLimit, ShareWith, Subject, Subjects
from linkwise.model.views import SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.access_policy import Requester
    from linkwise.model.verdict import Problem
    from linkwise.model.views import PodView


__all__ = [
    "CREATOR",
    "GROUPS",
    "NAMESPACE",
    "POLICY",
    "SEPARATOR",
    "USER",
    "creator_annotations",
    "labels_of",
    "policy_of",
    "recorded_creator",
    "subject_of",
]

POLICY: Final = "AcceleratorPolicy.linkwise.dev"
NAMESPACE: Final = "Namespace"

_SPEC: Final = ("subjects", "except", "resources", "models", "maxDevices", "sharing")
_SUBJECTS: Final = ("users", "groups", "serviceAccounts", "namespaces", "namespaceSelector")
_SHARING: Final = ("with", "maxShare", "defaultShare")
_OPERATORS: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""operators of label selectors, and whether they have values"""
_PERCENT: Final = re.compile(r"([1-9][0-9]?|100)%")
_CONTROLLERS: Final = "system:serviceaccount:kube-system:"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_SYSTEM: Final = "system:"
USER: Final = "linkwise.dev/user"
GROUPS: Final = "linkwise.dev/groups"
CREATOR: Final = (USER, GROUPS)
SEPARATOR: Final = "\n"
"""between groups"""


def policy_of(name: str, document: Mapping[str, object]) -> tuple[AcceleratorPolicy, tuple[Problem, ...]]:
    """The policy, and what is wrong with it; an invalid one has what can be read, and `invalid` says what can't."""
    report = Report(f"AcceleratorPolicy {name}", "spec")
    spec = Fields.of(document.get("spec"), "spec", report)
    generation = _generation(document.get("metadata"))
    if spec is None:
        return _marked(AcceleratorPolicy(name, generation=generation), report)
    subjects = _subjects(spec, "subjects", report)
    if subjects == Subjects():
        report.refuse("spec.subjects selects no user; name users, groups, service accounts or namespaces")
    sharing = Fields.of(spec.raw["sharing"], "spec.sharing", report) if spec.raw.get("sharing") is not None else None
    most, default = (_share(sharing, field) if sharing else None for field in ("maxShare", "defaultShare"))
    if most and default and most.percent == default.percent and default.amount > most.amount:
        report.refuse(f"spec.sharing.defaultShare is {default}, which exceeds maxShare, {most}")
    policy = AcceleratorPolicy(
        name,
        subjects,
        _subjects(spec, "except", report),
        _texts(spec, "resources"),
        _texts(spec, "models"),
        None if spec.raw.get("maxDevices") is None else spec.number("maxDevices"),
        _share_with(sharing) if sharing else None,
        most,
        default,
        generation=generation,
    )
    spec.unknown(_SPEC)
    if sharing:
        sharing.unknown(_SHARING)
    return _marked(policy, report)


def subject_of(pod: PodView, requester: Requester | None = None) -> Subject:
    """The pod as policies see it: its creator is the requester, or the one that the webhook recorded.

    Pods of a Job or a Deployment are created by a controller of Kubernetes, which acts for no user of its own: for these the recorded
    user counts, if their template has one.
    """
    user, groups = recorded_creator(pod)
    if requester and not _is_control_plane(requester.user):
        user, groups = requester.user, requester.groups
    if _is_control_plane(user):
        user, groups = "", ()
    return Subject(pod.namespace, user, groups, pod.service_account or "default")


def labels_of(document: Mapping[str, object]) -> dict[str, str]:
    """The labels of a Namespace."""
    metadata = document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def creator_annotations(user: str, groups: Iterable[str], named: Iterable[str]) -> dict[str, str]:
    """Return the annotations for a user; `named` are the groups that policies name."""
    recorded = sorted(set(named).intersection(groups))
    return {USER: user, **({GROUPS: SEPARATOR.join(recorded)} if recorded else {})}


def recorded_creator(pod: PodView) -> tuple[str, tuple[str, ...]]:
    """Return the recorded user, empty if there is none, and the recorded groups."""
    lines = pod.annotations.get(GROUPS, "").split(SEPARATOR)
    return pod.annotations.get(USER, ""), tuple(line for line in lines if line)


def _generation(metadata: object) -> int:
    generation = metadata.get("generation") if isinstance(metadata, dict) else None
    return generation if isinstance(generation, int) and not isinstance(generation, bool) and generation > 0 else 0


def _marked(policy: AcceleratorPolicy, report: Report) -> tuple[AcceleratorPolicy, tuple[Problem, ...]]:
    wrong = "; ".join(problem.sentence for problem in report.problems) if report.broken else ""
    return replace(policy, invalid=wrong), tuple(report.problems)


def _subjects(spec: Fields, name: str, report: Report) -> Subjects:
    if spec.raw.get(name) is None:
        return Subjects()
    fields = Fields.of(spec.raw[name], f"spec.{name}", report)
    if fields is None:
        return Subjects()
    fields.unknown(_SUBJECTS)
    accounts = (
        (entry.text("namespace") or "", entry.text("name") or "")
        for entry in (fields.objects("serviceAccounts") if fields.raw.get("serviceAccounts") is not None else ())
    )
    return Subjects(
        _texts(fields, "users") or (),
        _texts(fields, "groups") or (),
        tuple(account for account in accounts if all(account)),
        _texts(fields, "namespaces") or (),
        _selector(fields, report),
    )


def _texts(spec: Fields, name: str) -> tuple[str, ...] | None:
    return None if spec.raw.get(name) is None else spec.texts(name)


def _selector(subjects: Fields, report: Report) -> NamespaceSelector | None:
    """The selector; None if there is none, or it is invalid: half a selector would select too many."""
    raw = subjects.raw.get("namespaceSelector")
    path = f"{subjects.path}namespaceSelector"
    own = Report(report.where, report.key)
    selector = None if raw is None else Fields.of(raw, path, own)
    parsed = None
    if selector is not None:
        selector.unknown(("matchLabels", "matchExpressions"))
        labels = selector.raw.get("matchLabels")
        pairs = Fields.of({} if labels is None else labels, f"{path}.matchLabels", own)
        wanted = {str(key): pairs.text(str(key), "") or "" for key in pairs.raw} if pairs else {}
        expressions = selector.objects("matchExpressions") if selector.raw.get("matchExpressions") is not None else ()
        parsed = NamespaceSelector(wanted, tuple(filter(None, map(_requirement, expressions))))
    report.problems += own.problems
    report.broken |= own.broken
    return None if own.broken else parsed


def _requirement(fields: Fields) -> SelectorRequirement | None:
    key, operator = fields.text("key"), fields.text("operator")
    values = fields.texts("values", ()) if fields.raw.get("values") is not None else ()
    if key is None or operator is None or values is None:
        return None
    if operator not in _OPERATORS:
        fields.report.refuse(f"{fields.path}operator is {shown(operator)}; use {', '.join(_OPERATORS)}")
        return None
    if bool(values) != _OPERATORS[operator]:
        expected = "lists no values" if not values else "lists values"
        fields.report.refuse(f"{fields.path}values: {operator} {expected}")
        return None
    return SelectorRequirement(key, operator, values)


def _share(sharing: Fields, name: str) -> ShareLimit | None:
    value = sharing.raw.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return ShareLimit(value)
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        return ShareLimit(int(match[1]), percent=True)
    sharing.report.refuse(
        f"spec.sharing.{name} is {shown(value)}; a percentage such as 50% or a number above 0 is expected"
    )
    return None


def _share_with(sharing: Fields) -> ShareWith | None:
    value = sharing.raw.get("with")
    domain: ShareWith | None = next((word for word in get_args(ShareWith) if word == value), None)
    if value is not None and domain is None:
        sharing.report.refuse(f"spec.sharing.with is {shown(value)}; use {', '.join(get_args(ShareWith))}")
    return domain


def _is_control_plane(user: str) -> bool:
    """Whether it is a component of Kubernetes and not a user of the cluster."""
    return user.startswith(_CONTROLLERS) or (user.startswith(_SYSTEM) and not user.startswith(_SERVICE_ACCOUNT))
