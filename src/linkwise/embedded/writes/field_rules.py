"""Rules of fields: metadata, the pod spec, and the fields that updates may change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.embedded.api_errors import Cause
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import Container, ObjectMeta, PodSpec, Resources
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "check_label_name",
    "check_meta",
    "check_name",
    "check_pod_spec",
    "check_pod_update",
    "check_qualified_name",
    "check_subdomain",
    "gated_condition",
    "with_condition",
]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_NATIVE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE: Final = ("containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates")
_MUTABLE_GATED: Final = (*_MUTABLE, "nodeSelector", "affinity")
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_NAMED: Final = frozenset({"namespaces", "services"})
_PATH_NAMED: Final = frozenset({"clusterroles", "clusterrolebindings", "roles", "rolebindings"})
"""resources whose names only have to be valid path segments"""
_ANNOTATION_BYTES: Final = 256 << 10
_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_MESSAGE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check_pod_spec(spec: PodSpec, place: str = "spec") -> Iterator[Cause]:
    """Validate a pod spec."""
    if not spec.containers:
        yield Cause(f"{place}.containers", "Required value")
    names: set[str] = set()
    claims = {claim.name for claim in spec.resource_claims}
    for key, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            yield from _check_container(f"{place}.{key}[{index}]", container, names)
            yield from _check_claim_references(f"{place}.{key}[{index}].resources.claims", container, claims)
    if spec.restart_policy not in _RESTART_POLICIES:
        supported = ", ".join(f'"{key}"' for key in _RESTART_POLICIES)
        yield Cause(
            f"{place}.restartPolicy", f'Unsupported value: "{spec.restart_policy}": supported values: {supported}'
        )
    if (spec.termination_grace_period_seconds or 0) < 0:
        yield Cause(f"{place}.terminationGracePeriodSeconds", "Invalid value: must be greater than or equal to 0")
    yield from check_labels(f"{place}.nodeSelector", spec.node_selector)
    yield from _check_gates(spec, place)
    yield from _check_claims(spec, f"{place}.resourceClaims")


def check_pod_update(old: Raw, new: Raw) -> Iterator[Cause]:
    """Validate an update of an existing pod's spec."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    gated = bool(before.get("schedulingGates"))
    mutable = _MUTABLE_GATED if gated else _MUTABLE
    if gates := {gate.get("name") for gate in after.get("schedulingGates") or ()} - {
        gate.get("name") for gate in before.get("schedulingGates") or ()
    }:
        names = ", ".join(sorted(map(str, gates)))
        yield Cause(
            "spec.schedulingGates", f"Forbidden: only deletion is allowed, but found new scheduling gate '{names}'"
        )
    if gated:
        yield from _check_gated(before, after)
    changed = [key for key in {*before, *after} - set(mutable) if before.get(key) != after.get(key)]
    changed += [
        key
        for key in ("containers", "initContainers")
        if _without_images(before.get(key)) != _without_images(after.get(key))
    ]
    if any(toleration not in (after.get("tolerations") or ()) for toleration in before.get("tolerations") or ()):
        changed.append("tolerations")
    deadlines = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if deadlines[0] is not None and (deadlines[1] is None or deadlines[1] > deadlines[0]):
        changed.append("activeDeadlineSeconds")
    if changed:
        yield Cause("spec", f"Forbidden: {_CHANGEABLE}\n  changed: {', '.join(sorted(changed))}")


def gated_condition(spec: Raw, now: str) -> Raw | None:
    """The PodScheduled condition of a pod with scheduling gates; None without gates."""
    if not spec.get("schedulingGates"):
        return None
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def with_condition(conditions: Any, condition: Raw) -> list[Raw]:  # noqa: ANN401 - JSON
    """The conditions with this one added, or replaced if its type is present."""
    others = [existing for existing in conditions or () if existing.get("type") != condition["type"]]
    same = next((existing for existing in conditions or () if existing.get("type") == condition["type"]), None)
    if same is not None and same.get("status") == condition["status"]:
        condition = {**condition, "lastTransitionTime": same.get("lastTransitionTime")}
    return [*others, condition]


def check_label_name(text: str) -> str:
    """The error of a name that must be an RFC 1123 label; empty if it is valid."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(text) else _LABEL_MESSAGE


def check_qualified_name(text: str) -> str:
    """The error of a key such as example.com/name; empty if it is valid."""
    prefix, slash, name = text.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {_SUBDOMAIN_MESSAGE}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if _NAME_PART.fullmatch(name) else _KEY_MESSAGE


def check_name(resource: Resource, name: str) -> str:
    """The error of an object's name; empty if it is valid."""
    if resource.plural in _PATH_NAMED:
        return "may not be '.' or '..', or contain '/' or '%'" if name in {".", ".."} or set("/%") & set(name) else ""
    if resource.plural in _LABEL_NAMED and not resource.group:
        return check_label_name(name)
    return check_subdomain(name)


def check_subdomain(text: str) -> str:
    """The error of a name that must be an RFC 1123 subdomain; empty if it is valid."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(text) else _SUBDOMAIN_MESSAGE


def check_meta(resource: Resource, meta: ObjectMeta) -> Iterator[Cause]:
    """Validate an object's metadata."""
    if not meta.name:
        yield Cause("metadata.name", "Required value: name or generateName is required")
    elif message := check_name(resource, meta.name):
        yield Cause("metadata.name", f'Invalid value: "{meta.name}": {message}')
    yield from check_labels("metadata.labels", meta.labels)
    for key in meta.annotations:
        if message := check_qualified_name(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": {message}')
    if sum(len(key) + len(value) for key, value in meta.annotations.items()) > _ANNOTATION_BYTES:
        yield Cause("metadata.annotations", f"Too long: may not be more than {_ANNOTATION_BYTES} bytes")
    for index, owner in enumerate(meta.owner_references):
        for key, value in (("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name)):
            if not value:
                yield Cause(f"metadata.ownerReferences[{index}].{key}", 'Invalid value: "": must not be empty')
    if sum(bool(owner.controller) for owner in meta.owner_references) > 1:
        yield Cause("metadata.ownerReferences", "Invalid value: Only one reference can have Controller set to true")


def check_labels(place: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    """Validate labels."""
    for key, value in labels.items():
        if message := check_qualified_name(key):
            yield Cause(place, f'Invalid value: "{key}": {message}')
        if len(value) > 63:
            yield Cause(place, f'Invalid value: "{value}": must be no more than 63 bytes')
        elif value and not _NAME_PART.fullmatch(value):
            yield Cause(place, f'Invalid value: "{value}": {_VALUE_MESSAGE}')


def _check_container(place: str, container: Container, names: set[str]) -> Iterator[Cause]:
    if not container.name:
        yield Cause(f"{place}.name", "Required value")
    elif message := check_label_name(container.name):
        yield Cause(f"{place}.name", f'Invalid value: "{container.name}": {message}')
    elif container.name in names:
        yield Cause(f"{place}.name", f'Duplicate value: "{container.name}"')
    names.add(container.name)
    if not container.image:
        yield Cause(f"{place}.image", "Required value")
    for key, quantities in (("limits", container.resources.limits), ("requests", container.resources.requests)):
        for name, quantity_text in quantities.items():
            yield from _check_quantity(f"{place}.resources.{key}[{name}]", name, str(quantity_text))
    yield from _check_requests(f"{place}.resources", container.resources)


def _check_quantity(place: str, name: str, amount: str) -> Iterator[Cause]:
    try:
        value = quantity(amount)
    except InputError:
        expression = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        yield Cause(place, f'Invalid value: "{amount}": quantities must match the regular expression {expression}')
        return
    if message := check_qualified_name(name):
        yield Cause(place, f'Invalid value: "{name}": {message}')
    elif "/" not in name and name not in _NATIVE_RESOURCES and not name.startswith("hugepages-"):
        yield Cause(place, f'Invalid value: "{name}": must be a standard resource type or fully qualified')
    if value < 0:
        yield Cause(place, f'Invalid value: "{amount}": must be greater than or equal to 0')
    elif "/" in name and value != value.to_integral_value():
        yield Cause(place, f'Invalid value: "{amount}": must be an integer')


def _check_requests(place: str, resources: Resources) -> Iterator[Cause]:
    """Extended resources can't be overcommitted: their request must equal the limit. Others must not exceed it."""
    for name, request in resources.requests.items():
        limit, is_extended = resources.limits.get(name), "/" in name
        if limit is None:
            if is_extended:
                yield Cause(f"{place}.limits", "Required value: Limit must be set for non overcommitable resources")
            continue
        try:
            exceeds, differs = (
                quantity(str(request)) > quantity(str(limit)),
                quantity(str(request)) != quantity(str(limit)),
            )
        except InputError:
            continue  # _check_quantity reports it
        if exceeds or (is_extended and differs):
            relation = "equal to" if is_extended else "less than or equal to"
            yield Cause(f"{place}.requests", f'Invalid value: "{request}": must be {relation} {name} limit of {limit}')


def _check_gates(spec: PodSpec, place: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates):
        if message := check_qualified_name(gate.name):
            yield Cause(f"{place}.schedulingGates[{index}]", f'Invalid value: "{gate.name}": {message}')
        if gate.name in names:
            yield Cause(f"{place}.schedulingGates[{index}]", f'Duplicate value: "{gate.name}"')
        names.add(gate.name)
    if spec.scheduling_gates and spec.node_name:
        yield Cause(f"{place}.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared")


def _check_claims(spec: PodSpec, place: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, claim in enumerate(spec.resource_claims):
        if not claim.name:
            yield Cause(f"{place}[{index}].name", "Required value")
        elif message := check_label_name(claim.name):
            yield Cause(f"{place}[{index}].name", f'Invalid value: "{claim.name}": {message}')
        elif claim.name in names:
            yield Cause(f"{place}[{index}]", f'Duplicate value: "{claim.name}"')
        names.add(claim.name)
        sources = [name for name in (claim.resource_claim_name, claim.resource_claim_template_name) if name]
        fields = "`resourceClaimName`", "`resourceClaimTemplateName`"
        if len(sources) > 1:
            yield Cause(f"{place}[{index}]", f"Invalid value: at most one of {' or '.join(fields)} may be specified")
        elif not sources:
            yield Cause(f"{place}[{index}]", f"Invalid value: must specify one of: {', '.join(fields)}")


def _check_claim_references(place: str, container: Container, claims: Collection[str]) -> Iterator[Cause]:
    """Containers name claims of their pod."""
    used: set[tuple[str, str]] = set()
    for index, reference in enumerate(container.resources.claims):
        if not reference.name:
            yield Cause(f"{place}[{index}]", "Required value")
            continue
        if (reference.name, reference.request) in used:
            yield Cause(f"{place}[{index}]", f'Duplicate value: "{reference.name}"')
        used.add((reference.name, reference.request))
        if reference.name not in claims:
            known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{known}"
            yield Cause(f"{place}[{index}]", f'Not found: "{reference.name}": {why}')


def _check_gated(before: Raw, after: Raw) -> Iterator[Cause]:
    """A gated pod's node constraints may only be tightened."""
    selector, new_selector = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if any(new_selector.get(key) != value for key, value in selector.items()):
        yield Cause(
            "spec.nodeSelector",
            "Invalid value: only additions to spec.nodeSelector are allowed (no deletions or mutations)",
        )
    terms, new_terms = _required_terms(before), _required_terms(after)
    if terms is not None and not (
        new_terms and len(terms) == len(new_terms) and all(map(_is_narrower, terms, new_terms))
    ):
        yield Cause(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            "Invalid value: no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        )


def _required_terms(spec: Raw) -> list[Raw] | None:
    node: Raw = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return terms if isinstance(terms, list) else None


def _is_narrower(term: Raw, new: Raw) -> bool:
    keys = ("matchExpressions", "matchFields")
    return all((new.get(key) or [])[: len(term.get(key) or [])] == (term.get(key) or []) for key in keys)


def _without_images(containers: Sequence[Raw] | None) -> list[Raw]:
    return [{key: value for key, value in container.items() if key != "image"} for container in containers or ()]
